"""Text or syntax tree -> what the engine runs: a linear path, a tree pattern, or a necessary pattern and the rest."""

from __future__ import annotations

from collections.abc import Mapping

from twigcast.errors import QueryError
from twigcast.ir.pattern import (
    FALSE,
    TRUE,
    Compiled,
    Exists,
    Pattern,
    Position,
    Predicate,
    Reason,
    Residual,
    Selection,
    Structural,
    branch_of,
    own_leaves,
)
from twigcast.lang import ast
from twigcast.lang.approximate import bound, is_exact
from twigcast.lang.canon import conj, disj, exists
from twigcast.lang.context import at_document as from_document
from twigcast.lang.outer import at_document
from twigcast.lang.picks import picked
from twigcast.lang.plain import plain
from twigcast.lang.predicates import Predicates
from twigcast.lang.routes import SINGLE
from twigcast.lang.simpler import on_document
from twigcast.lang.structural import compiler_for, from_ast
from twigcast.lang.xpath import parse

# Branches within branches; whoever walks a pattern may recurse.
MAX_NESTED = 60


def compile_query(
    text: str,
    namespaces: Mapping[str, str] | None = None,
    default_ns: str | None = None,
    *,
    dialect: str = "w3c",
) -> Compiled:
    """Compile a subscription. Only a QueryError comes out for a text that is not one."""
    compiler = compiler_for(namespaces, default_ns)
    if "[" not in text:
        path = compiler.fast(text)
        if path is not None:
            return Structural(path)
    else:
        pattern = plain(text, compiler)
        if pattern is not None:
            return pattern
    return compile_ast(parse(text, namespaces, default_ns, dialect=dialect), text)


def compile_ast(expr: ast.Expr, source: str) -> Compiled:
    try:
        return Structural(from_ast(expr, source))
    except QueryError:
        pass
    expr = from_document(expr)
    try:
        return _compile(expr)
    except RecursionError:
        return _residual(expr, None, (Reason("the query is nested too deeply for a tree pattern", expr.span),))


def _compile(expr: ast.Expr) -> Compiled:
    compiler = Predicates()
    selects: tuple[Selection, ...] | None = None
    pick: Position | None = None
    if ast.type_of(expr) == ast.NODE_SET:
        nodes, pick = picked(expr) or (expr, None)
        routes = [(at_document(route.any(TRUE)), route) for route in compiler.routes(nodes)]
        selects = tuple(dict.fromkeys(Selection(guard, route.twig) for guard, route in routes if guard != FALSE))
        if pick is None:
            condition = disj(*(conj(one.guard, exists(one.twig)) for one in selects))
        else:
            condition = at_document(compiler.exists_at(nodes, pick))
        # Not the condition alone: a disjunction may hold whatever an unknown says, and still not know the nodes.
        exact = not compiler.reasons or all(is_exact(one.guard) and is_exact(Exists(one.twig)) for one in selects)
        exact = exact and is_exact(condition)
    else:
        condition = at_document(compiler.boolean(expr, SINGLE))
        exact = is_exact(condition)
    if _depth(condition) > MAX_NESTED:
        reason = Reason("the query is nested too deeply for a tree pattern", expr.span)
        return _residual(expr, None, (reason,))
    if exact:
        return Pattern(condition, selects, pick)
    necessary = on_document(bound(condition, upper=True))
    if necessary == FALSE:
        return Pattern(FALSE, None if selects is None else ())
    return _residual(expr, None if necessary == TRUE else necessary, tuple(dict.fromkeys(compiler.reasons)))


def _residual(expr: ast.Expr, necessary: Predicate | None, reasons: tuple[Reason, ...]) -> Residual:
    return Residual(necessary, reasons, expr, ast.type_of(expr) == ast.NODE_SET)


def _depth(predicate: Predicate) -> int:
    """How deeply branches nest in branches, without recursion: this guards those that recurse."""
    deepest, stack = 0, [(predicate, 0)]
    while stack:
        one, depth = stack.pop()
        deepest = max(deepest, depth)
        for twig in map(branch_of, own_leaves(one)):
            stack += [(inner, depth + 1) for node in (twig.nodes if twig else ()) for inner in node.filters]
    return deepest
