"""Shared post-processing (broker §5.2-5.3): many -FWR plans as one, built and unbuilt query by query.

Selections are pulled up over the semijoins: plans with the same binding path, predicate paths and operators (the
*signature*) share one join, and differ in constants alone, which one index holds. Return streams are grouped by the
binding field once for all who read them. An outer join with the same inputs, and a result with the same template, is
made once.

The paper pulls up over one predicate path. Here any number: whether a bound node qualifies is decided path by path,
for a semijoin only asks if some tuple fits, so that no product of tuples is ever made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from twigcast.ir.pattern import TRUE, Compare, Const, LinearPath, Predicate, StringValue, constants, predicate_text
from twigcast.ir.transform import Path
from twigcast.papers.plans.evaluate import holds, select
from twigcast.papers.plans.execute import PathTuple, Streams, execute, tuples_of
from twigcast.papers.plans.nodes import Message, Node
from twigcast.papers.plans.operators import (
    DupElim,
    Operator,
    OuterJoinSelect,
    Reference,
    Selection,
    Semijoin,
    Test,
    WhereFilter,
    stream_of,
)
from twigcast.papers.plans.planner import Plan
from twigcast.papers.plans.reference import passes
from twigcast.papers.plans.render import Group, render

Key: TypeAlias = tuple[Const, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What plans have to have in common to share a join and its selection; ``paths`` are the binding path and the
    predicate paths, ``masks`` their selections without the constants."""

    field: int
    paths: tuple[LinearPath, ...]
    masks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """The left input of an outer join: one output of a shared selection, and what is asked of it alone."""

    signature: Signature
    keys: tuple[Key, ...]
    anti: tuple[Operator, ...]
    rest: Predicate


@dataclass(frozen=True, slots=True)
class Join:
    left: Left
    rights: tuple[Operator, ...]
    paths: tuple[Path, ...]


@dataclass(eq=False, slots=True)
class SharedJoin:
    """``selections`` gives for each path the distinct selections on it, by their constants; ``outputs`` counts who
    reads each combination of constants (one tpList each)."""

    selections: list[dict[Key, tuple[Test, ...]]]
    users: list[Counter[Key]]
    outputs: Counter[tuple[Key, ...]] = field(default_factory=Counter)


class SharedPlans:
    """Plans by the id of their query. Adding or removing one touches the operators that it uses and no others."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[Plan, Join | None]] = {}
        self._joins: dict[Signature, SharedJoin] = {}
        self._outer: Counter[Join] = Counter()
        self._groups: Counter[tuple[int, Operator]] = Counter()

    def __len__(self) -> int:
        return len(self._plans)

    def counts(self) -> dict[str, int]:
        """How many operators there are of each kind."""
        return {
            "queries": len(self._plans),
            "joins": len(self._joins),
            "outputs": sum(len(one.outputs) for one in self._joins.values()),
            "group-bys": len(self._groups),
            "outer joins": len(self._outer),
        }

    # -- construction

    def add(self, query: Hashable, plan: Plan) -> None:
        if query in self._plans:
            self.remove(query)
        join, tests = _taken_apart(plan.root)
        self._plans[query] = plan, join
        if join is None:
            return
        left = join.left
        shared = self._joins.get(left.signature)
        if shared is None:
            paths = left.signature.paths
            shared = self._joins[left.signature] = SharedJoin([{} for _ in paths], [Counter() for _ in paths])
        for known, users, key, test in zip(shared.selections, shared.users, left.keys, tests, strict=True):
            known[key] = test
            users[key] += 1
        shared.outputs[left.keys] += 1
        self._outer[join] += 1
        for right in join.rights:
            self._groups[left.signature.field, right] += 1

    def remove(self, query: Hashable) -> None:
        _, join = self._plans.pop(query)
        if join is None:
            return
        left = join.left
        shared = self._joins[left.signature]
        for known, users, key in zip(shared.selections, shared.users, left.keys, strict=True):
            if not _released(users, key):
                del known[key]
        if not _released(shared.outputs, left.keys) and not shared.outputs:
            del self._joins[left.signature]
        _released(self._outer, join)
        for right in join.rights:
            _released(self._groups, (left.signature.field, right))

    # -- execution

    def groups(self, message: Message) -> Iterator[tuple[Hashable, list[Group]]]:
        """The groups of every query that has any."""
        run = _Run(Streams(message), self._joins)
        for query, (plan, join) in self._plans.items():
            found = run.outer(join) if join is not None else run.alone(plan)
            if found:
                yield query, found

    def transformed(self, message: Message) -> Iterator[tuple[Hashable, bytes]]:
        """The new message of every query that has one; the same result for many is rendered once."""
        # The groups are kept with the text: their id is the key, so they must not be freed meanwhile.
        made: dict[tuple[Any, ...], tuple[list[Group], bytes]] = {}
        for query, found in self.groups(message):
            transform = self._plans[query][0].transform
            key = (id(found), transform.outer, transform.result, transform.order)
            if key not in made:
                text = render(transform, found)
                assert text is not None
                made[key] = found, text
            yield query, made[key][1]


class _Run:
    """One message: every shared operator at most once, and only if someone needs it."""

    def __init__(self, streams: Streams, joins: dict[Signature, SharedJoin]) -> None:
        self.streams = streams
        self.joins = joins
        self._outputs: dict[Signature, dict[tuple[Key, ...], list[Node]]] = {}
        self._groups: dict[tuple[int, Operator], dict[int, list[Node]]] = {}
        self._anti: dict[tuple[int, Operator], set[int]] = {}
        self._outer: dict[Join, list[Group]] = {}
        self._alone: dict[tuple[Operator, tuple[Path, ...]], list[Group]] = {}

    def alone(self, plan: Plan) -> list[Group]:
        """A plan of another kind; equal ones still run once, but for libxml2's, which say little of themselves."""
        key = (plan.root, plan.transform.return_paths)
        if isinstance(plan.root, Reference):
            return execute(plan, self.streams)
        if key not in self._alone:
            self._alone[key] = execute(plan, self.streams)
        return self._alone[key]

    def outer(self, join: Join) -> list[Group]:
        if join not in self._outer:
            field = join.left.signature.field
            found = [Group(node) for node in self.left(join.left)]
            if found:
                for path, right in zip(join.paths, join.rights, strict=True):
                    lists = self.grouped(field, right)
                    for group in found:
                        group.lists[path] = lists.get(group.node.id, [])
            self._outer[join] = found
        return self._outer[join]

    def left(self, left: Left) -> list[Node]:
        if left.signature not in self._outputs:
            self._outputs[left.signature] = self.selected(left.signature)
        found = self._outputs[left.signature].get(left.keys, [])
        field = left.signature.field
        for operator in left.anti:
            if (field, operator) not in self._anti:
                self._anti[field, operator] = {one[field - 1].id for one in tuples_of(operator, self.streams)}
            found = [node for node in found if node.id not in self._anti[field, operator]]
        return [node for node in found if holds(left.rest, node)] if left.rest != TRUE else found

    def grouped(self, field: int, right: Operator) -> dict[int, list[Node]]:
        """GroupBy on the binding field."""
        if (field, right) not in self._groups:
            lists: dict[int, list[Node]] = {}
            for one in tuples_of(right, self.streams):
                lists.setdefault(one[field - 1].id, []).append(one[-1])
            self._groups[field, right] = lists
        return self._groups[field, right]

    def selected(self, signature: Signature) -> dict[tuple[Key, ...], list[Node]]:
        """The join, and above it the selection with its index: the bound nodes for each combination of constants."""
        shared = self.joins[signature]
        by_node: list[dict[int, list[PathTuple]]] = []
        bound: dict[int, Node] = {}
        for at, path in enumerate(signature.paths):
            grouped: dict[int, list[PathTuple]] = {}
            for one in self.streams.of(path):
                node = one[signature.field - 1]
                grouped.setdefault(node.id, []).append(one)
                if at == 0:
                    bound[node.id] = node
            by_node.append(grouped)
        outputs: dict[tuple[Key, ...], list[Node]] = {}
        for number, node in bound.items():
            if not all(number in grouped for grouped in by_node):
                continue
            passed = [
                _passed(selections, grouped[number])
                for selections, grouped in zip(shared.selections, by_node, strict=True)
            ]
            for keys in _combinations(shared.outputs, passed):
                outputs.setdefault(keys, []).append(node)
        return outputs


def _combinations(outputs: Counter[tuple[Key, ...]], passed: list[set[Key]]) -> Iterator[tuple[Key, ...]]:
    """The combinations of constants that someone reads and that hold."""
    if not all(passed):
        return
    product = 1
    for one in passed:
        product *= len(one)
    if product > len(outputs):
        yield from (keys for keys in outputs if all(key in one for key, one in zip(keys, passed, strict=True)))
        return
    found: list[tuple[Key, ...]] = [()]
    for one in passed:
        found = [(*keys, key) for keys in found for key in one]
    yield from (keys for keys in found if keys in outputs)


def _passed(selections: dict[Key, tuple[Test, ...]], tuples: list[PathTuple]) -> set[Key]:
    """The selections that some tuple passes: looked up where they compare with a string, tried one by one elsewhere."""
    tests = next(iter(selections.values()))
    if not tests:
        return {()}
    only = tests[0].filters[0] if len(tests) == 1 and len(tests[0].filters) == 1 else None
    match only:
        case Compare(StringValue(twig, False), "=", Const(str())):
            at = tests[0].field - 1
            values = {node.value for one in tuples for node in select(twig, one[at])}
            return {key for value in values if (key := (Const(value),)) in selections}
    return {
        key
        for key, tests in selections.items()
        if any(all(passes(one[t.field - 1], t.step, t.filters) for t in tests) for one in tuples)
    }


# -- taking plans apart


def _taken_apart(root: Operator) -> tuple[Join | None, list[tuple[Test, ...]]]:
    """An outer join with its inputs as they are shared, and the selections on the paths of its signature."""
    if not isinstance(root, OuterJoinSelect):
        return None, []
    at = root.left
    rest: Predicate = TRUE
    if isinstance(at, WhereFilter):
        rest, at = at.predicate, at.input
    anti: list[Operator] = []
    inputs: list[Operator] = []
    while isinstance(at, Semijoin):
        (anti if at.anti else inputs).append(_plain(at.right))
        at = at.left
    # Duplicates of bound nodes vanish in the join, which goes by node.
    if isinstance(at, DupElim):
        at = at.input
    inputs = [at, *sorted(inputs, key=lambda one: (str(stream_of(one).path), _mask(_tests(one))))]
    tests = [_tests(one) for one in inputs]
    signature = Signature(root.field, tuple(stream_of(one).path for one in inputs), tuple(map(_mask, tests)))
    left = Left(signature, tuple(map(_key, tests)), tuple(anti), rest)
    return Join(left, tuple(map(_plain, root.rights)), root.paths), tests


def _plain(operator: Operator) -> Operator:
    """Without notes, so that equal operators are equal."""
    match operator:
        case Selection(input) | DupElim(input):
            return replace(operator, input=_plain(input), note="")
    return replace(operator, note="")


def _tests(operator: Operator) -> tuple[Test, ...]:
    return operator.tests if isinstance(operator, Selection) else ()


def _mask(tests: Iterable[Test]) -> str:
    masked = (f"{one.field}:" + "".join(f"[{predicate_text(p, masked=True)}]" for p in one.filters) for one in tests)
    return "; ".join(masked)


def _key(tests: Iterable[Test]) -> Key:
    return tuple(const for test in tests for one in test.filters for const in constants(one))


def _released(users: Counter[Any], key: Hashable) -> bool:
    """One user less; whether any is left."""
    users[key] -= 1
    if users[key] <= 0:
        del users[key]
        return False
    return True
