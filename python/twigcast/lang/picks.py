"""``(path)[n]``: a position in a whole node-set, which is not one among siblings."""

from __future__ import annotations

from twigcast.ir.pattern import Position
from twigcast.ir.visit import replace
from twigcast.lang import ast, positions

FIRST = Position("position", "=", 1)


def picked(expr: ast.Expr) -> tuple[ast.Expr, Position] | None:
    """The node-set and the position, for an expression that ends with such a predicate."""
    if not isinstance(expr, ast.FilterPath) or expr.steps:
        return None
    *before, last = expr.predicates
    found = None
    if ast.type_of(last) == ast.NUMBER:
        found = positions.compared(ast.Call("position", (), last.span), "=", last)
    elif isinstance(last, ast.Comparison) and positions.involved(last):
        numbers = ast.type_of(last.left) == ast.type_of(last.right) == ast.NUMBER
        found = positions.compared(last.left, last.op, last.right) if numbers else None
    if not isinstance(found, Position):
        return None
    return (replace(expr, predicates=tuple(before)) if before else expr.primary), found
