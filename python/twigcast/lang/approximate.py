"""Bounds of a predicate with unknowns in it: one that holds wherever it does, and one that holds only where it does."""

from __future__ import annotations

from twigcast.ir.pattern import (
    FALSE,
    And,
    Bool,
    Compare,
    Count,
    Exists,
    Match,
    Node,
    Not,
    Or,
    Predicate,
    StringLength,
    Twig,
    Value,
    leaves,
    tested_at,
    tests_any,
    twig_of,
    uses_position,
)
from twigcast.lang.canon import Opaque, conj, disj, exists, negate, with_filters
from twigcast.lang.values import Constant, compare, to_number


def is_exact(predicate: Predicate) -> bool:
    return not any(isinstance(leaf, Opaque) for leaf in leaves(predicate))


def bound(predicate: Predicate, upper: bool) -> Predicate:
    """Upper: implied by the predicate. Lower: implies it. Both are free of unknowns."""
    match predicate:
        case And(terms):
            return conj(*(bound(term, upper) for term in terms))
        case Or(terms):
            return disj(*(bound(term, upper) for term in terms))
        case Not(term):
            return negate(bound(term, not upper))
    if isinstance(predicate, Opaque):
        return Bool(upper)
    if is_exact(predicate):
        return predicate
    match predicate:
        case Exists(twig):
            near = bound_twig(twig, upper)
            return FALSE if near is None else exists(near)
        case Compare(value, op, const):
            return _bound_value(value, upper, predicate, _default(value, op, const.value), op in (">", ">="))
        case Match(value=value):
            return _bound_value(value, upper, predicate, False, False)
    return Bool(upper)


def bound_twig(twig: Twig, upper: bool) -> Twig | None:
    """A twig that finds a superset, or else a subset, of the nodes; None when that is no node at all."""
    nodes: list[Node] = []
    for node in twig.nodes:
        filters: list[Predicate] = []
        inexact = False
        for one in node.filters:
            # Once the set is not exact, counting in it says nothing.
            filters.append(Bool(upper) if inexact and uses_position(one) else bound(one, upper))
            inexact = inexact or not is_exact(one)
        near = with_filters(Node(node.step), *filters)
        if near is None:
            return None
        nodes.append(near)
    return Twig(tuple(nodes))


def _bound_value(value: Value, upper: bool, predicate: Compare | Match, default: bool, grows: bool) -> Predicate:
    """A test of a value whose branch is not exact."""
    near = bound_twig(twig_of(value), upper)
    if isinstance(value, Count) and grows and isinstance(predicate, Compare):
        return Bool(default) if near is None else Compare(Count(near), predicate.op, predicate.const)
    if not tests_any(value):
        # It looks at the first node, or at all of them; all that is sure is whether it needs one.
        needs_one = upper and not default
        return (FALSE if near is None else exists(near)) if needs_one else Bool(upper)
    if near is None:
        return FALSE
    return tested_at(predicate, near)


def _default(value: Value, op: str, const: str | float) -> bool:
    """What the test says of no nodes at all."""
    nothing: Constant = 0.0 if isinstance(value, Count | StringLength) else ""
    return compare(to_number(nothing) if isinstance(const, float) else nothing, op, const)
