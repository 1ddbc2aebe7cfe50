"""PREPTOOL: a set of subscriptions -> the chunking scheme of a degree, kept up to date as subscriptions come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from twigcast.chunk.expressions import Atom, Splitter, Whole, selections
from twigcast.chunk.formula import NO, Found
from twigcast.chunk.needs import NeedsDocument, beside, keeps, reach, reduced, unit, whole
from twigcast.chunk.scheme import Answer, Chunk, Expression, Keep, Notice, Part, Path, Scheme
from twigcast.chunk.text import NoText, Writer
from twigcast.chunk.tree import QueryTree
from twigcast.chunk.unfold import nesting
from twigcast.engine import Engine, Subscription, SubscriptionId
from twigcast.errors import OptionError
from twigcast.pattern import Predicate, Twig
from twigcast.schema import Schema

BESIDE = ("potpourri", "filters")


@dataclass(slots=True)
class _Entry:
    """An expression, how many subscriptions use it, and where it may live."""

    expression: Expression
    atom: Atom | None
    reach: Path = ()
    keeps: tuple[Keep, ...] | None = None
    """In the potpourri; None: it takes the document."""
    uses: int = 0


@dataclass(slots=True)
class _Known:
    subscription: Subscription
    answer: Answer
    notice: Notice | None
    entries: list[_Entry] = field(default_factory=list)


class Preparer:
    """The subscriptions, their expressions, and the query tree.

    ``beside`` says what becomes of an expression with a condition on what lies beside the chunk that it would be in.
    ``filters``: the chunk is extended by filter nodes, as in the paper; it is then one fragment, complete only when all
    of the document has been read. ``potpourri``: it goes there, or into a chunk that begins higher up; every chunk may
    then be cut into batches, so that memory is bounded whatever the size of the document.
    """

    def __init__(
        self, schema: Schema | None = None, *, namespaces: Mapping[str, str] | None = None, beside: str = BESIDE[0]
    ) -> None:
        if beside not in BESIDE:
            hint = f"use one of {', '.join(BESIDE)}"
            raise OptionError("unknown-beside", f"there is no {beside!r} for what lies beside a chunk", hint=hint)
        self._check = Engine(namespaces=namespaces)
        self._namespaces = self._check.namespaces
        self._graph = None if schema is None else nesting(schema.graph)
        self._filters = beside == "filters"
        self._known: dict[SubscriptionId, _Known] = {}
        self._numbers: dict[Atom, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._next = 0
        self._tree = QueryTree()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, subscription: Subscription) -> None:
        """Raises what ``Engine.add`` raises for a query that is none."""
        if subscription.id in self._known:
            raise OptionError("duplicate-id", f"there is a subscription {subscription.id!r} already")
        self._check.check(subscription)
        known = self._split(subscription)
        self._known[subscription.id] = known
        known.entries = [self._entries[number] for number in dict.fromkeys(known.answer.expressions)]
        for entry in known.entries:
            entry.uses += 1
        self._tree.add(entry.reach for entry in known.entries)

    def remove(self, id: SubscriptionId) -> None:
        known = self._known.pop(id, None)
        if known is None:
            raise OptionError("unknown-subscription", f"there is no subscription {id!r}")
        self._tree.add((entry.reach for entry in known.entries), -1)
        for entry in known.entries:
            entry.uses -= 1
            if not entry.uses:
                self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        del self._entries[entry.expression.number]
        if entry.atom is not None:
            del self._numbers[entry.atom]

    # -- expressions

    def _split(self, s: Subscription) -> _Known:
        before = self._next
        splitter = Splitter(self._graph, self._number)
        parts: tuple[Part, ...] = ()
        try:
            what = selections(s, self._namespaces)
            if isinstance(what, Predicate):
                matches = splitter.formula(what)
            else:
                matches, parts = splitter.union(what, s.result)
        except (Whole, NoText):
            for number in range(before, self._next):
                self._forget(self._entries[number])
            whole = replace(s, id=self._next, namespaces={**self._namespaces, **(s.namespaces or {})})
            number = self._enter(_Entry(Expression(self._next, whole), None))
            return _Known(s, Answer(s.id, s.result, Found(number), taken=number), None)
        answer = Answer(s.id, s.result, matches, parts)
        used = set(answer.expressions)
        for number in range(before, self._next):
            if number not in used:
                self._forget(self._entries[number])
        notice = None
        if matches == NO and splitter.reason is not None:
            notice = Notice(s.id, splitter.reason.text, splitter.reason.hint)
        return _Known(s, answer, notice)

    def _number(self, atom: Atom) -> int:
        number = self._numbers.get(atom)
        if number is not None:
            return number
        what = atom.what
        writer = Writer()
        text = writer.path(what) if isinstance(what, Twig) else writer.condition(what)
        prefix = reach(what, filters=self._filters) if isinstance(what, Twig) else ()
        try:
            kept = keeps(what, content=atom.result == "fragments")
        except NeedsDocument:
            kept = None
        pieces = unit(what) if isinstance(what, Twig) and atom.result == "match" else None
        sound = whole(what) if isinstance(what, Twig) else None
        s = Subscription(self._next, text, writer.prefixes or None, result=atom.result)
        number = self._numbers[atom] = self._enter(_Entry(Expression(self._next, s, pieces, sound), atom, prefix, kept))
        return number

    def _enter(self, entry: _Entry) -> int:
        number = self._next
        self._next += 1
        self._entries[number] = entry
        return number

    # -- the scheme

    def scheme(self, chunks: int) -> Scheme:
        """The scheme of this degree: at most so many chunks, and a potpourri."""
        if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 0:
            raise OptionError("bad-chunks", f"the number of chunks is a whole number from 0, not {chunks!r}")
        prefixes = self._tree.prefixes(chunks)
        places = {prefix: number for number, prefix in enumerate(prefixes, 1)}
        inside: list[list[_Entry]] = [[] for _ in range(len(prefixes) + 1)]
        for entry in self._entries.values():
            depth = len(entry.reach)
            while depth and entry.reach[:depth] not in places:
                depth -= 1
            inside[places[entry.reach[:depth]] if depth else 0].append(entry)
        weights = self._weights(inside)
        made = [
            Chunk(number, prefix, _filters(prefix, inside[number]), _expressions(inside[number]), weights[number])
            for prefix, number in places.items()
        ]
        kept = [entry.keeps for entry in inside[0]]
        whole = None in kept
        together = () if whole else reduced([one for some in kept for one in some or ()])
        potpourri = Chunk(0, (), together, _expressions(inside[0]), weights[0], whole)
        known = self._known.values()
        notices = tuple(one.notice for one in known if one.notice is not None)
        return Scheme(tuple(made), potpourri, tuple(one.answer for one in known), notices, self._graph)

    def _weights(self, inside: list[list[_Entry]]) -> list[int]:
        place = {entry.expression.number: number for number, entries in enumerate(inside) for entry in entries}
        weights = [0] * len(inside)
        for known in self._known.values():
            for number in {place[entry.expression.number] for entry in known.entries}:
                weights[number] += 1
        return weights


def _filters(prefix: Path, entries: list[_Entry]) -> tuple[Keep, ...]:
    found: list[Keep] = []
    for entry in entries:
        if entry.atom is not None and isinstance(entry.atom.what, Twig):
            found += beside(entry.atom.what, len(prefix))
    return reduced([one for one in found if one.subtree or not _on_way(one, prefix)])


def _on_way(keep: Keep, prefix: Path) -> bool:
    """Whether this is a tag above the chunk, which is there anyway."""
    return (
        False
        if len(keep.steps) >= len(prefix)
        else all(
            step.axis == "child" and (step.ns, step.local) == name
            for step, name in zip(keep.steps, prefix, strict=False)
        )
    )


def _expressions(entries: list[_Entry]) -> tuple[Expression, ...]:
    return tuple(entry.expression for entry in entries)


def prepare(
    subscriptions: Iterable[Subscription],
    *,
    chunks: int,
    schema: Schema | None = None,
    namespaces: Mapping[str, str] | None = None,
    beside: str = BESIDE[0],
) -> Scheme:
    """The scheme for a set of subscriptions; see ``Preparer``."""
    preparer = Preparer(schema, namespaces=namespaces, beside=beside)
    for one in subscriptions:
        preparer.add(one)
    return preparer.scheme(chunks)
