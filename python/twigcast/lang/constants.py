"""Folding: the value of expressions that do not depend on the message."""

from __future__ import annotations

from twigcast.lang import ast
from twigcast.lang.values import (
    STRING_FUNCTIONS,
    Constant,
    calculate,
    compare,
    rounded,
    to_boolean,
    to_number,
    to_string,
)


def constant(expr: ast.Expr, single: bool = False) -> Constant | None:
    """The value of ``expr`` if it is the same on every message; ``single``: position() and last() are 1 here."""
    match expr:
        case ast.Number(value) | ast.String(value):
            return value
        case ast.Negation(operand):
            known = constant(operand, single)
            return None if known is None else -to_number(known)
        case ast.Arithmetic(op, left, right):
            a, b = constant(left, single), constant(right, single)
            return None if a is None or b is None else calculate(op, to_number(a), to_number(b))
        case ast.Comparison(op, left, right):
            a, b = constant(left, single), constant(right, single)
            return None if a is None or b is None else compare(a, op, b)
        case ast.Call("true" | "false" as name, ()):
            return name == "true"
        case ast.Call("position" | "last", ()):
            return 1.0 if single else None
        case ast.Call(name, (_, *_) as operands) if name in STRING_FUNCTIONS:
            folded = [constant(one, single) for one in operands]
            values = [one for one in folded if one is not None]
            return STRING_FUNCTIONS[name](*values) if len(values) == len(operands) else None
        case ast.Call(name, (operand,)):
            known = constant(operand, single)
            return None if known is None else _applied(name, known)
    return None


def _applied(name: str, value: Constant) -> Constant | None:
    match name:
        case "boolean":
            return to_boolean(value)
        case "not":
            return not to_boolean(value)
        case "number":
            return to_number(value)
        case "string":
            return to_string(value)
        case "floor" | "ceiling" | "round":
            return rounded(name, to_number(value))
    return None
