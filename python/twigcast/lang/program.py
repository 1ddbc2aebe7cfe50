"""XPath expressions as programs of the kernel: words in prefix order, counts before lists (evaluate/program.rs)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from twigcast.errors import QueryError
from twigcast.lang import ast
from twigcast.lang.functions import FUNCTIONS
from twigcast.lang.literals import literal_of
from twigcast.lang.printer import is_any_depth
from twigcast.plan.encode import Symbols

_NUMBER, _STRING, _AND, _OR, _COMPARE, _ARITHMETIC, _NEGATE, _CALL, _UNION, _DOCUMENT, _CONTEXT, _PATH, _FILTER = range(
    13
)
_GROUPS = 13
_SYMBOL, _TARGET, _PREFIX, _NOTHING = range(4)
_ANY_ELEMENT, _ANY_ATTRIBUTE, _NODE = 0, 1, 10
_KINDS = {"node": _NODE, "text": 2, "comment": 4, "processing-instruction": 6}
_COMPARISONS = {op: word for word, op in enumerate(("=", "!=", "<", "<=", ">", ">="))}
_ARITHMETICS = {op: word for word, op in enumerate(("+", "-", "*", "div", "mod"))}
_FUNCTIONS = {name: word for word, name in enumerate(FUNCTIONS)}
_AXES = {
    axis: word
    for word, axis in enumerate(
        (
            "child",
            "descendant",
            "descendant-or-self",
            "self",
            "attribute",
            "parent",
            "ancestor",
            "ancestor-or-self",
            "preceding",
            "preceding-sibling",
            "following",
            "following-sibling",
            "namespace",
        )
    )
}
# How deeply the kernel lets expressions nest.
_MAX_DEPTH = 500
# The step after a // that has no predicates: one axis in the kernel instead of two.
_DEEP = {"child": 13, "attribute": 14}


class Program(NamedTuple):
    """A query as the kernel takes it."""

    words: list[int]
    strings: list[str]
    sentinels: list[tuple[int, int, bool]]
    """Literals for which a sentinel stands (see ``literals.py``), its place, and whether that is among the words."""

    def with_literals(self, literals: Sequence[str]) -> Program:
        """Return the program with literals, as a text has them, in place of the sentinels."""
        words, strings = list(self.words), list(self.strings)
        for i, place, is_number in self.sentinels:
            if is_number:
                words[place : place + 2] = _number_words(float(literals[i]))
            else:
                strings[place] = literals[i][1:-1]
        return Program(words, strings, [])


def _number_words(value: float) -> tuple[int, int]:
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return low, high


def encode(expr: ast.Expr, symbols: Symbols) -> Program:
    """Return the program of an expression. Names become the numbers that ``symbols`` gives them.

    Raises QueryError for one that is nested more deeply than the kernel allows.
    """
    return _encode(symbols, lambda encoder: encoder.expression(expr))


def encode_groups(binding: ast.Expr, returns: tuple[ast.Expr, ...], symbols: Symbols) -> Program:
    """Return the program of a transform: the nodes that it binds, and what it returns of each. Raises QueryError."""

    def write(encoder: _Encoder) -> None:
        encoder.words.append(_GROUPS)
        encoder.all((binding, *returns))

    return _encode(symbols, write)


def _encode(symbols: Symbols, write: Callable[[_Encoder], None]) -> Program:
    encoder = _Encoder(symbols)
    try:
        write(encoder)
    except RecursionError:
        text = f"expressions are nested more than {_MAX_DEPTH} levels deep"
        raise QueryError("too-deep", text, hint="split the query into several subscriptions") from None
    return Program(encoder.words, encoder.strings, encoder.sentinels)


class _Encoder:
    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.words: list[int] = []
        self.strings: list[str] = []
        self._places: dict[str, int] = {}
        self.sentinels: list[tuple[int, int, bool]] = []
        self.depth = 0

    def string(self, value: str) -> int:
        """Return the place of a string in the list of strings."""
        place = self._places.get(value)
        if place is None:
            place = self._places[value] = len(self.strings)
            self.strings.append(value)
            self.sentinel(value, place)
        return place

    def sentinel(self, value: str | float, place: int) -> None:
        literal = literal_of(value)
        if literal is not None:
            self.sentinels.append((literal[0], place, not isinstance(value, str)))

    def expression(self, expr: ast.Expr) -> None:
        # a path from an expression with predicates is three expressions in the kernel
        levels = 1
        if isinstance(expr, ast.FilterPath):
            levels = bool(expr.predicates) + bool(expr.steps)
        self.depth += levels
        if self.depth >= _MAX_DEPTH:  # the start of a path is an expression, too
            raise RecursionError
        self._expression(expr)
        self.depth -= levels

    def _expression(self, expr: ast.Expr) -> None:
        words = self.words
        match expr:
            case ast.Number(value):
                words += (_NUMBER, *_number_words(value))
                self.sentinel(value, len(words) - 2)
            case ast.String(value):
                words += (_STRING, self.string(value))
            case ast.Logical(op, operands):
                words.append(_AND if op == "and" else _OR)
                self.all(operands)
            case ast.Comparison(op, left, right):
                words += (_COMPARE, _COMPARISONS[op])
                self.expression(left)
                self.expression(right)
            case ast.Arithmetic(op, left, right):
                words += (_ARITHMETIC, _ARITHMETICS[op])
                self.expression(left)
                self.expression(right)
            case ast.Negation(operand):
                words.append(_NEGATE)
                self.expression(operand)
            case ast.Call(name, arguments):
                words += (_CALL, _FUNCTIONS[name])
                self.all(arguments)
            case ast.Union(operands):
                words.append(_UNION)
                self.all(operands)
            case ast.LocationPath(absolute, steps):
                words.append(_PATH)
                words.append(_DOCUMENT if absolute else _CONTEXT)
                self.steps(steps)
            case ast.FilterPath(primary, predicates, steps):
                if steps:
                    words.append(_PATH)
                if predicates:
                    words.append(_FILTER)
                self.expression(primary)
                if predicates:
                    self.all(predicates)
                if steps:
                    self.steps(steps)

    def all(self, exprs: tuple[ast.Expr, ...]) -> None:
        self.words.append(len(exprs))
        for expr in exprs:
            self.expression(expr)

    def steps(self, steps: tuple[ast.AxisStep, ...]) -> None:
        """Write steps. Those that lead nowhere else are left out, and // with its step becomes one."""
        count = len(self.words)
        self.words.append(0)
        at = 0
        while at < len(steps):
            step = steps[at]
            at += 1
            if step.axis == "self" and _is_any(step.test) and not step.predicates:
                continue
            axis = _AXES[step.axis]
            if is_any_depth(step) and at < len(steps) and steps[at].axis in _DEEP:
                step = steps[at]
                axis = _DEEP[step.axis]
                at += 1
            self.words[count] += 1
            self.words.append(axis)
            self.test(step.axis, step.test)
            self.all(step.predicates)

    def test(self, axis: str, test: ast.NameTest | ast.KindTest) -> None:
        words = self.words
        is_attribute = axis == "attribute"
        match test:
            case ast.KindTest("node"):
                words += (_SYMBOL, _NODE)
            case ast.KindTest() if axis in ("attribute", "namespace"):
                words.append(_NOTHING)
            case ast.KindTest(kind, target):
                words += (_SYMBOL, _KINDS[kind]) if target is None else (_TARGET, self.string(target))
            case ast.NameTest(ns, local) if axis == "namespace":
                # The name of a namespace node is its prefix, which is in no namespace.
                if ns:
                    words.append(_NOTHING)
                else:
                    words += (_SYMBOL, _NODE) if local is None else (_PREFIX, self.string(local))
            case ast.NameTest(None, None):
                words += (_SYMBOL, _ANY_ATTRIBUTE if is_attribute else _ANY_ELEMENT)
            case ast.NameTest(ns, local):
                symbol = self.symbols.symbol(is_attribute, ns or "", local)
                if symbol is None:
                    raise QueryError(
                        "too-many-wildcards",
                        f"too many subscriptions test local names, as *[local-name() = 'x'], for a test of {ns!r}",
                        hint="name the elements that the query is about in place of prefix:*",
                    )
                words += (_SYMBOL, symbol)


def _is_any(test: ast.NameTest | ast.KindTest) -> bool:
    return isinstance(test, ast.KindTest) and test.kind == "node"
