"""The parser of XPath 1.0: text -> syntax tree. Whatever the text, the outcome is a tree or a QueryError."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from twigcast.errors import OptionError, QueryError, Span
from twigcast.lang import ast, blame
from twigcast.lang.ast import AxisStep, Expr, KindTest, NameTest
from twigcast.lang.functions import FUNCTIONS
from twigcast.lang.lexer import Token, tokenize
from twigcast.lang.names import Scope

FORWARD_AXES = ("child", "descendant", "descendant-or-self", "self", "attribute")
REVERSE_AXES = ("parent", "ancestor", "ancestor-or-self", "preceding", "preceding-sibling")
AXES = (*FORWARD_AXES, *REVERSE_AXES, "following", "following-sibling", "namespace")
NODE_TYPES = frozenset(("comment", "text", "processing-instruction", "node"))
DIALECTS = ("w3c", "tian")

# Nested expressions; each costs five frames here and a few in whatever walks the tree later, of Python's 1,000.
MAX_DEPTH = 100
# Operators beyond the first of chains such as 1 + 1 + ..., which make the tree as deep as they are long.
MAX_CHAINED = 100

_PRECEDENCE = {"or": 1, "and": 2, "=": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5}
_PRECEDENCE |= {"*": 6, "div": 6, "mod": 6}


def parse(
    source: str,
    namespaces: Mapping[str, str] | None = None,
    default_ns: str | None = None,
    *,
    dialect: str = "w3c",
) -> Expr:
    """The syntax tree of an XPath 1.0 expression.

    ``default_ns`` is the namespace of unprefixed element names. In the dialect ``tian``, a leading ``/`` or ``//``
    inside a predicate starts at the context node (SEMANTICS 1).
    """
    check_dialect(dialect)
    return Parser(source, Scope(namespaces or {}, default_ns or ""), relative_roots=dialect == "tian").parse()


def check_dialect(dialect: object) -> None:
    """Raise OptionError for a dialect that does not exist."""
    if dialect not in DIALECTS:
        hint = f"the dialects are {', '.join(DIALECTS)}"
        raise OptionError("unknown-dialect", f"there is no dialect {dialect!r}", hint=hint)


class Parser:
    keywords: Sequence[str] = blame.OPERATORS
    """The words that may stand after an operand."""

    def __init__(
        self, source: str, scope: Scope, *, relative_roots: bool = False, tokens: list[Token] | None = None
    ) -> None:
        self.source = source
        self.scope = scope
        self.relative_roots = relative_roots
        self.tokens = tokenize(source) if tokens is None else tokens
        self.at = 0
        self.depth = 0
        self.chained = 0
        self.in_predicate = 0
        self.open: list[Token] = []

    def parse(self) -> Expr:
        if len(self.tokens) == 1:
            raise self.error("empty-query", "the query is empty", Span(0, 1), "write a path, for example //order/item")
        expr = self.binary(1)
        if self.tokens[self.at].kind != "end":
            raise self.unexpected("the end of the query")
        return expr

    # -- tokens and errors

    def error(self, code: str, text: str, span: Span, hint: str | None = None) -> QueryError:
        return QueryError(code, text, hint=hint, source=self.source, span=span)

    def unexpected(self, wanted: str) -> QueryError:
        return blame.unexpected(self.source, self.tokens, self.at, wanted, self.open, self.keywords)

    def since(self, start: int) -> Span:
        """From ``start`` to the end of the last token taken: the parentheses of operands are part of the whole."""
        return Span(start, self.tokens[self.at - 1].end)

    def is_op(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind == "op"

    def next_is(self, text: str) -> bool:
        """Whether an operator follows the current token, which is not the last."""
        token = self.tokens[self.at + 1]
        return token.text == text and token.kind == "op"

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def take_op(self, text: str) -> bool:
        if self.is_op(text):
            self.at += 1
            return True
        return False

    def enter(self) -> None:
        """Remember an opening bracket, for the error should its partner be missing."""
        self.open.append(self.take())

    def leave(self, closing: str, wanted: str) -> int:
        if not self.is_op(closing):
            raise self.unexpected(wanted)
        self.open.pop()
        return self.take().end

    # -- operators

    def binary(self, least: int) -> Expr:
        """An expression of operators that bind at least as tightly as ``least`` (precedence climbing)."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(
                "too-deep",
                f"expressions are nested more than {MAX_DEPTH} levels deep",
                self.tokens[self.at].span,
                "remove superfluous parentheses, or split the query",
            )
        start = self.tokens[self.at].start
        left = self.unary()
        links = 0
        while (token := self.tokens[self.at]).kind == "op" and _PRECEDENCE.get(token.text, 0) >= least:
            op, level = token.text, _PRECEDENCE[token.text]
            self.at += 1
            right = self.binary(level + 1)
            if level <= 2:
                operands = [left, right]
                while self.take_op(op):
                    operands.append(self.binary(level + 1))
                left = ast.Logical(op, tuple(operands), self.since(start))
                continue
            links += 1
            self.chained += links > 1
            if self.chained > MAX_CHAINED:
                raise self.error(
                    "too-deep", f"more than {MAX_CHAINED} chained operators", token.span, "split the query"
                )
            node = ast.Comparison if level <= 4 else ast.Arithmetic
            left = node(op, left, right, self.since(start))
        self.depth -= 1
        return left

    def unary(self) -> Expr:
        """Minus signs and unions: ``-a | b`` negates the union."""
        signs = []
        while self.is_op("-"):
            signs.append(self.take().start)
        self.chained += len(signs)
        if self.chained > MAX_CHAINED:
            raise self.error("too-deep", f"more than {MAX_CHAINED} chained operators", self.tokens[self.at].span)
        start = self.tokens[self.at].start
        expr = self.path()
        if self.is_op("|"):
            operands = [self.node_set(expr, "an operand of '|'")]
            while self.take_op("|"):
                operands.append(self.node_set(self.path(), "an operand of '|'"))
            expr = ast.Union(tuple(operands), self.since(start))
        for sign in reversed(signs):
            expr = ast.Negation(expr, self.since(sign))
        return expr

    def node_set(self, expr: Expr, role: str) -> Expr:
        found = ast.type_of(expr)
        if found != ast.NODE_SET:
            raise self.error(
                "type-error", f"{role} has to be a node-set, but this is a {found}", expr.span, blame.type_hint(expr)
            )
        return expr

    # -- paths

    def path(self) -> Expr:
        token = self.tokens[self.at]
        if token.kind == "op" and token.text in ("/", "//"):
            return self.absolute()
        if self.starts_step():
            steps = [self.step()]
            self.more_steps(steps)
            return ast.LocationPath(False, tuple(steps), Span(token.start, steps[-1].span.end))
        primary = self.primary()
        predicates: tuple[Expr, ...] = ()
        if self.is_op("["):
            self.node_set(primary, "what a predicate filters")
            predicates = self.predicates()
        steps = []
        if self.is_op("/") or self.is_op("//"):
            self.node_set(primary, "what a path starts from")
            self.more_steps(steps)
        if not predicates and not steps:
            return primary
        return ast.FilterPath(primary, predicates, tuple(steps), self.since(token.start))

    def absolute(self) -> Expr:
        token = self.take()
        steps: list[AxisStep] = []
        relative = self.relative_roots and self.in_predicate > 0
        if token.text == "//":
            if relative:
                steps.append(AxisStep("self", KindTest("node", None, token.span), (), token.span))
            steps.append(_any_depth(token))
            steps.append(self.step())
        elif self.starts_step():
            steps.append(self.step())
        elif relative:
            steps.append(AxisStep("self", KindTest("node", None, token.span), (), token.span))
        elif self.tokens[self.at].kind == "name" and self.next_is("("):
            raise self.unexpected("a step")
        if steps:
            self.more_steps(steps)
        return ast.LocationPath(not relative, tuple(steps), self.since(token.start))

    def more_steps(self, steps: list[AxisStep]) -> None:
        while True:
            if self.is_op("//"):
                steps.append(_any_depth(self.take()))
            elif not self.take_op("/"):
                return
            steps.append(self.step())

    def starts_step(self) -> bool:
        token = self.tokens[self.at]
        if token.kind == "name":
            return token.text in NODE_TYPES or not self.next_is("(")
        return token.kind == "wildcard" or (token.kind == "op" and token.text in (".", "..", "@"))

    def step(self) -> AxisStep:
        if not self.starts_step():
            raise self.unexpected("a step")
        token = self.tokens[self.at]
        if token.kind == "op" and token.text in (".", ".."):
            self.at += 1
            if self.is_op("["):
                raise self.unexpected("the next step")
            axis = "self" if token.text == "." else "parent"
            return AxisStep(axis, KindTest("node", None, token.span), (), token.span)
        axis = "child"
        if self.take_op("@"):
            axis = "attribute"
        elif token.kind == "name" and self.next_is("::"):
            axis = self.axis()
        test = self.node_test(axis)
        predicates = self.predicates()
        return AxisStep(axis, test, predicates, self.since(token.start))

    def axis(self) -> str:
        token = self.take()
        self.at += 1
        if token.text not in AXES:
            close = difflib.get_close_matches(token.text, AXES, 1)
            hint = f"did you mean {close[0]}::?" if close else "the axes are " + ", ".join(AXES)
            raise self.error("unknown-axis", f"there is no axis {token.text!r}", token.span, hint)
        return token.text

    def node_test(self, axis: str) -> NameTest | KindTest:
        token = self.tokens[self.at]
        if token.kind == "wildcard":
            self.at += 1
            if token.text == "*":
                return NameTest(None, None, token.span)
            ns, _ = self.scope.resolve(token.text, token.span, self.source, attribute=axis == "attribute")
            return NameTest(ns, None, token.span)
        if token.kind != "name":
            raise self.unexpected("a node test")
        if not self.next_is("("):
            self.at += 1
            other = axis in ("attribute", "namespace")
            ns, local = self.scope.resolve(token.text, token.span, self.source, attribute=other)
            return NameTest(ns, local, token.span)
        if token.text not in NODE_TYPES:
            raise self.unexpected("a node test")
        self.at += 1
        self.enter()
        target = None
        if self.tokens[self.at].kind == "literal" and token.text == "processing-instruction":
            target = self.take().text[1:-1]
        end = self.leave(")", f"')' after {token.text}(")
        return KindTest(token.text, target, Span(token.start, end))

    def predicates(self) -> tuple[Expr, ...]:
        found: list[Expr] = []
        while self.is_op("["):
            self.enter()
            self.in_predicate += 1
            found.append(self.binary(1))
            self.in_predicate -= 1
            self.leave("]", "']'")
        return tuple(found)

    # -- primaries

    def primary(self) -> Expr:
        token = self.tokens[self.at]
        if token.kind == "number":
            self.at += 1
            return ast.Number(float(token.text), token.span)
        if token.kind == "literal":
            self.at += 1
            return ast.String(token.text[1:-1], token.span)
        if token.kind == "name":
            return self.call()
        if self.is_op("("):
            self.enter()
            expr = self.binary(1)
            self.leave(")", "')'")
            return expr
        raise self.unexpected("an expression")

    def call(self) -> Expr:
        token = self.take()
        name = "not" if token.text == "NOT" else token.text
        function = FUNCTIONS.get(name)
        if function is None:
            raise blame.unknown_function(self.source, token)
        self.enter()
        arguments: list[Expr] = []
        if not self.is_op(")"):
            arguments.append(self.binary(1))
            while self.take_op(","):
                arguments.append(self.binary(1))
        end = self.leave(")", "',' or ')'" if arguments else "an argument or ')'")
        span = Span(token.start, end)
        if len(arguments) < function.least or (function.most is not None and len(arguments) > function.most):
            raise blame.wrong_arity(self.source, name, len(arguments), span)
        if function.node_sets:
            for argument in arguments:
                self.node_set(argument, f"the argument of {name}()")
        return ast.Call(name, tuple(arguments), span)


def _any_depth(slashes: Token) -> AxisStep:
    """What ``//`` abbreviates (section 2.5)."""
    return AxisStep("descendant-or-self", KindTest("node", None, slashes.span), (), slashes.span)
