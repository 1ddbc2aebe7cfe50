"""Tree patterns evaluated node by node, straight from the words of pattern.py: the tree search of the paper's
Where-Filter and Return-Select (broker §3.1), and what a selection asks of the nodes of a path-tuple."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from twigcast.ir.pattern import (
    And,
    Bool,
    Compare,
    Count,
    Exists,
    Match,
    NodeIs,
    NormalizeSpace,
    Not,
    Or,
    Position,
    Predicate,
    StringLength,
    StringValue,
    Twig,
    Value,
)
from twigcast.ir.pattern import Node as PatternNode
from twigcast.lang.values import to_number
from twigcast.papers.plans.nodes import Node

_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SPACES = str.maketrans("\t\r\n", "   ")


def select(twig: Twig, context: Node) -> list[Node]:
    """The nodes of a twig below a node, each once, in document order."""
    found = [context]
    for node in twig.nodes:
        distinct: dict[int, Node] = {}
        for start in found:
            for one in _step(node, start):
                distinct[one.id] = one
        found = [distinct[number] for number in sorted(distinct)]
    return found


def _step(node: PatternNode, start: Node) -> list[Node]:
    if not node.filters:
        return [one for _, one in start.along(node.step)]
    by_parent: dict[int, list[Node]] = {}
    for parent, one in start.along(node.step):
        by_parent.setdefault(parent.id, []).append(one)
    return [one for siblings in by_parent.values() for one in filtered(siblings, node.filters)]


def filtered(siblings: list[Node], filters: Sequence[Predicate]) -> list[Node]:
    for one in filters:
        siblings = [node for at, node in enumerate(siblings, 1) if holds(one, node, at, len(siblings))]
    return siblings


def holds(predicate: Predicate, context: Node, position: int = 1, last: int = 1) -> bool:
    match predicate:
        case Bool(value):
            return value
        case And(terms):
            return all(holds(term, context, position, last) for term in terms)
        case Or(terms):
            return any(holds(term, context, position, last) for term in terms)
        case Not(term):
            return not holds(term, context, position, last)
        case Exists(twig):
            return bool(select(twig, context))
        case NodeIs(kind, ns, local):
            return context.passes(kind, ns, local)
        case Compare(value, op, const):
            found = _values(value, context)
            if isinstance(const.value, float):
                return any(_OPS[op](to_number(one), const.value) for one in found)
            return any(_OPS[op](one, const.value) for one in found)
        case Match(function, value, const):
            wanted = str(const.value)
            texts = map(str, _values(value, context))
            return any(wanted in one if function == "contains" else one.startswith(wanted) for one in texts)
        case Position(of, op, n):
            number = {"position": position, "last": last, "from-end": last - position}[of]
            return _OPS[op](number, n)
    raise AssertionError(f"not part of a pattern: {predicate!r}")


def _values(value: Value, context: Node) -> Sequence[str | float]:
    match value:
        case StringValue(twig, first):
            found = select(twig, context)
            if first:
                found = found[:1]
            return [node.value for node in found] or [""] * first
        case NormalizeSpace(of):
            words = (str(one).translate(_SPACES).split(" ") for one in _values(of, context))
            return [" ".join(filter(None, some)) for some in words]
        case StringLength(of):
            return [float(len(str(one))) for one in _values(of, context)]
        case Count(twig):
            return [float(len(select(twig, context)))]
