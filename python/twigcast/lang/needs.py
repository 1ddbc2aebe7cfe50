"""What an expression beyond tree patterns cannot do without: node-sets that must not be empty for it to hold."""

from __future__ import annotations

import math

from twigcast.lang.ast import BOOLEAN, NODE_SET, NUMBER, Arithmetic, Call, Expr, Negation, type_of
from twigcast.lang.values import Constant, compare

# Of these, the result is the empty string when their first argument is.
_OF_STRING = frozenset(("string", "normalize-space", "translate", "substring", "substring-before", "substring-after"))


def needed(left: Expr, op: str, right: Expr, known: Constant | None) -> list[Expr]:
    """The node-sets that ``left op right`` needs; ``known`` is the value of ``right``, if it is a constant."""
    types = type_of(left), type_of(right)
    if BOOLEAN in types:
        return []
    if NODE_SET in types:
        return [side for side in (left, right) if type_of(side) == NODE_SET]
    if known is not None:
        found = when_empty(left)
        if found is not None and not compare(found[1], op, known):
            return [found[0]]
    if op == "!=" or (op == "=" and NUMBER not in types):
        return []
    # An empty node-set makes NaN of a sum, and no comparison but != holds for NaN.
    return [path for side in (left, right) for path in _summands(side)]


def when_empty(expr: Expr) -> tuple[Expr, Constant] | None:
    """A node-set inside ``expr``, and the value that ``expr`` has whenever it is empty."""
    if type_of(expr) == NODE_SET:
        return expr, ""
    if not isinstance(expr, Call) or not expr.arguments:
        return None
    first = expr.arguments[0]
    if expr.name == "sum":
        return first, 0.0
    if expr.name in ("name", "local-name", "namespace-uri"):
        return first, ""
    inner = when_empty(first)
    if inner is None or inner[1] != "":
        return None
    if expr.name in _OF_STRING:
        return inner
    if expr.name == "string-length":
        return inner[0], 0.0
    return (inner[0], math.nan) if expr.name == "number" else None


def _summands(expr: Expr) -> list[Expr]:
    """The node-sets that arithmetic turns into numbers."""
    match expr:
        case Arithmetic(left=left, right=right):
            return _summands(left) + _summands(right)
        case Negation(operand) | Call("number" | "floor" | "ceiling" | "round", (operand,)):
            return _summands(operand)
    return [expr] if type_of(expr) == NODE_SET else []
