"""The SELECT clause: ``*``, variables, or an element with holes in braces, as in a transform's return clause."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping

from twigcast.errors import QueryError, Span
from twigcast.ir.correlation import Ref, VariablePath, under_root
from twigcast.ir.transform import Content, Element, Item, Path
from twigcast.ir.visit import replace
from twigcast.lang import ast
from twigcast.lang.ast import AxisStep, Expr
from twigcast.lang.flwr.clauses import Clauses
from twigcast.lang.flwr.expressions import ExpressionParser, Variables
from twigcast.lang.flwr.paths import Paths
from twigcast.lang.flwr.scanner import expression
from twigcast.lang.names import Scope
from twigcast.lang.xscl.drafts import path_of, self_step

_FROM = re.compile(r"\sFROM\s", re.IGNORECASE)
# What a name stands for: the number of its variable, and the kind of its nodes.
Resolve = Callable[[str, Span], tuple[Ref, str]]


class _AnyVariable(Mapping[str, "Expr | None"]):
    """Each name as a path that starts with its marker; the resolver knows which there are."""

    def __getitem__(self, name: str) -> Expr:
        span = Span(0, 0)
        marker = AxisStep("variable", ast.NameTest("", name, span), (), span)
        return ast.LocationPath(False, (marker,), span)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _VariablePaths(Paths):
    def __init__(self, source: str, resolve: Resolve) -> None:
        super().__init__(source)
        self.resolve = resolve

    def relative(self, expr: Expr, bound: str) -> Path:
        steps: list[AxisStep] = []
        if isinstance(expr, ast.FilterPath) and isinstance(expr.primary, ast.LocationPath):
            # $x[p]/y is the path self::node()[p]/y from x.
            only = replace(self_step(expr.span), predicates=expr.predicates)
            steps, expr = [only, *expr.steps], expr.primary
        if isinstance(expr, ast.LocationPath) and expr.steps and expr.steps[0].axis == "variable":
            name = expr.steps[0].test
            assert isinstance(name, ast.NameTest) and name.local is not None
            ref, kind = self.resolve(name.local, expr.span)
            path = super().relative(path_of([*expr.steps[1:], *steps], expr.span), kind)
            return VariablePath(path.text, path.kind, path.twig, ref)
        return super().relative(expr, bound)


class SelectParser(Clauses):
    """From the place after SELECT to that of FROM. ``resolve`` gives variables their numbers."""

    def __init__(self, source: str, scope: Scope, at: int, resolve: Resolve) -> None:
        super().__init__(source, scope)
        self.at = at
        self.paths = _VariablePaths(source, resolve)
        self.node = "x"

    def select(self) -> Element | None:
        """None for ``*``."""
        made = self.clause()
        for reason in self.paths.reasons:
            text = f"a path in SELECT has to be a tree pattern: {reason.text}"
            raise self.refuse("not-a-pattern", text, reason.span, "use child, descendant and attribute steps")
        return made

    def clause(self) -> Element | None:
        self.space()
        if self.starts("*"):
            self.at += 1
            return None
        if self.at_constructor():
            return self.element()
        if not self.starts("$"):
            raise self.wanted("'*', an element, or variables", "such as SELECT <pair>{ $x }{ $y }</pair>")
        # Outside of tags nothing else ends a path: to XPath, FROM could be the name of an element.
        if found := _FROM.search(self.source, self.at):
            self.source = self.source[: found.start()]
        items: list[Item | Element] = [self.item()]
        self.space()
        while self.starts(","):
            self.at += 1
            items.append(self.item())
            self.space()
        return under_root(items)

    def enclosed(self) -> list[Content]:
        return [self.hole(in_value=False)]

    def expression(self, *, top: bool) -> Expr:
        tokens = expression(self.source, self.at)
        parser = ExpressionParser(self.source, tokens, self.scope, Variables(_AnyVariable(), "x"), top=False)
        try:
            made = parser.parse()
        except QueryError as error:
            if error.code == "no-context" and error.span is not None:
                text = "this path starts nowhere: in SELECT a path starts at a variable"
                hint = "write $x for the variable x, $x/title for what lies below it"
                raise self.refuse("no-context", text, error.span, hint) from None
            raise
        self.at = tokens[-1].end
        return made


def resolver(source: str, known: Mapping[str, tuple[Ref, str]]) -> Resolve:
    def resolve(name: str, span: Span) -> tuple[Ref, str]:
        found = known.get(name)
        if found is None:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean ${close[0]}?" if close else "bind it in a block: //author->a or //author AS $a"
            raise QueryError("unbound-variable", f"nothing binds ${name}", hint=hint, source=source, span=span)
        return found

    return resolve
