"""PREPTOOL: a set of subscriptions -> the chunking scheme of a degree, kept up to date as subscriptions come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from twigcast.chunk.expressions import Atom, Splitter, Whole, selections
from twigcast.chunk.formula import Found, numbers, renumbered
from twigcast.chunk.needs import NeedsDocument, beside, keeps, reach, reduced, unit, whole
from twigcast.chunk.scheme import (
    Answers,
    AnswerShape,
    Chunk,
    ExpressionShape,
    Group,
    Keep,
    Notice,
    Part,
    Path,
    Rows,
    Scheme,
)
from twigcast.chunk.text import NoText, Writer
from twigcast.chunk.tree import QueryTree
from twigcast.chunk.unfold import nesting
from twigcast.engine import Engine, Subscription, SubscriptionId
from twigcast.errors import OptionError
from twigcast.ir.pattern import FALSE, Predicate, Twig
from twigcast.lang.literals import LITERAL, split_at_sentinels, with_sentinels
from twigcast.lang.shape import Template
from twigcast.schema import Schema

BESIDE = ("potpourri", "filters")


class _Split(NamedTuple):
    """How subscriptions of one shape are taken apart."""

    place: int
    """Among the shapes of answers."""
    expressions: list[tuple[Rows, tuple[int, ...]]]
    """The other expressions of the same shape, and which literals of the subscription are the constants of its own."""


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
        # Tuples, because the garbage collector would have to visit an object per subscription.
        self._answers: dict[SubscriptionId, tuple[int, ...]] = {}
        self._answer_shapes: list[AnswerShape] = []
        # of templates that come again
        self._splits: dict[tuple[Template, str], _Split] = {}
        self._groups: list[Group] = []
        self._by_text: dict[tuple[tuple[str, ...], tuple[bool, ...], str, frozenset[tuple[str, str]]], Group] = {}
        self._next = 0
        self._removed = False

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, s: Subscription) -> None:
        """Add a subscription; raises what ``Engine.add`` raises for a malformed query."""
        if s.id in self._answers:
            raise OptionError("duplicate-id", f"there is a subscription {s.id!r} already")
        (place, expressions), literals = self._split(s)
        row = [place]
        for rows, own in expressions:
            constants = tuple([literals[i] for i in own])
            number = rows.get(constants)
            if number is None:
                number = rows[constants] = self._next
                self._next += 1
            row.append(number)
        self._answers[s.id] = tuple(row)

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription."""
        if self._answers.pop(id, None) is None:
            raise OptionError("unknown-subscription", f"there is no subscription {id!r}")
        self._removed = True

    def _sweep(self) -> None:
        """Remove expressions that no subscription uses any more."""
        used = {number for row in self._answers.values() for number in row[1:]}
        for group in self._groups:
            for constants in [one for one, number in group.rows.items() if number not in used]:
                del group.rows[constants]
        self._removed = False

    # -- expressions

    def _split(self, s: Subscription) -> tuple[_Split, Sequence[str]]:
        """Split a subscription into expressions. Return the split of its shape, and its literals."""
        checked = self._check.check(s)
        if checked is None:
            return self._take_apart(s), ()
        template, literals = checked
        if not template.kept:
            return self._take_apart(s), literals
        key = template, s.result
        split = self._splits.get(key)
        if split is None:
            constants = sorted(template.constant_literals)
            query = with_sentinels(LITERAL.split(s.query), constants)
            split = self._splits[key] = self._take_apart(replace(s, query=query))
        return split, literals

    def _take_apart(self, s: Subscription) -> _Split:
        """``s`` may have sentinels in place of constants."""
        found: dict[Atom, int] = {}
        splitter = Splitter(self._graph, lambda atom: found.setdefault(atom, len(found)))
        parts: tuple[Part, ...] = ()
        try:
            what = selections(s, self._namespaces)
            if isinstance(what, Predicate):
                matches = splitter.formula(what)
            else:
                matches, parts = splitter.union(what, s.result)
            used = {*numbers(matches), *(n for part in parts for n in (part.nodes, *numbers(part.guard)))}
            groups = [self._group(atom) for atom, number in found.items() if number in used]
        except (Whole, NoText):
            like = replace(s, namespaces={**self._namespaces, **(s.namespaces or {})})
            texts, own, _ = split_at_sentinels(s.query)
            group = self._new_group(ExpressionShape(like, texts))
            return self._new_split(AnswerShape(s.result, (group.shape,), Found(0), taken=True), [(group, own)])
        places = {number: place for place, number in enumerate(sorted(used))}
        answer = AnswerShape(
            s.result,
            tuple(group.shape for group, _ in groups),
            renumbered(matches, places),
            tuple(Part(renumbered(one.guard, places), places[one.nodes]) for one in parts),
            reason=splitter.reason if matches == FALSE else None,
        )
        return self._new_split(answer, groups)

    def _new_split(self, answer: AnswerShape, groups: list[tuple[Group, tuple[int, ...]]]) -> _Split:
        self._answer_shapes.append(answer)
        return _Split(len(self._answer_shapes) - 1, [(group.rows, own) for group, own in groups])

    def _new_group(self, shape: ExpressionShape) -> Group:
        self._groups.append(Group(shape, {}))
        return self._groups[-1]

    def _group(self, atom: Atom) -> tuple[Group, tuple[int, ...]]:
        """Return the expressions of one shape, and which literals of the subscription are the constants of this one."""
        what = atom.what
        writer = Writer()
        text = writer.path(what) if isinstance(what, Twig) else writer.condition(what)
        texts, own, strings = split_at_sentinels(text)
        # A string and a number make different shapes of the same text.
        key = texts, strings, atom.result, frozenset(writer.prefixes.items())
        group = self._by_text.get(key)
        if group is not None:
            return group, own
        twig = what if isinstance(what, Twig) else None
        try:
            kept = keeps(what, content=atom.result == "fragments")
        except NeedsDocument:
            kept = None
        shape = ExpressionShape(
            Subscription(0, text, writer.prefixes or None, result=atom.result),
            texts,
            twig,
            () if twig is None else reach(twig, filters=self._filters),
            kept,
            None if twig is None or atom.result != "match" else unit(twig),
            None if twig is None else whole(twig),
        )
        group = self._by_text[key] = self._new_group(shape)
        return group, own

    # -- the scheme

    def scheme(self, chunks: int) -> Scheme:
        """Return the scheme of this degree: at most so many chunks, and a potpourri."""
        if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 0:
            raise OptionError("bad-chunks", f"the number of chunks is a whole number from 0, not {chunks!r}")
        if self._removed:
            self._sweep()
        counts = Counter(map(itemgetter(0), self._answers.values()))
        answers = [(self._answer_shapes[place], count) for place, count in counts.items()]
        tree = QueryTree()
        for answer, count in answers:
            tree.add([shape.reach for shape in answer.expressions], count)
        prefixes = tree.prefixes(chunks)
        numbered = {prefix: number for number, prefix in enumerate(prefixes, 1)}

        def home(shape: ExpressionShape) -> int:
            above = (shape.reach[:depth] for depth in range(len(shape.reach), 0, -1))
            return next((numbered[path] for path in above if path in numbered), 0)

        weights = [0] * (len(prefixes) + 1)
        for answer, count in answers:
            for number in set(map(home, answer.expressions)):
                weights[number] += count
        inside: list[list[Group]] = [[] for _ in weights]
        for group in self._groups:
            if group.rows:
                inside[home(group.shape)].append(Group(group.shape, group.rows.copy()))
        made = [
            Chunk(number, prefix, _filters(prefix, inside[number]), tuple(inside[number]), weights[number])
            for prefix, number in numbered.items()
        ]
        kept = [group.shape.keeps for group in inside[0]]
        whole = None in kept
        together = () if whole else reduced([one for some in kept for one in some or ()])
        potpourri = Chunk(0, (), together, tuple(inside[0]), weights[0], whole)
        every = Answers(tuple(self._answer_shapes), self._answers.copy())
        never = {place: shape.reason for place, shape in enumerate(every.shapes) if shape.reason is not None}
        notices = [(id, never.get(row[0])) for id, row in self._answers.items()] if never else []
        found = tuple(Notice(id, why.text, why.hint) for id, why in notices if why is not None)
        return Scheme(tuple(made), potpourri, every, found, self._graph)


def _filters(prefix: Path, groups: list[Group]) -> tuple[Keep, ...]:
    """Return what a chunk keeps beside the elements at its prefix."""
    twigs = [group.shape.twig for group in groups if group.shape.twig is not None]
    found = [one for twig in twigs for one in beside(twig, len(prefix))]
    return reduced([one for one in found if one.subtree or not _on_way(one, prefix)])


def _on_way(keep: Keep, prefix: Path) -> bool:
    """Return whether this is a tag above the chunk, which is there anyway."""
    return len(keep.steps) < len(prefix) and all(
        step.axis == "child" and (step.ns, step.local) == name for step, name in zip(keep.steps, prefix, strict=False)
    )


def prepare(
    subscriptions: Iterable[Subscription],
    *,
    chunks: int,
    schema: Schema | None = None,
    namespaces: Mapping[str, str] | None = None,
    beside: str = BESIDE[0],
) -> Scheme:
    """Return the scheme for a set of subscriptions; see ``Preparer``."""
    preparer = Preparer(schema, namespaces=namespaces, beside=beside)
    for one in subscriptions:
        preparer.add(one)
    return preparer.scheme(chunks)
