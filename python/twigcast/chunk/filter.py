"""FILTERTOOL: each fragment against the expressions of its chunk, and the outcomes put together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from twigcast.chunk.scheme import Answer, Chunk, Fragment, Group, Scheme
from twigcast.engine import Alike, Engine, Subscription, SubscriptionId
from twigcast.engine.failures import Failure
from twigcast.engine.results import Selected
from twigcast.engine.shares import RESULT_BYTES, RESULT_NODES, Result, within_budget
from twigcast.errors import TwigcastError
from twigcast.lang.literals import is_sentinel, taken_apart, with_sentinels
from twigcast.limits import Limits

# Expressions of one shape that are worth learning it.
_FEW = 3

Reason: TypeAlias = tuple[str, str]
"""Why an expression could not be evaluated: code and text."""


class Outcome(NamedTuple):
    """An expression that holds on a fragment, and what it selects there, with the document's own node ids."""

    number: int
    nodes: list[int] | None = None
    fragments: list[bytes] | None = None
    complete: bool = True
    payload: bytes | None = None
    refused: Reason | None = None
    """Instead of all that: why it could not be evaluated."""
    missing: str | None = None
    """Why results are missing, where it is not complete."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A subscription of which it is not known whether it matches, and why."""

    id: SubscriptionId
    code: str
    text: str


class Filter:
    """Evaluates fragments. The engine of a chunk is made when its first fragment comes."""

    def __init__(self, scheme: Scheme, *, limits: Limits | None = None) -> None:
        self.scheme = scheme
        self.limits = limits or Limits()
        self._chunks = {chunk.number: chunk for chunk in scheme.fragments}
        self._engines: dict[int, ChunkEngine] = {}

    def make(self, chunk: Chunk) -> ChunkEngine:
        """Return what evaluates the expressions of a chunk: any XPath engine will do (eXtract, section 3)."""
        return ChunkEngine(chunk, self.limits)

    def evaluate(self, fragment: Fragment) -> list[Outcome]:
        """Return the outcomes of the expressions that hold on a fragment."""
        engine = self._engines.get(fragment.chunk)
        if engine is None:
            engine = self._engines[fragment.chunk] = self.make(self._chunks[fragment.chunk])
        found = engine.outcomes(fragment.xml)
        if not fragment.runs:
            return found
        ids = Ids(fragment.runs)
        return [one if one.nodes is None else one._replace(nodes=ids.of_document(one.nodes)) for one in found]


class Ids:
    """From the nodes of a fragment to those of the document."""

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        self._here = [here for here, _ in runs]
        self._shift = [there - here for here, there in runs]

    def of_document(self, nodes: Iterable[int]) -> list[int]:
        return [node and node + self._shift[bisect_right(self._here, node) - 1] for node in nodes]


class ChunkEngine:
    """Evaluates the expressions of a chunk with an ``Engine``."""

    def __init__(self, chunk: Chunk, limits: Limits) -> None:
        self._engine, problems = engine_of(chunk.groups, limits)
        self._refused = [_refused(id, reason) for id, reason in problems.items()]

    def outcomes(self, xml: bytes) -> list[Outcome]:
        """Return the expressions that hold on a fragment, with the ids of nodes in the fragment itself."""
        failures: list[Failure] = []
        if not self._engine.selects:
            matched = [Outcome(int(id)) for id in self._engine.match(xml, failures=failures)]
            return matched + [refused(one) for one in failures] + self._refused
        found = {int(one.id): one for one in self._engine.select(xml, failures=failures)}
        made = [refused(one) for one in failures] + self._refused
        for number, one in found.items():
            if number >= 0:
                twin = found.get(_twin(number))
                nodes = one.nodes if twin is None else twin.nodes
                made.append(Outcome(number, nodes, one.fragments, one.complete, one.payload, missing=one.reason))
        return made


def engine_of(groups: Iterable[Group], limits: Limits) -> tuple[Engine, dict[int, Reason]]:
    """Return an engine with the expressions, and why those that it cannot take are not in it.

    An expression that selects XML is registered twice, the second time for node ids, so that ``Merge`` can restore
    document order. An expression is longer than the query that it is a part of where it has to name the way to its
    chunk, so that the engine may refuse it.
    """
    engine = Engine(limits=limits)
    alike: list[Alike] = []
    rest: list[Subscription] = []
    for group in groups:
        learnt = _learn(engine, group)
        if learnt is not None:
            alike.append(learnt)
        else:
            rest += group.subscriptions
    rest += [replace(s, id=_twin(s.id), result="nodes") for s in rest if s.result == "fragments"]
    problems: dict[int, Reason] = {}
    try:
        engine.add_many(rest, alike)
    except TwigcastError:
        for s in rest:
            try:
                engine.check(s)
            except TwigcastError as error:
                problems[int(s.id)] = error.code, error.text
        engine.add_many([s for s in rest if s.id not in problems], alike)
    return engine, problems


def _learn(engine: Engine, group: Group) -> Alike | None:
    """Return the expressions of a group for registration in bulk; None if each must be parsed by itself."""
    texts = group.shape.texts
    if len(group.rows) < _FEW or len(texts) == 1 or group.shape.like.result != "match":
        return None
    first = next(iter(group.rows))
    parts = [""] * (2 * len(texts) - 1)
    parts[::2], parts[1::2] = texts, first
    # All literals of the text, and which of them are constants of the shape.
    every = taken_apart(with_sentinels(parts, list(range(len(first)))))[1]
    constants = [at for at, text in enumerate(every) if is_sentinel(text)]
    try:
        template = engine.learn(replace(group.shape.like, query="".join(parts)), set(constants))
    except TwigcastError:
        return None
    if template is None or len(constants) != len(first):
        return None
    literals: Iterable[str] = chain.from_iterable(group.rows)
    if len(every) != len(constants):
        columns = iter(zip(*group.rows, strict=True))
        filled = [next(columns) if is_sentinel(text) else repeat(text) for text in every]
        literals = chain.from_iterable(zip(*filled, strict=False))
    return template, list(group.rows.values()), list(literals)


def refused(failure: Failure) -> Outcome:
    return _refused(int(failure.id), (failure.error.code, failure.error.text))


def _refused(id: int, reason: Reason) -> Outcome:
    return Outcome(id if id >= 0 else _twin(id), refused=reason)


def _twin(number: object) -> int:
    assert isinstance(number, int)
    return -1 - number


@dataclass(slots=True)
class _Gathered:
    """What an expression has selected so far: nodes, each with its XML if that is asked for."""

    nodes: dict[int, bytes | None]
    ends: int | None = None
    """The last node known of a list that was cut off: what comes after it is not known to be next."""
    missing: str | None = None
    """Why it was cut off."""
    size: int = 0
    """Bytes of the XML."""

    def cut(self, last: int, missing: str | None) -> None:
        """Note that the list is known up to a node only."""
        if self.ends is None or last < self.ends:
            self.ends, self.missing = last, missing

    def keep_first(self, limits: Limits) -> None:
        """Forget nodes that are beyond the limits whatever may come yet."""
        many = len(self.nodes) > 2 * limits.max_result_nodes
        if not many and self.size <= 2 * limits.max_result_bytes:
            return
        kept: dict[int, bytes | None] = {}
        size = 0
        for node in sorted(self.nodes):
            text = self.nodes[node]
            size += len(text or b"")
            kept[node] = text
            if len(kept) > limits.max_result_nodes or size > limits.max_result_bytes:
                break
        if len(kept) < len(self.nodes):
            self.cut(max(kept), RESULT_NODES if len(kept) > limits.max_result_nodes else RESULT_BYTES)
        self.nodes, self.size = kept, size


class Merge:
    """Outcomes of the fragments of one document, in any order -> one answer per subscription."""

    def __init__(self, scheme: Scheme, limits: Limits | None = None) -> None:
        self._scheme = scheme
        self._limits = limits or Limits()
        self._found: dict[int, Outcome] = {}
        self._gathered: dict[int, _Gathered] = {}

    def add(self, outcomes: Iterable[Outcome]) -> None:
        for one in outcomes:
            self._found[one.number] = one
            if one.nodes is not None:
                gathered = self._gathered.setdefault(one.number, _Gathered({}))
                texts: Sequence[bytes | None] = [None] * len(one.nodes) if one.fragments is None else one.fragments
                pairs = list(zip(one.nodes, texts, strict=False))
                gathered.nodes.update(pairs)
                gathered.size += sum(len(text or b"") for _, text in pairs)
                if not one.complete:
                    last = pairs[-1][0] if pairs else -1
                    gathered.cut(last, one.missing)
                gathered.keep_first(self._limits)

    def answers(self) -> list[Selected]:
        """Return those of the subscriptions that match, in their order, within the budget of the document. What they
        select is in document order."""
        every = [self._answer(one) for one in self._scheme.answers if one.holds(one.shape.matches, self._found)]
        results: list[tuple[int, Result]] = [
            (at, (one.nodes, one.fragments, one.complete, one.payload, one.reason)) for at, one in enumerate(every)
        ]
        return [Selected(every[at].id, *result) for at, result in within_budget(results, self._limits)]

    def known(self, problems: Mapping[int, Reason], *, whole: bool) -> tuple[list[Selected], list[Undecided]]:
        """Return the answers that are known, and the subscriptions that are undecided.

        ``problems`` tells why expressions could not be evaluated. Unless the document was read ``whole``, only what the
        rest of it cannot change is known.
        """
        if whole and not problems:
            return self.answers(), []
        complete: dict[SubscriptionId, bool] = {}
        undecided: list[Undecided] = []
        for one in self._scheme.answers:
            missing = next((number for number in one.numbers if number in problems), None)
            if (whole and missing is None) or one.is_certain(self._found):
                complete[one.id] = whole and missing is None
            elif missing is not None:
                undecided.append(Undecided(one.id, *problems[missing]))
        found = [one for one in self.answers() if one.id in complete]
        return [one if complete[one.id] else _may_have_more(one) for one in found], undecided

    def _answer(self, answer: Answer) -> Selected:
        shape = answer.shape
        taken = self._found[answer.numbers[0]] if shape.taken else None
        if taken is not None and taken.nodes is None:
            return Selected(answer.id, None, None, taken.complete, taken.payload, taken.missing)
        if shape.result == "match":
            return Selected(answer.id)
        together: dict[int, bytes | None] = {}
        ends: list[tuple[int, str | None]] = []
        numbers = answer.numbers
        if not shape.taken:
            numbers = [answer.numbers[one.nodes] for one in shape.parts if answer.holds(one.guard, self._found)]
        for number in numbers:
            gathered = self._gathered.get(number)
            if gathered is not None:
                together.update(gathered.nodes)
                ends += [] if gathered.ends is None else [(gathered.ends, gathered.missing)]
        end, missing = min(ends, key=lambda pair: pair[0], default=(None, None))
        return self._cut(answer, together, end, missing)

    def _cut(self, answer: Answer, nodes: dict[int, bytes | None], end: int | None, missing: str | None) -> Selected:
        """Return as many results as the limits allow: the same ones as for the undivided document."""
        known = sorted(node for node in nodes if end is None or node <= end)
        few = known[: self._limits.max_result_nodes]
        if len(few) < len(known):
            missing = RESULT_NODES
        complete = end is None and len(few) == len(known)
        if answer.shape.result == "nodes":
            return Selected(answer.id, few, None, complete, reason=missing)
        given: list[bytes] = []
        size = 0
        for node in few:
            text = nodes[node] or b""
            size += len(text)
            if size > self._limits.max_result_bytes:
                return Selected(answer.id, None, given, False, reason=RESULT_BYTES)
            given.append(text)
        return Selected(answer.id, None, given, complete, reason=missing)


def _may_have_more(answer: Selected) -> Selected:
    """Return what is known of an answer where not all of the document is."""
    return answer if answer.nodes is None and answer.fragments is None else replace(answer, complete=False)
