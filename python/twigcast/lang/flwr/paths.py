"""Expressions -> paths and conditions of a transform, with the refusal of what cannot be one."""

from __future__ import annotations

from twigcast.errors import QueryError, Span
from twigcast.ir.pattern import TRUE, Exists, Reason, Twig
from twigcast.ir.transform import Condition, Constant, Copy, Function, Item, Path
from twigcast.lang import ast
from twigcast.lang.approximate import is_exact
from twigcast.lang.ast import Expr
from twigcast.lang.flwr.expressions import is_self
from twigcast.lang.outer import at_document
from twigcast.lang.predicates import Predicates
from twigcast.lang.printer import to_text
from twigcast.lang.routes import SINGLE, Route, node_test

FUNCTIONS = ("count", "sum", "min", "max", "avg", "string", "concat")
_DEEP = "nested too deeply for a tree pattern"


class Paths:
    """One transform's; it gathers the reasons why some part is no tree pattern."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.reasons: list[Reason] = []

    def refuse(self, code: str, text: str, span: Span, hint: str | None = None) -> QueryError:
        return QueryError(code, text, hint=hint, source=self.source, span=span)

    # -- paths

    def binding(self, expr: Expr) -> Path:
        kind = self.trunk(expr, "the binding path")
        assert isinstance(expr, ast.LocationPath)
        expr = ast.LocationPath(True, expr.steps, expr.span)
        if kind == "document":
            raise self.refuse(
                "no-binding", "the binding path names no node", expr.span, "name a step, for example //book"
            )
        return Path(to_text(expr), kind, self.twig(expr))

    def relative(self, expr: Expr, bound: str) -> Path:
        """``bound`` is the kind of the bound node."""
        kind = self.trunk(expr, "an embedded path")
        assert isinstance(expr, ast.LocationPath)
        if is_self(expr):
            return Path(".", bound, Twig())
        if kind == "document":
            kind = bound
        elif bound != "element" and not _only_self(expr):
            raise self.refuse(
                "below-a-leaf",
                f"the variable is bound to {'an attribute' if bound == 'attribute' else 'no element'}:"
                " there is nothing below it",
                expr.span,
                "bind the element instead",
            )
        return Path(to_text(expr), kind, self.twig(expr))

    def trunk(self, expr: Expr, what: str) -> str:
        """The kind of node that a path finds; refuses what is more than child, descendant and attribute steps."""
        if isinstance(expr, ast.Union):
            raise self.refuse(
                "union", f"{what} cannot be a union", expr.span, "write one path in each pair of braces, or use *[...]"
            )
        if isinstance(expr, ast.FilterPath):
            raise self.refuse(
                "parenthesised-path",
                f"{what} cannot filter a parenthesised path or start from one",
                expr.span,
                "put the predicate on a step; string() already takes the first node",
            )
        if not isinstance(expr, ast.LocationPath):
            raise self.refuse("not-a-path", f"{what} has to be a path", expr.span)
        kind = "document"
        for at, step in enumerate(expr.steps):
            any_depth = step.axis == "descendant-or-self" and not step.predicates and at + 1 < len(expr.steps)
            if step.axis == "self" and isinstance(step.test, ast.KindTest) and step.test.kind == "node":
                continue
            if step.axis not in ("child", "descendant", "attribute") and not any_depth:
                raise self.refuse(
                    "axis",
                    f"{what} goes down only; the axis {step.axis} is not supported",
                    step.span,
                    "write child (/), descendant (//) and attribute (@) steps; predicates may use any axis",
                )
            if any_depth and not (isinstance(step.test, ast.KindTest) and step.test.kind == "node"):
                raise self.refuse(
                    "axis", f"{what} cannot use descendant-or-self:: with a name", step.span, "write // before the name"
                )
            test = node_test(step)
            if test is None:
                raise self.refuse("below-a-leaf", "no attribute passes this test", step.span)
            if kind in ("attribute", "text", "comment", "pi"):
                raise self.refuse(
                    "below-a-leaf", f"there is nothing below {_said(kind)}", step.span, "make it the last step"
                )
            if not any_depth:
                kind = test.kind
        return kind

    def twig(self, expr: ast.LocationPath) -> Twig | None:
        """The path as a tree pattern; None, with a reason kept, if it is none."""
        compiler = Predicates()
        try:
            routes = compiler.routes(expr)
            route = routes[0] if len(routes) == 1 else None
            if route is not None and not route.lost and _plain(route, expr.absolute) and _exact(route.twig):
                return route.twig
        except RecursionError:
            self.reasons.append(Reason(f"the path is {_DEEP}", expr.span))
            return None
        self.reasons += compiler.reasons or [Reason("the path is not one tree pattern", expr.span)]
        return None

    # -- conditions

    def condition(self, expr: Expr) -> Condition:
        compiler = Predicates()
        text = to_text(expr)
        try:
            predicate = compiler.boolean(expr, SINGLE)
            if is_exact(predicate):
                return Condition(text, predicate)
        except RecursionError:
            self.reasons.append(Reason(f"the condition is {_DEEP}", expr.span))
            return Condition(text, None)
        self.reasons += compiler.reasons or [Reason("the condition looks above the bound node", expr.span)]
        return Condition(text, None)

    # -- items

    def item(self, expr: Expr, bound: str) -> Item:
        match expr:
            case ast.String(value):
                return Constant(value)
            case ast.LocationPath() | ast.FilterPath() | ast.Union():
                return Copy(self.relative(expr, bound))
            case ast.Call(name, arguments) if name in FUNCTIONS:
                return self.function(name, tuple(self.item(one, bound) for one in arguments), expr.span)
        raise self.no_item(expr)

    def function(self, name: str, arguments: tuple[Item, ...], span: Span) -> Item:
        if name == "concat":
            if len(arguments) < 2:
                raise self.refuse("wrong-arity", "concat() takes 2 or more arguments", span)
            if all(isinstance(one, Constant) for one in arguments):
                return Constant("".join(one.value for one in arguments if isinstance(one, Constant)))
            return Function(name, arguments)
        if len(arguments) != 1:
            raise self.refuse("wrong-arity", f"{name}() takes 1 argument, not {len(arguments)}", span)
        if not isinstance(arguments[0], Copy) and name not in ("string", "number"):
            raise self.refuse("type-error", f"the argument of {name}() has to be a path", span)
        return Function(name, arguments)

    def no_item(self, expr: Expr) -> QueryError:
        known = ", ".join(f"{name}()" for name in FUNCTIONS)
        match expr:
            case ast.Number():
                return self.refuse("number", "a number cannot be put out as it is", expr.span, "put it in quotes")
            case ast.Arithmetic() | ast.Negation():
                return self.refuse("arithmetic", "arithmetic is not supported here", expr.span, f"there are {known}")
            case ast.Comparison() | ast.Logical():
                return self.refuse(
                    "condition", "a condition cannot be put out", expr.span, "put it in the where clause"
                )
            case ast.Call(name):
                return self.refuse("function", f"{name}() is not supported in braces", expr.span, f"there are {known}")
        return self.refuse("expression", "this expression is not supported here", expr.span)


def _plain(route: Route, absolute: bool) -> bool:
    """Whether nothing but the twig decides: no condition above, or on the document."""
    if not absolute:
        return not route.hops and route.base == TRUE
    return at_document(route.any(TRUE)) == TRUE


def _exact(twig: Twig) -> bool:
    return not twig.nodes or is_exact(Exists(twig))


def _only_self(expr: ast.LocationPath) -> bool:
    return all(step.axis == "self" for step in expr.steps)


def _said(kind: str) -> str:
    return {"attribute": "an attribute", "text": "a text node", "comment": "a comment", "pi": "an instruction"}[kind]
