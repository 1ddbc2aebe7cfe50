"""A pattern's constants, taken out: what is left is the shape, with numbered slots in their place."""

from __future__ import annotations

from twigcast.ir.pattern import (
    And,
    Compare,
    Const,
    Exists,
    Match,
    Node,
    Not,
    Or,
    Predicate,
    Slot,
    StringValue,
    Twig,
    twig_of,
    with_twig,
)

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


def _predicate(predicate: Predicate, values: Values) -> Predicate:
    # the most frequent not by a class pattern, which takes several times as long
    if type(predicate) is Exists:
        within = _twig(predicate.twig, values)
        return predicate if within is predicate.twig else Exists(within)
    if type(predicate) is Compare:
        value = predicate.value
        if type(value) is not StringValue or not value.twig.bare:
            value = with_twig(value, _twig(twig_of(value), values))
        return Compare(value, predicate.op, _slot(predicate.const, values))
    if type(predicate) is And:
        return And(tuple([_predicate(term, values) for term in predicate.terms]))
    match predicate:
        case Or(terms):
            return Or(tuple([_predicate(term, values) for term in terms]))
        case Not(term):
            return Not(_predicate(term, values))
        case Match(function, value, const):
            return Match(function, with_twig(value, _twig(twig_of(value), values)), _slot(const, values))
    return predicate
