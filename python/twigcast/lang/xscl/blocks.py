"""Query blocks: a stream, a path, and marks in it that bind variables -> a tree of drafts.

A mark makes its step a variable; so do branches with marks in them, for these part there. The rest of a path stays on
the edges, and conditions without marks stay filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twigcast.errors import QueryError, Span
from twigcast.ir.visit import replace
from twigcast.lang import ast
from twigcast.lang.ast import AxisStep, Expr, KindTest, NameTest
from twigcast.lang.lexer import Token
from twigcast.lang.names import Scope
from twigcast.lang.xpath import Parser
from twigcast.lang.xscl.drafts import Draft, path_of, without_self

# As written, before those that nothing needs are gone: blocks nest as deep as their variables.
MAX_NAMES = 256
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(eq=False)
class BlockDraft:
    stream: str
    first: Draft
    """The variable that all others lie below."""
    root: Draft
    """What the default output shows."""
    span: Span


class BlockParser(Parser):
    """Tokens of one block -> its drafts. Paths in predicates are relative, ``[//c]`` too (SEMANTICS 1)."""

    def __init__(self, source: str, scope: Scope, tokens: list[Token]) -> None:
        super().__init__(source, scope, relative_roots=True, tokens=tokens)
        self.marks: dict[int, Token] = {}
        self.step_at: int | None = None

    # -- marks: kept by the place of their step, for XPath's syntax tree has no room for them

    def step(self) -> AxisStep:
        outside, self.step_at = self.step_at, self.tokens[self.at].start
        made = super().step()
        self.step_at = outside
        return made

    def node_test(self, axis: str) -> NameTest | KindTest:
        test = super().node_test(axis)
        self.mark()
        return test

    def predicates(self) -> tuple[Expr, ...]:
        found = super().predicates()
        self.mark()
        return found

    def mark(self) -> None:
        token = self.tokens[self.at]
        if token.kind != "mark" or self.step_at is None:
            return
        if self.step_at in self.marks:
            raise self.error("two-names", "this step has a name already", token.span, "bind it to one variable")
        if len(self.marks) >= MAX_NAMES:
            hint = "bind only what is compared or shown"
            raise self.error("too-long", f"more than {MAX_NAMES} variables in a block", token.span, hint)
        self.at += 1
        self.marks[self.step_at] = token

    def marked(self, expr: Expr) -> bool:
        return any(expr.span.start <= at < expr.span.end for at in self.marks)

    # -- the block

    def block(self) -> BlockDraft:
        start = self.tokens[0]
        stream = ""
        if start.kind == "name":
            self.at, stream = 1, start.text
        elif start.kind == "end":
            raise self.unexpected("a query block such as S//book->b")
        if self.tokens[self.at].kind == "mark":
            mark = self.take()
            document = Draft(mark.text, None, [], mark.span)
            self.end()
            return BlockDraft(stream, document, document, self.since(start.start))
        if stream and self.tokens[self.at].kind == "end":
            document = Draft("", None, [], start.span)
            return BlockDraft(stream, document, document, start.span)
        if not (self.is_op("/") or self.is_op("//")):
            raise self.unexpected("'/' or '//'")
        path = self.path()
        self.end()
        if not isinstance(path, ast.LocationPath) or not without_self(list(path.steps)):
            raise self.error("not-a-path", "a query block is a path", path.span, "such as S//book->b[author->a]")
        first, root = self.trunk(path)
        return BlockDraft(stream, first, root, self.since(start.start))

    def end(self) -> None:
        token = self.tokens[self.at]
        if token.kind == "mark":
            raise self.error(
                "mark-place", f"{token.text!r} names nothing here", token.span, "put the mark after a step"
            )
        if token.kind != "end":
            raise self.unexpected("JOIN, FOLLOWED BY, or the end of the block")

    def trunk(self, path: ast.LocationPath) -> tuple[Draft, Draft]:
        steps = list(path.steps)
        elements = [at for at, step in enumerate(steps) if _finds_element(step)]
        if not elements:
            document = Draft("", None, [], path.span)
            self.walk(document, steps, None, None)
            return document, document
        made = self.walk(None, steps, elements[-1], None)
        first = made[elements[-1]]
        while first.parent is not None:
            first = first.parent
        return first, made[elements[-1]]

    def walk(
        self, context: Draft | None, steps: list[AxisStep], root: int | None, test: ast.Comparison | None
    ) -> dict[int, Draft]:
        """The variables along a path, by the number of their step. ``root`` is one in any case; ``test``, if there is
        one, holds for what the path finds."""
        made: dict[int, Draft] = {}
        pending: list[AxisStep] = []
        for at, step in enumerate(steps):
            mark = self.marks.get(step.span.start) if step.axis != "descendant-or-self" else None
            branches = [one for one in step.predicates if self.marked(one)]
            if mark is None and not branches and at != root:
                pending.append(step)
                continue
            kept = replace(step, predicates=self.kept(step.predicates))
            context = Draft(mark.text if mark else "", context, [*pending, kept], mark.span if mark else step.span)
            made[at], pending = context, []
            for branch in branches:
                self.branch(context, branch, kept=_positional(step.predicates))
        if context is None:
            raise AssertionError("a walk without marks has a root")
        if pending or test is not None:
            rest: Expr = path_of(pending, steps[-1].span)
            if test is not None:
                rest = replace(test, left=rest)
            self.condition(context, rest)
        return made

    def condition(self, draft: Draft, condition: Expr) -> None:
        if not draft.steps:
            raise self.error(
                "condition-on-message",
                "a condition on the message as a whole",
                condition.span,
                "name its root element: S/*[...] AS $m",
            )
        draft.filter(condition)

    def kept(self, predicates: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The filters without those that have become branches, but where positions are counted they all stay."""
        if _positional(predicates):
            return predicates
        return tuple(one for one in predicates if not self.marked(one))

    def branch(self, context: Draft, predicate: Expr, *, kept: bool) -> None:
        """A predicate with marks in it; ``kept``: as a filter it is there already."""
        match predicate:
            case ast.Logical("and", operands):
                for one in operands:
                    if self.marked(one):
                        self.branch(context, one, kept=kept)
                    elif not kept:
                        self.condition(context, one)
            case ast.LocationPath(False, steps):
                self.walk(context, list(steps), None, None)
            case ast.Comparison(op, left, right) if self.marked(left) != self.marked(right):
                if self.marked(right):
                    left, right, op = right, left, _FLIPPED[op]
                if not isinstance(left, ast.LocationPath) or not isinstance(right, ast.String | ast.Number):
                    raise self.no_place(predicate)
                self.walk(context, list(left.steps), None, ast.Comparison(op, left, right, predicate.span))
            case _:
                raise self.no_place(predicate)

    def no_place(self, expr: Expr) -> QueryError:
        mark = next(token for at, token in self.marks.items() if expr.span.start <= at < expr.span.end)
        return self.error(
            "mark-place",
            f"{mark.text!r} cannot be bound here: it need not exist where the block matches",
            mark.span,
            "bind variables on the block's path, on branches such as [author->a], or those compared with a constant",
        )


def _finds_element(step: AxisStep) -> bool:
    return step.axis in ("child", "descendant") and isinstance(step.test, NameTest)


def _positional(predicates: Iterable[Expr]) -> bool:
    """Whether a position may be asked for: then the order of the filters matters."""
    stack = list(predicates)
    if any(ast.type_of(one) == ast.NUMBER for one in stack):
        return True
    while stack:
        match stack.pop():
            case ast.Call(name, arguments):
                if name in ("position", "last"):
                    return True
                stack += arguments
            case ast.Logical(_, operands) | ast.Union(operands):
                stack += operands
            case ast.Comparison(_, left, right) | ast.Arithmetic(_, left, right):
                stack += (left, right)
            case ast.Negation(operand):
                stack.append(operand)
    return False
