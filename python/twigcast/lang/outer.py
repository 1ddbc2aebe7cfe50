"""Leaves of predicates about nodes other than those below the context; only the compiler ever sees them.

A kernel decides a node by what lies below it. A condition on what lies above is therefore moved up to the node that it
is about (routes.py): these leaves say where to.
"""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.ir.pattern import FALSE, And, Bool, NodeIs, Not, Or, Predicate, Reason, any_branch, leaves
from twigcast.lang.canon import Opaque, mapped


class Up(Opaque):
    """Holds for the parent; ``absent`` if there is none, that is, for the document."""

    of: Predicate
    absent: bool = False


class Above(Opaque):
    """Holds for some ancestor."""

    of: Predicate


class AtDocument(Opaque):
    """Holds for the document."""

    of: Predicate


class Unknown(Opaque):
    """No tree pattern; ``serial`` keeps two of them apart, for they are two unknowns."""

    reason: Reason
    serial: int


def replaced(predicate: Predicate, leaf: Predicate, by: Predicate) -> Predicate:
    return mapped(predicate, lambda one: by if one == leaf else one)


def at_document(predicate: Predicate) -> Predicate:
    """The predicate where its context node is the document, which nothing lies above."""

    def settle(leaf: Predicate) -> Predicate:
        match leaf:
            case Up(_, absent):
                return Bool(absent)
            case Above() | NodeIs():
                return FALSE
            case AtDocument(of):
                return at_document(of)
        twig = any_branch(leaf)
        if twig is not None and twig.nodes:
            step = twig.nodes[0].step
            if step.axis == "child" and step.kind in ("attribute", "text"):
                return FALSE
        return leaf

    return mapped(predicate, settle)


def unknown_in(predicate: Predicate) -> Unknown | None:
    """An unknown anywhere in the predicate, also in what it says of nodes above."""
    for leaf in leaves(predicate):
        match leaf:
            case Unknown():
                return leaf
            case Up(of) | Above(of) | AtDocument(of):
                found = unknown_in(of)
                if found is not None:
                    return found
    return None


def outer_leaves(predicate: Predicate, positive: bool = True) -> Iterator[tuple[Predicate, bool]]:
    """Each leaf about something above, and whether it stands under an even number of negations."""
    match predicate:
        case And(terms) | Or(terms):
            for term in terms:
                yield from outer_leaves(term, positive)
        case Not(term):
            yield from outer_leaves(term, not positive)
        case Up() | Above() | AtDocument():
            yield predicate, positive
