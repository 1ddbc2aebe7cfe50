"""A pattern's constants, taken out: what is left is the shape, with numbered slots in their place."""

from __future__ import annotations

from twigcast.frozen import frozen
from twigcast.pattern import (
    And,
    Compare,
    Const,
    Count,
    Exists,
    Match,
    Node,
    NormalizeSpace,
    Not,
    Or,
    Predicate,
    StringLength,
    StringValue,
    Twig,
    Value,
)


@frozen
class Slot(Const):
    """The place of a constant; ``value`` is still there for rules that depend on it (an empty string, a NaN)."""

    index: int


Values = list[str | float]


# Plain functions, for closures that call each other are cycles: one for every new shape, left to the garbage collector.


def slotted(predicate: Predicate) -> tuple[Predicate, Values]:
    """The predicate with slots, numbered in the order of traversal, and the constants by slot."""
    values: Values = []
    return _predicate(predicate, values), values


def _slot(const: Const, values: Values) -> Slot:
    values.append(const.value)
    return Slot(const.value, len(values) - 1)


def _twig(twig: Twig, values: Values) -> Twig:
    # what has no filters is the same with slots
    if twig.bare:
        return twig
    return Twig(
        tuple([Node(n.step, tuple([_predicate(f, values) for f in n.filters])) if n.filters else n for n in twig.nodes])
    )


def _string(value: StringValue | NormalizeSpace, values: Values) -> StringValue | NormalizeSpace:
    if isinstance(value, NormalizeSpace):
        of = value.of
        twig = _twig(of.twig, values)
        return value if twig is of.twig else NormalizeSpace(StringValue(twig, of.first))
    twig = _twig(value.twig, values)
    return value if twig is value.twig else StringValue(twig, value.first)


def _value(value: Value, values: Values) -> Value:
    if isinstance(value, StringValue):
        return _string(value, values)
    match value:
        case NormalizeSpace():
            return _string(value, values)
        case StringLength(of):
            return StringLength(_string(of, values))
        case Count(twig):
            return Count(_twig(twig, values))
    raise TypeError(value)


def _predicate(predicate: Predicate, values: Values) -> Predicate:
    # the most frequent not by a class pattern, which takes several times as long
    if isinstance(predicate, Exists):
        within = _twig(predicate.twig, values)
        return predicate if within is predicate.twig else Exists(within)
    if isinstance(predicate, Compare):
        return Compare(_value(predicate.value, values), predicate.op, _slot(predicate.const, values))
    if isinstance(predicate, And):
        return And(tuple([_predicate(term, values) for term in predicate.terms]))
    match predicate:
        case Or(terms):
            return Or(tuple([_predicate(term, values) for term in terms]))
        case Not(term):
            return Not(_predicate(term, values))
        case Match(function, value, const):
            return Match(function, _string(value, values), _slot(const, values))
    return predicate
