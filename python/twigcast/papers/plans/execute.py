"""Plans run over node lists, operator by operator: to check plans, not to be fast. Merge and scan forms rely on the
order that the claims promise and on nothing else, so that a claim that is wrong shows as a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from twigcast.ir.pattern import LinearPath
from twigcast.ir.transform import Path
from twigcast.papers.plans import reference
from twigcast.papers.plans.evaluate import holds, select
from twigcast.papers.plans.nodes import Message, Node
from twigcast.papers.plans.operators import (
    DupElim,
    Nothing,
    Operator,
    OuterJoinSelect,
    Reference,
    ReturnSelect,
    Selection,
    Semijoin,
    Stream,
    WhereFilter,
)
from twigcast.papers.plans.planner import Plan
from twigcast.papers.plans.reference import passes
from twigcast.papers.plans.render import Group

PathTuple: TypeAlias = tuple[Node, ...]


class Streams:
    """The path-tuple streams of one message: what the matching engine delivers, each path once."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._streams: dict[LinearPath, list[PathTuple]] = {}

    def of(self, path: LinearPath) -> list[PathTuple]:
        """Every match of the path, in the order of the last field. Nothing else is promised (broker §2.3), so the rest
        comes innermost first: whoever counts on more is found out."""
        if path not in self._streams:
            found: list[PathTuple] = [()]
            for step in path.steps:
                found = [
                    (*one, node) for one in found for _, node in (one[-1] if one else self.message.document).along(step)
                ]
            found.sort(key=lambda one: (one[-1].id, [-node.id for node in one]))
            self._streams[path] = found
        return self._streams[path]


def execute(plan: Plan, message: Message | Streams) -> list[Group]:
    """The groups of a message. A plan that needs the schema must only see valid messages."""
    streams = message if isinstance(message, Streams) else Streams(message)
    match plan.root:
        case Nothing():
            return []
        case Reference():
            return reference.groups(plan.transform, streams.message)
        case ReturnSelect(source, field, paths):
            bound = [one[field - 1] for one in tuples_of(source, streams)]
            return [Group(node, {path: _search(path, node) for path in paths}) for node in bound]
        case OuterJoinSelect(source, rights, field, paths, form):
            groups = [Group(one[field - 1]) for one in tuples_of(source, streams)]
            for path, right in zip(paths, rights, strict=True):
                join = _merge_lists if form == "merge" else _hash_lists
                lists = join(groups, tuples_of(right, streams), field)
                for group, found in zip(groups, lists, strict=True):
                    group.lists[path] = found
            return groups
    raise AssertionError(f"not the top of a plan: {plan.root!r}")


def _search(path: Path, node: Node) -> list[Node]:
    assert path.twig is not None
    return select(path.twig, node)


def tuples_of(operator: Operator, streams: Streams) -> list[PathTuple]:
    match operator:
        case Stream(path):
            return streams.of(path)
        case Selection(source, tests):
            return [
                one
                for one in tuples_of(source, streams)
                if all(passes(one[test.field - 1], test.step, test.filters) for test in tests)
            ]
        case DupElim(source, fields, form):
            found = tuples_of(source, streams)
            return _scan_distinct(found, fields) if form == "scan" else _hash_distinct(found, fields)
        case WhereFilter(source, field, predicate):
            return [one for one in tuples_of(source, streams) if holds(predicate, one[field - 1])]
        case Semijoin(left, right, field, form, anti):
            join = _merge_semijoin if form == "merge" else _hash_semijoin
            return join(tuples_of(left, streams), tuples_of(right, streams), field, anti)
    raise AssertionError(f"not below the top of a plan: {operator!r}")


# -- forms


def _key(one: PathTuple, fields: Sequence[int]) -> tuple[int, ...]:
    return tuple(one[field - 1].id for field in fields)


def _scan_distinct(tuples: list[PathTuple], fields: tuple[int, ...]) -> list[PathTuple]:
    return [one for at, one in enumerate(tuples) if at == 0 or _key(tuples[at - 1], fields) != _key(one, fields)]


def _hash_distinct(tuples: list[PathTuple], fields: tuple[int, ...]) -> list[PathTuple]:
    return list({_key(one, fields): one for one in reversed(tuples)}.values())[::-1]


def _hash_semijoin(left: list[PathTuple], right: list[PathTuple], field: int, anti: bool) -> list[PathTuple]:
    known = {one[field - 1].id for one in right}
    return [one for one in left if (one[field - 1].id in known) != anti]


def _merge_semijoin(left: list[PathTuple], right: list[PathTuple], field: int, anti: bool) -> list[PathTuple]:
    found: list[PathTuple] = []
    at = 0
    for one in left:
        bound = one[field - 1].id
        while at < len(right) and right[at][field - 1].id < bound:
            at += 1
        matched = at < len(right) and right[at][field - 1].id == bound
        if matched != anti:
            found.append(one)
    return found


def _hash_lists(groups: list[Group], right: list[PathTuple], field: int) -> list[list[Node]]:
    by_binding: dict[int, list[Node]] = {}
    for one in right:
        by_binding.setdefault(one[field - 1].id, []).append(one[-1])
    return [by_binding.get(group.node.id, []) for group in groups]


def _merge_lists(groups: list[Group], right: list[PathTuple], field: int) -> list[list[Node]]:
    lists: list[list[Node]] = []
    at = 0
    for group in groups:
        while at < len(right) and right[at][field - 1].id < group.node.id:
            at += 1
        found: list[Node] = []
        while at < len(right) and right[at][field - 1].id == group.node.id:
            found.append(right[at][-1])
            at += 1
        lists.append(found)
    return lists
