"""Join predicates: conjunctions of comparisons between variables, or paths from them, of two blocks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from twigcast.errors import QueryError, Span
from twigcast.lang import ast
from twigcast.lang.ast import AxisStep, Expr
from twigcast.lang.lexer import Token
from twigcast.lang.names import Scope
from twigcast.lang.xpath import Parser
from twigcast.lang.xscl.drafts import Draft, path_of, without_self

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class JoinParser(Parser):
    """Tokens of one conjunction -> comparisons of drafts. Comparisons with a constant become filters at once, and
    paths from variables become variables (value-join normal form, joins §2)."""

    def __init__(self, source: str, scope: Scope, tokens: list[Token], variables: Mapping[str, Draft]) -> None:
        super().__init__(source, scope, relative_roots=True, tokens=tokens)
        self.variables = variables
        self.found: list[tuple[Draft, str, Draft, Span]] = []

    def conjunction(self) -> list[tuple[Draft, str, Draft, Span]]:
        while True:
            self.comparison()
            if not self.take_op("and"):
                break
        token = self.tokens[self.at]
        if token.kind == "op" and token.text == "or":
            raise self.error("disjunction", "join predicates are conjunctions", token.span, "write one query for each")
        if token.kind != "end":
            raise self.unexpected("AND, or ',' and a window")
        return self.found

    def comparison(self) -> None:
        start = self.tokens[self.at].start
        left = self.operand()
        token = self.tokens[self.at]
        if token.kind != "op" or token.text not in OPERATORS:
            raise self.unexpected("one of " + " ".join(OPERATORS))
        op = self.take().text
        right = self.operand()
        span = self.since(start)
        if not isinstance(left, tuple):
            if not isinstance(right, tuple):
                raise self.error("constants", "this compares two constants", span, "compare variables")
            left, right, op = right, left, FLIPPED[op]
        draft, steps = left
        if isinstance(right, tuple):
            one, other = self.variable(draft, steps, span), self.variable(*right, span)
            self.found.append((one, op, other, span))
            return
        if not draft.steps:
            raise self.error(
                "condition-on-message",
                "a condition on the message as a whole",
                span,
                "name its root element: S/*[...] AS $m",
            )
        draft.filter(ast.Comparison(op, path_of(steps, span), right, span))

    def operand(self) -> tuple[Draft, list[AxisStep]] | Expr:
        token = self.tokens[self.at]
        if token.kind in ("number", "literal"):
            self.at += 1
            if token.kind == "literal":
                return ast.String(token.text[1:-1], token.span)
            return ast.Number(float(token.text), token.span)
        if self.is_op("-") and self.tokens[self.at + 1].kind == "number":
            self.at += 1
            number = self.take()
            span = Span(token.start, number.end)
            return ast.Negation(ast.Number(float(number.text), span), span)
        if self.is_op("$"):
            self.at += 1
            if self.tokens[self.at].kind != "name" or self.tokens[self.at].start != token.end:
                raise self.error("bad-variable", "a name has to follow '$'", token.span)
        elif token.kind != "name" or self.next_is("("):
            raise self.unexpected("a variable, a path from one, or a constant")
        name = self.take()
        draft = self.variables.get(name.text)
        if draft is None:
            raise unbound(self.source, name.text, Span(token.start, name.end), self.variables)
        steps: list[AxisStep] = []
        if self.is_op("["):
            predicates = self.predicates()
            steps.append(AxisStep("self", ast.KindTest("node", None, name.span), predicates, self.since(token.start)))
        self.more_steps(steps)
        return draft, steps

    def variable(self, draft: Draft, steps: list[AxisStep], span: Span) -> Draft:
        """The variable of a path: existential in each predicate for itself, hence a new one each time."""
        if without_self(steps):
            draft = Draft("", draft, steps, span)
        draft.needed = True
        return draft


def unbound(source: str, name: str, span: Span, known: Mapping[str, object]) -> QueryError:
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else "bind it in a block: //author->a or //author AS $a"
    return QueryError("unbound-variable", f"nothing binds {name}", hint=hint, source=source, span=span)
