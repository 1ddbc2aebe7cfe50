"""A subscription's context node is the document; here an expression is made to say so itself.

Engines differ in where a relative path starts (libxml2 through lxml: at the root element), so what is handed to them,
and what we compile, does not depend on it.
"""

from __future__ import annotations

from dataclasses import replace

from twigcast.lang import ast

_OF_CONTEXT = frozenset(("string", "number", "string-length", "normalize-space", "name", "local-name", "namespace-uri"))


def at_document(expr: ast.Expr) -> ast.Expr:
    """The expression with the document written in wherever the outermost context is meant."""
    match expr:
        case ast.LocationPath():
            return replace(expr, absolute=True)
        case ast.FilterPath():
            return replace(expr, primary=at_document(expr.primary))
        case ast.Union() | ast.Logical():
            return replace(expr, operands=tuple(map(at_document, expr.operands)))
        case ast.Comparison() | ast.Arithmetic():
            return replace(expr, left=at_document(expr.left), right=at_document(expr.right))
        case ast.Negation():
            return replace(expr, operand=at_document(expr.operand))
        case ast.Call("position" | "last"):
            return ast.Number(1.0, expr.span)
        case ast.Call("lang"):
            # The language comes from xml:lang on an element around the context; around the document there is none.
            return ast.Call("false", (), expr.span)
        case ast.Call(name, ()) if name in _OF_CONTEXT:
            return replace(expr, arguments=(ast.LocationPath(True, (), expr.span),))
        case ast.Call():
            return replace(expr, arguments=tuple(map(at_document, expr.arguments)))
    return expr
