"""XPath inside FLWR: variables stand for what binds them, and every path starts at one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from twigcast.errors import QueryError, Span
from twigcast.lang import ast
from twigcast.lang.ast import Expr
from twigcast.lang.blame import OPERATORS
from twigcast.lang.flwr.scanner import KEYWORDS
from twigcast.lang.lexer import Token
from twigcast.lang.names import Scope
from twigcast.lang.printer import is_any_depth
from twigcast.lang.xpath import Parser

SOURCES = frozenset(("doc", "document", "stream"))
_CLAUSES = ("for", "let", "where", "order", "return", "stable", "ascending", "descending")
_OF_CONTEXT = frozenset(
    ("string", "number", "string-length", "normalize-space", "name", "local-name", "namespace-uri", "position", "last")
)


@dataclass(frozen=True, slots=True)
class Variables:
    """``bound`` gives each variable as an expression relative to the bound node (or the document, before ``for``);
    None for one whose value is no XPath expression. ``node`` is the variable of the ``for`` clause."""

    bound: Mapping[str, Expr | None] = field(default_factory=dict)
    node: str | None = None


class ExpressionParser(Parser):
    """``top``: the expression belongs to the ``for`` clause, or to a ``let`` before it, and starts at the message."""

    keywords = (*OPERATORS, *_CLAUSES)

    def __init__(self, source: str, tokens: list[Token], scope: Scope, variables: Variables, *, top: bool) -> None:
        super().__init__(source, scope, tokens=tokens)
        self.variables = variables
        self.top = top
        self.sources: list[tuple[str, str]] = []

    def parse(self) -> Expr:
        if len(self.tokens) == 1:
            raise self.unexpected("an expression")
        expr = self.binary(1)
        if self.tokens[self.at].kind != "end":
            raise self.unexpected("the end of the expression")
        return expr

    def unexpected(self, wanted: str) -> QueryError:
        token = self.tokens[self.at]
        if token.text == "|" and self.at and self.tokens[self.at - 1].text == "|":
            wanted = "one '|'"
        rest = self.source[token.end :].lstrip()
        if token.kind == "end" and rest and not self.open:
            # The end of the expression is not the end of the query: say what stands there instead.
            at = len(self.source) - len(rest)
            word = rest.split(maxsplit=1)[0][:20]
            return self.error("unexpected-token", f"found {word!r} where {wanted} should be", Span(at, at + len(word)))
        return super().unexpected(wanted)

    def path(self) -> Expr:
        token = self.tokens[self.at]
        if self.is_op("$"):
            return self.from_variable()
        if token.kind == "name" and token.text in SOURCES and self.next_is("("):
            return self.from_source()
        if token.kind == "name" and token.text in KEYWORDS and not self.in_predicate and not self.top:
            raise self.error("unexpected-token", f"found {token.text!r} where an expression should be", token.span)
        expr = super().path()
        if self.in_predicate or self.top:
            return expr
        if isinstance(expr, ast.LocationPath):
            name = self.variables.node or "v"
            text = self.source[expr.span.start : expr.span.end].lstrip("/.") or "title"
            raise self.error(
                "no-context",
                "this path starts nowhere: in a FLWR expression a path starts at the variable",
                expr.span,
                f"write ${name}/{text}",
            )
        return expr

    def call(self) -> Expr:
        token = self.tokens[self.at]
        expr = super().call()
        if isinstance(expr, ast.Call) and not self.in_predicate and not expr.arguments and token.text in _OF_CONTEXT:
            hint = f"write {token.text}(${self.variables.node or 'v'})"
            if token.text in ("position", "last"):
                hint = "positions are counted in predicates: $v/author[1]"
            raise self.error("no-context", f"{token.text}() has no context node here", expr.span, hint)
        return expr

    def primary(self) -> Expr:
        expr = super().primary()
        if isinstance(expr, ast.String) and '"' in expr.value and "'" in expr.value:
            # XPath 1.0, in which paths are kept, has no way to write both quotes in one string.
            pieces = [piece for piece in re.split('("+)', expr.value) if piece]
            return ast.Call("concat", tuple(ast.String(piece, expr.span) for piece in pieces), expr.span)
        return expr

    # -- where paths start

    def from_source(self) -> Expr:
        token = self.take()
        if not self.top:
            hint = "a transform sees one message; start the path at the variable"
            raise self.error("second-source", f"{token.text}() belongs in the for clause alone", token.span, hint)
        self.enter()
        if self.tokens[self.at].kind != "literal":
            raise self.unexpected("a name in quotes")
        name = self.take().text[1:-1]
        end = self.leave(")", f"')' after {token.text}(")
        self.sources.append(("stream" if token.text == "stream" else "doc", name))
        start = ast.LocationPath(True, (), Span(token.start, end))
        return self.continued(start, token.start)

    def from_variable(self) -> Expr:
        dollar = self.take()
        token = self.tokens[self.at]
        if token.kind != "name" or token.start != dollar.end:
            raise self.error("bad-variable", "a name has to follow '$'", Span(dollar.start, dollar.end))
        self.at += 1
        span = Span(dollar.start, token.end)
        if self.in_predicate:
            raise self.error(
                "variable-in-predicate",
                f"${token.text} inside a predicate would compare two nodes of the message with each other",
                span,
                "compare with a constant; to combine messages, write a correlation",
            )
        if token.text not in self.variables.bound:
            close = difflib.get_close_matches(token.text, self.variables.bound, 1)
            hint = f"did you mean ${close[0]}?" if close else "bind it with 'for' or 'let'"
            raise self.error("unbound-variable", f"nothing binds ${token.text}", span, hint)
        value = self.variables.bound[token.text]
        if value is None:
            raise self.error(
                "value-in-expression",
                f"${token.text} stands for min(), max() or avg(), which can only be put out as it is",
                span,
                f"write {{ ${token.text} }} in the return clause",
            )
        return self.continued(value, dollar.start)

    def continued(self, start: Expr, at: int) -> Expr:
        """Predicates and steps that follow a variable or source."""
        steps: list[ast.AxisStep] = []
        predicates: tuple[Expr, ...] = ()
        if self.is_op("["):
            self.node_set(start, "what a predicate filters")
            predicates = self.predicates()
        if self.is_op("/") or self.is_op("//"):
            self.node_set(start, "what a path starts from")
            if not (self.next_is_end() and self.is_op("/")):
                self.more_steps(steps)
        if isinstance(start, ast.LocationPath):
            if predicates and is_self(start):
                only = ast.AxisStep("self", ast.KindTest("node", None, start.span), predicates, start.span)
                start, predicates = ast.LocationPath(False, (only,), start.span), ()
            if not predicates:
                # ".//x" and not "descendant-or-self::node()/x": the self step stays before "//".
                before = () if steps and is_self(start) and not is_any_depth(steps[0]) else start.steps
                return ast.LocationPath(start.absolute, (*before, *steps), self.since(at))
        if not predicates and not steps:
            return start
        return ast.FilterPath(start, predicates, tuple(steps), self.since(at))

    def next_is_end(self) -> bool:
        return self.tokens[self.at + 1].kind == "end"


def is_self(expr: Expr) -> bool:
    """Whether this is the bound node itself."""
    if not isinstance(expr, ast.LocationPath) or expr.absolute or len(expr.steps) != 1:
        return False
    step = expr.steps[0]
    return (
        step.axis == "self" and isinstance(step.test, ast.KindTest) and step.test.kind == "node" and not step.predicates
    )


def bound_node(span: Span) -> Expr:
    return ast.LocationPath(False, (ast.AxisStep("self", ast.KindTest("node", None, span), (), span),), span)
