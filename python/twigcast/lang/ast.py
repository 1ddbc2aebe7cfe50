"""The syntax tree of XPath 1.0. Every node has a span; equality ignores it, so that it compares meaning, not layout.

There are no variables and no extension functions, hence the type of every expression is known from its syntax.
Chains that text can make long (steps, predicates, and, or, |) are flat tuples: depth is bounded by nesting alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import structs

from twigcast.errors import Span
from twigcast.ir.visit import Part, find_all, replace
from twigcast.lang.functions import FUNCTIONS

NODE_SET, BOOLEAN, NUMBER, STRING = "node-set", "boolean", "number", "string"


class Syntax(Part):
    """A part of a syntax tree. Its last field, the span, does not count when it is compared."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and structs.astuple(self)[:-1] == structs.astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(structs.astuple(self)[:-1])


class NameTest(Syntax):
    """``ns`` None: any namespace; ``""``: none. ``local`` None: any name. Which kind of node, the axis says."""

    ns: str | None
    local: str | None
    span: Span


class KindTest(Syntax):
    """``text``, ``comment``, ``processing-instruction`` (with an optional target) or ``node``."""

    kind: str
    target: str | None
    span: Span


class AxisStep(Syntax):
    axis: str
    test: NameTest | KindTest
    predicates: tuple[Expr, ...]
    span: Span


class LocationPath(Syntax):
    absolute: bool
    steps: tuple[AxisStep, ...]
    span: Span


class FilterPath(Syntax):
    """``(primary)[p]/steps``: predicates or steps on an expression that is not itself a step."""

    primary: Expr
    predicates: tuple[Expr, ...]
    steps: tuple[AxisStep, ...]
    span: Span


class Union(Syntax):
    operands: tuple[Expr, ...]
    span: Span


class Logical(Syntax):
    """``op`` is ``and`` or ``or``; at least two operands."""

    op: str
    operands: tuple[Expr, ...]
    span: Span


class Comparison(Syntax):
    op: str
    left: Expr
    right: Expr
    span: Span


class Arithmetic(Syntax):
    op: str
    left: Expr
    right: Expr
    span: Span


class Negation(Syntax):
    operand: Expr
    span: Span


class Call(Syntax):
    name: str
    arguments: tuple[Expr, ...]
    span: Span


class Number(Syntax):
    value: float
    span: Span


class String(Syntax):
    value: str
    span: Span


Expr: TypeAlias = (
    "LocationPath | FilterPath | Union | Logical | Comparison | Arithmetic | Negation | Call | Number | String"
)

_EXPRESSIONS = (LocationPath, FilterPath, Union, Logical, Comparison, Arithmetic, Negation, Call, Number, String)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the parts of an expression that have the same context node."""
    match expr:
        case FilterPath(primary):
            return (primary,)
        case Union(parts) | Logical(_, parts) | Call(_, parts):
            return parts
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            return left, right
        case Negation(operand):
            return (operand,)
    return ()


def with_operands(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return an expression with these parts changed."""
    match expr:
        case FilterPath():
            return replace(expr, primary=change(expr.primary))
        case Union() | Logical():
            return replace(expr, operands=tuple(map(change, expr.operands)))
        case Comparison() | Arithmetic():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case Negation():
            return replace(expr, operand=change(expr.operand))
        case Call():
            return replace(expr, arguments=tuple(map(change, expr.arguments)))
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all below it, those in predicates too."""
    return find_all(expr, *_EXPRESSIONS)


def type_of(expr: Expr) -> str:
    """The static type of an expression: exact, for XPath 1.0 without variables has no dynamic types."""
    match expr:
        case LocationPath() | FilterPath() | Union():
            return NODE_SET
        case Logical() | Comparison():
            return BOOLEAN
        case Arithmetic() | Negation() | Number():
            return NUMBER
        case Call(name=name):
            return FUNCTIONS[name].result
        case String():
            return STRING
