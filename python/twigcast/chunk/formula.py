"""Conditions over expressions that are evaluated apart: patterns with ``Found`` as leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from twigcast.ir.pattern import And, Bool, Not, Or, Predicate, own_leaves
from twigcast.lang.canon import Opaque, mapped


class Found(Opaque):
    """That an expression of the scheme holds on some fragment of its chunk."""

    number: int


def holds(formula: Predicate, found: Callable[[int], bool], *, for_sure: bool = False) -> bool:
    """Return whether a formula holds, given what was found. ``for_sure``: whatever may be found yet."""
    match formula:
        case Found(number):
            return found(number)
        case And(terms):
            return all(holds(term, found, for_sure=for_sure) for term in terms)
        case Or(terms):
            return any(holds(term, found, for_sure=for_sure) for term in terms)
        case Not(term):
            return not for_sure and not holds(term, found)
    return formula == Bool(True)


def renumbered(formula: Predicate, new: Mapping[int, int]) -> Predicate:
    """Return the formula with other numbers: ``new[i]`` for i."""
    return mapped(formula, lambda leaf: Found(new[leaf.number]) if isinstance(leaf, Found) else leaf)


def numbers(formula: Predicate) -> Iterator[int]:
    """Yield the expressions that a formula speaks of."""
    return (leaf.number for leaf in own_leaves(formula) if isinstance(leaf, Found))
