"""Patterns as the kernel's programs: 32-bit words in prefix order, counts before lists (shapes/program.rs)."""

from __future__ import annotations

from collections.abc import Callable

from twigcast.pattern import (
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
    Step,
    StringLength,
    StringValue,
    Twig,
    Value,
)
from twigcast.plan.slots import Slot

_OPS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_COUNTED = {"position": 0, "last": 1, "from-end": 2}


class NotEncodable(Exception):
    """The kernel has no word for it; a full XPath engine decides."""


def encode(predicate: Predicate, code: Callable[[Step], int]) -> list[int]:
    """``code`` gives a step's code; the predicate has slots in place of constants."""
    words: list[int] = []

    def twig(t: Twig) -> None:
        words.append(len(t.nodes))
        for node in t.nodes:
            words.append(code(node.step))
            words.append(len(node.filters))
            for filter in node.filters:
                walk(filter)

    def value(v: Value) -> None:
        match v:
            case StringValue(t, first):
                words.extend((0, int(first), 0))
            case NormalizeSpace(StringValue(t, first)):
                words.extend((0, int(first), 1))
            case StringLength(StringValue(t, first)):
                words.extend((1, int(first), 0))
            case StringLength(NormalizeSpace(StringValue(t, first))):
                words.extend((1, int(first), 1))
            case Count(t):
                words.append(2)
            case _:
                raise NotEncodable
        twig(t)

    def walk(p: Predicate) -> None:
        match p:
            case Bool(truth):
                words.append(int(truth))
            case And(terms) | Or(terms):
                words.extend((2 if isinstance(p, And) else 3, len(terms)))
                for term in terms:
                    walk(term)
            case Not(term):
                words.append(4)
                walk(term)
            case Exists(t):
                words.append(5)
                twig(t)
            case NodeIs(kind, ns, local):
                words.extend((6, code(Step("child", kind, ns, local))))
            case Compare(v, op, Slot(str(), index)):
                words.append(7)
                value(v)
                words.extend((int(op == "="), index))
            case Compare(v, op, Slot(_, index)):
                words.append(8)
                value(v)
                words.extend((_OPS[op], index))
            case Match(function, v, Slot(_, index)):
                words.append(9 if function == "contains" else 10)
                value(v)
                words.append(index)
            case Position(of, op, n):
                if not 0 <= n < 2**32:
                    raise NotEncodable
                words.extend((11, _COUNTED[of], _OPS[op], n))
            case _:
                raise NotEncodable

    walk(predicate)
    return words
