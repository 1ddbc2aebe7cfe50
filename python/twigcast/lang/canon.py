"""Constructors that keep patterns canonical: flat, sorted, no duplicates. Each rewriting holds on every message."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from twigcast.ir.pattern import (
    FALSE,
    TRUE,
    And,
    Bool,
    Compare,
    Exists,
    Match,
    Node,
    NodeIs,
    Not,
    Or,
    Position,
    Predicate,
    Step,
    Twig,
    in_order,
    leaves,
    tested_at,
    tests_any,
    twig_of,
    uses_position,
)


class Opaque(Predicate):
    """A leaf that only the compiler knows. Two equal ones need not be equal conditions, so nothing cancels out."""


def conj(*terms: Predicate) -> Predicate:
    return _junction(And, terms)


def disj(*terms: Predicate) -> Predicate:
    return _junction(Or, terms)


def _junction(kind: type[And] | type[Or], terms: Iterable[Predicate]) -> Predicate:
    absorbing = kind is Or
    left: list[Predicate] = []
    for term in terms:
        if isinstance(term, kind):
            left += term.terms
        elif type(term) is not Bool:
            left.append(term)
        elif term.value == absorbing:
            return term
    if len(left) < 2:
        return left[0] if left else FALSE if absorbing else TRUE
    denied = [term for term in left if type(term) is Not]
    if denied:
        seen = set(left)
        for term in denied:
            if term.term in seen and not any(isinstance(one, Opaque) for one in leaves(term)):
                return Bool(absorbing)
    sorted_terms = in_order(left)
    return kind(tuple(sorted_terms)) if len(sorted_terms) > 1 else sorted_terms[0]


def negate(term: Predicate) -> Predicate:
    """Not pushed down, for a shared sub-expression then stays shared; but never doubled."""
    match term:
        case Bool(value):
            return Bool(not value)
        case Not(inner):
            return inner
        case Position(of, "=", n):
            return Position(of, "!=", n)
        case Position(of, "!=", n):
            return Position(of, "=", n)
    return Not(term)


def exists(twig: Twig) -> Predicate:
    """That ``twig`` finds something. ``a[b]/c``, ``a[c]/b`` and ``a[b and c]`` exist together, so that the trunk below
    a node with filters becomes one more of them; a lone filter becomes trunk: ``a[b]`` is ``a/b``, and ``a[. = 1]``
    is ``a = 1``."""
    holds: Predicate = TRUE
    for node in reversed(twig.nodes):
        plain = None if node.filters else _lifted(node, holds) if holds is not TRUE else Exists(Twig((node,)))
        if plain is not None:
            holds = plain
            continue
        folded = with_filters(node, holds)
        if folded is None:
            return FALSE
        lifted = _lifted(Node(folded.step), folded.filters[0]) if len(folded.filters) == 1 else None
        holds = lifted or Exists(Twig((folded,)))
    return holds


def any_of(twig: Twig, leaf: Predicate) -> Predicate:
    """That ``leaf`` holds for some node of ``twig``."""
    if not twig.nodes:
        return leaf
    last = with_filters(twig.nodes[-1], leaf)
    return FALSE if last is None else exists(Twig((*twig.nodes[:-1], last)))


def _lifted(node: Node, only: Predicate) -> Predicate | None:
    """Return the sole filter of ``node`` as a test below it, if it is about any node of a branch."""
    match only:
        case Exists(twig):
            return Exists(Twig((node, *twig.nodes)))
        case Compare(value=value) | Match(value=value) if tests_any(value):
            return tested_at(only, Twig((node, *twig_of(value).nodes)))
    return None


def with_filters(node: Node, *more: Predicate) -> Node | None:
    """The node with further filters; None when it can never match.

    A filter without positions sees each node alone, so that it joins the one before it.
    """
    filters = list(node.filters)
    for one in more:
        if one != TRUE:
            one = _known_kind(node.step, one)
        if one == FALSE:
            return None
        if one == TRUE:
            continue
        if filters and not uses_position(one):
            filters[-1] = conj(filters[-1], one)
        else:
            filters.append(one)
    if len(filters) == len(node.filters) and all(map(operator.is_, filters, node.filters)):
        return node
    if FALSE in filters:
        return None
    return _narrowed(Node(node.step, tuple(filters)))


def _known_kind(step: Step, predicate: Predicate) -> Predicate:
    """Decide the tests of the node itself that the step has decided already."""

    def decide(leaf: Predicate) -> Predicate:
        if not isinstance(leaf, NodeIs):
            return leaf
        both = intersect(step, leaf)
        return FALSE if both is None else TRUE if both == step else leaf

    return mapped(predicate, decide)


def _narrowed(node: Node) -> Node | None:
    """``*[self::a]`` is ``a``; but with positions the test says what is counted, so then it stays."""
    if len(node.filters) != 1 or uses_position(node.filters[0]):
        return node
    only = node.filters[0]
    for term in only.terms if type(only) is And else (only,):
        if isinstance(term, NodeIs):
            step = intersect(node.step, term)
            # What is left may be decided by the narrower step in turn.
            return None if step is None else with_filters(Node(step), *node.filters)
    return node


def intersect(step: Step, test: NodeIs) -> Step | None:
    """The step with the test applied to what it finds; None when no node can pass both."""
    if test.kind == "node":
        kind = step.kind
    elif step.kind == "node":
        if test.kind == "attribute":
            return None
        kind = test.kind
    elif step.kind != test.kind:
        return None
    else:
        kind = step.kind
    if (None not in (step.ns, test.ns) and step.ns != test.ns) or (
        None not in (step.local, test.local) and step.local != test.local
    ):
        return None
    ns = step.ns if step.ns is not None else test.ns
    return Step(step.axis, kind, ns, step.local if step.local is not None else test.local)


def mapped(predicate: Predicate, change: Callable[[Predicate], Predicate]) -> Predicate:
    """Return the predicate with ``change`` applied to each leaf that is about its own context node."""
    match predicate:
        case And(terms):
            return conj(*(mapped(term, change) for term in terms))
        case Or(terms):
            return disj(*(mapped(term, change) for term in terms))
        case Not(term):
            return negate(mapped(term, change))
    return change(predicate)
