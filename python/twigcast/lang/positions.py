"""Comparisons of position() and last() with each other and with numbers."""

from __future__ import annotations

import math

from twigcast.ir.pattern import FALSE, TRUE, Position, Predicate
from twigcast.lang import ast
from twigcast.lang.constants import constant
from twigcast.lang.values import FLIPPED, compare, to_number

_LEAST = {"position": 1, "last": 1, "from-end": 0}


def involved(expr: ast.Expr) -> bool:
    """Whether position() or last() of the context occurs."""
    if isinstance(expr, ast.Call) and expr.name in ("position", "last"):
        return True
    return any(map(involved, ast.operands(expr)))


def linear(expr: ast.Expr) -> tuple[int, int, float] | None:
    """``p * position() + l * last() + c`` as (p, l, c), for whole expressions that are sums of these."""
    known = constant(expr)
    if known is not None:
        return 0, 0, to_number(known)
    match expr:
        case ast.Call("position"):
            return 1, 0, 0.0
        case ast.Call("last"):
            return 0, 1, 0.0
        case ast.Negation(operand):
            inner = linear(operand)
            return None if inner is None else (-inner[0], -inner[1], -inner[2])
        case ast.Arithmetic("+" | "-" as op, left, right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            sign = 1 if op == "+" else -1
            return a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2]
    return None


def compared(left: ast.Expr, op: str, right: ast.Expr) -> Predicate | None:
    """The comparison as a predicate on positions; None when it is none of those that patterns have."""
    difference = linear(ast.Arithmetic("-", left, right, left.span))
    if difference is None:
        return None
    *factors, c = difference
    match tuple(factors):
        case (0, 0):
            return TRUE if compare(c, op, 0.0) else FALSE
        case (1, 0):
            return bounded("position", op, -c)
        case (-1, 0):
            return bounded("position", FLIPPED[op], c)
        case (0, 1):
            return bounded("last", op, -c)
        case (0, -1):
            return bounded("last", FLIPPED[op], c)
        case (-1, 1):
            return bounded("from-end", op, -c)
        case (1, -1):
            return bounded("from-end", FLIPPED[op], c)
    return None


def bounded(of: str, op: str, number: float) -> Predicate:
    """``of op number`` in whole numbers, and only = != <= >=."""
    least = _LEAST[of]
    if math.isnan(number) or math.isinf(number):
        return TRUE if compare(1.0, op, number) else FALSE
    if op in ("=", "!="):
        possible = number == math.floor(number) and number >= least
        return Position(of, op, int(number)) if possible else (FALSE if op == "=" else TRUE)
    if op in ("<", "<="):
        most = math.ceil(number) - 1 if op == "<" else math.floor(number)
        if most < least:
            return FALSE
        return Position(of, "=" if most == least else "<=", most)
    lowest = math.floor(number) + 1 if op == ">" else math.ceil(number)
    return TRUE if lowest <= least else Position(of, ">=", lowest)
