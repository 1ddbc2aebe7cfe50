"""Conditions over the outcomes of expressions that are evaluated apart, each on a fragment of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Found:
    """That an expression of the scheme holds on some fragment of its chunk."""

    number: int


@dataclass(frozen=True, slots=True)
class All:
    """Of no terms: true."""

    terms: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Of no terms: false."""

    terms: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """That ``term`` does not hold."""

    term: Formula


Formula: TypeAlias = "Found | All | Any | Never"

YES, NO = All(()), Any(())


def both(*terms: Formula) -> Formula:
    kept = tuple(dict.fromkeys(term for term in terms if term != YES))
    if NO in kept:
        return NO
    return kept[0] if len(kept) == 1 else All(kept)


def either(*terms: Formula) -> Formula:
    kept = tuple(dict.fromkeys(term for term in terms if term != NO))
    if YES in kept:
        return YES
    return kept[0] if len(kept) == 1 else Any(kept)


def opposite(term: Formula) -> Formula:
    if isinstance(term, Never):
        return term.term
    return NO if term == YES else YES if term == NO else Never(term)


def holds(formula: Formula, found: Callable[[int], bool]) -> bool:
    match formula:
        case Found(number):
            return found(number)
        case All(terms):
            return all(holds(term, found) for term in terms)
        case Any(terms):
            return any(holds(term, found) for term in terms)
        case Never(term):
            return not holds(term, found)


def certain(formula: Formula, found: Callable[[int], bool]) -> bool:
    """Return whether a formula holds whatever may be found yet."""
    match formula:
        case Found(number):
            return found(number)
        case All(terms):
            return all(certain(term, found) for term in terms)
        case Any(terms):
            return any(certain(term, found) for term in terms)
        case Never():
            return False


def renumbered(formula: Formula, new: Mapping[int, int]) -> Formula:
    """Return the formula with other numbers: ``new[i]`` for i."""
    match formula:
        case Found(number):
            return Found(new[number])
        case All(terms):
            return All(tuple(renumbered(term, new) for term in terms))
        case Any(terms):
            return Any(tuple(renumbered(term, new) for term in terms))
        case Never(term):
            return Never(renumbered(term, new))


def numbers(formula: Formula) -> Iterator[int]:
    """The expressions that a formula speaks of."""
    match formula:
        case Found(number):
            yield number
        case All(terms) | Any(terms):
            for term in terms:
                yield from numbers(term)
        case Never(term):
            yield from numbers(term)
