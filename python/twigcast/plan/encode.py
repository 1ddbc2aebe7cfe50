"""Patterns and steps as the kernel's programs: 32-bit words in prefix order, counts before lists (program.rs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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
    Slot,
    Step,
    StringLength,
    StringValue,
    Twig,
    Value,
)

_OPS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_COUNTED = {"position": 0, "last": 1, "from-end": 2}
_DESCENDANT = 1 << 31
_ANY = {"element": 0, "attribute": 1, "text": 2, "comment": 4, "pi": 6, "node": 10}


class NotEncodable(Exception):
    """The kernel has no word for it; a full XPath engine decides."""


Code = Callable[[Step], int]


class Symbols(Protocol):
    def symbol(self, attribute: bool, uri: str | None, local: str | None) -> int | None: ...


class StepCodes(dict[Step, int]):
    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols

    def __missing__(self, step: Step) -> int:
        code = self[step] = self.symbol(step) | (_DESCENDANT if step.axis == "descendant" else 0)
        return code

    def symbol(self, step: Step) -> int:
        if step.ns is None and step.local is None and step.kind in _ANY:
            return _ANY[step.kind]
        if step.kind in ("element", "attribute"):
            symbol = self.symbols.symbol(step.kind == "attribute", step.ns, step.local)
            if symbol is not None:
                return symbol
        raise NotEncodable


# Plain functions, for closures that call each other are cycles: one for every new shape, left to the garbage collector.
# What comes most often is asked for first, and not by a class pattern, which takes several times as long.


def encode(predicate: Predicate, code: Code) -> list[int]:
    """``code`` gives a step's code; the predicate has slots in place of constants."""
    words: list[int] = []
    _predicate(predicate, code, words)
    return words


def _twig(twig: Twig, code: Code, words: list[int]) -> None:
    words.append(len(twig.nodes))
    if twig.bare:
        for step in twig.steps:
            words.append(code(step))
            words.append(0)
        return
    for node in twig.nodes:
        words.append(code(node.step))
        words.append(len(node.filters))
        for filter in node.filters:
            _predicate(filter, code, words)


def _value(value: Value, code: Code, words: list[int]) -> None:
    if type(value) is StringValue:
        words.extend((0, int(value.first), 0))
        _twig(value.twig, code, words)
        return
    match value:
        case NormalizeSpace(StringValue(twig, first)):
            words.extend((0, int(first), 1))
        case StringLength(StringValue(twig, first)):
            words.extend((1, int(first), 0))
        case StringLength(NormalizeSpace(StringValue(twig, first))):
            words.extend((1, int(first), 1))
        case Count(twig):
            words.append(2)
        case _:
            raise NotEncodable
    _twig(twig, code, words)


def _predicate(predicate: Predicate, code: Code, words: list[int]) -> None:
    if type(predicate) is Exists:
        words.append(5)
        _twig(predicate.twig, code, words)
        return
    if type(predicate) is Compare and type(predicate.const) is Slot:
        text = isinstance(predicate.const.value, str)
        words.append(7 if text else 8)
        _value(predicate.value, code, words)
        words.extend((int(predicate.op == "=") if text else _OPS[predicate.op], predicate.const.index))
        return
    if type(predicate) is And:
        words.extend((2, len(predicate.terms)))
        for term in predicate.terms:
            _predicate(term, code, words)
        return
    match predicate:
        case Or(terms):
            words.extend((3, len(terms)))
            for term in terms:
                _predicate(term, code, words)
        case Not(term):
            words.append(4)
            _predicate(term, code, words)
        case Match(function, value, Slot(_, index)):
            words.append(9 if function == "contains" else 10)
            _value(value, code, words)
            words.append(index)
        case Position(of, op, n):
            if not 0 <= n < 2**32:
                raise NotEncodable
            words.extend((11, _COUNTED[of], _OPS[op], n))
        case NodeIs(kind, ns, local):
            words.extend((6, code(Step("child", kind, ns, local))))
        case Bool(truth):
            words.append(int(truth))
        case _:
            raise NotEncodable
