"""A subscription's context node is the document; here an expression is made to say so itself.

Engines differ in where a relative path starts (libxml2 through lxml: at the root element), so what is handed to them,
and what we compile, does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.errors import Span
from twigcast.ir.visit import replace
from twigcast.lang import ast

_OF_CONTEXT = frozenset(("string", "number", "string-length", "normalize-space", "name", "local-name", "namespace-uri"))
DOCUMENT = ast.LocationPath(True, (), Span(0, 0))


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression is evaluated: a node, and its position among how many."""

    node: ast.Expr = DOCUMENT
    position: int = 1
    last: int = 1


def at(expr: ast.Expr, context: Context) -> ast.Expr:
    """Return the expression with its context written in: it means the same wherever it is evaluated."""
    match expr:
        case ast.LocationPath(absolute, steps):
            if absolute or context.node == DOCUMENT:
                return replace(expr, absolute=True)
            return along(context.node, steps)
        case ast.Call("position" | "last" as name):
            return ast.Number(float(context.position if name == "position" else context.last), expr.span)
        case ast.Call("lang"):
            if context.node == DOCUMENT:
                # The language comes from xml:lang on an element around the context; around the document there is none.
                return ast.Call("false", (), expr.span)
            asked = ast.with_operands(expr, lambda one: at(one, context))
            return ast.Call("boolean", (ast.FilterPath(context.node, (asked,), (), expr.span),), expr.span)
        case ast.Call(name, ()) if name in _OF_CONTEXT:
            return replace(expr, arguments=(replace(context.node, span=expr.span),))
    return ast.with_operands(expr, lambda one: at(one, context))


def at_document(expr: ast.Expr) -> ast.Expr:
    """Return the expression with the document written in wherever the outermost context is meant."""
    return at(expr, Context())


def along(base: ast.Expr, steps: tuple[ast.AxisStep, ...]) -> ast.Expr:
    """Return what the steps find from the nodes of ``base``."""
    if not steps:
        return base
    if base == DOCUMENT:
        return ast.LocationPath(True, steps, base.span)
    return ast.FilterPath(base, (), steps, base.span)
