"""A pattern's constants, taken out: what is left is the shape, with numbered slots in their place."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Slot(Const):
    """The place of a constant; ``value`` is still there for rules that depend on it (an empty string, a NaN)."""

    index: int


def slotted(predicate: Predicate) -> tuple[Predicate, list[str | float]]:
    """The predicate with slots, numbered in the order of traversal, and the constants by slot."""
    values: list[str | float] = []

    def const(c: Const) -> Slot:
        values.append(c.value)
        return Slot(c.value, len(values) - 1)

    def twig(t: Twig) -> Twig:
        # a node without filters is the same with slots
        return Twig(tuple([Node(n.step, tuple(map(walk, n.filters))) if n.filters else n for n in t.nodes]))

    def value(v: Value) -> Value:
        match v:
            case StringValue(t, first):
                return StringValue(twig(t), first)
            case NormalizeSpace(StringValue(t, first)):
                return NormalizeSpace(StringValue(twig(t), first))
            case StringLength(of):
                inner = value(of)
                assert isinstance(inner, (StringValue, NormalizeSpace))
                return StringLength(inner)
            case Count(t):
                return Count(twig(t))
        raise TypeError(v)

    def walk(p: Predicate) -> Predicate:
        match p:
            case And(terms):
                return And(tuple(map(walk, terms)))
            case Or(terms):
                return Or(tuple(map(walk, terms)))
            case Not(term):
                return Not(walk(term))
            case Exists(t):
                return Exists(twig(t))
            case Compare(v, op, c):
                return Compare(value(v), op, const(c))
            case Match(function, v, c):
                inner = value(v)
                assert isinstance(inner, (StringValue, NormalizeSpace))
                return Match(function, inner, const(c))
        return p

    return walk(predicate), values
