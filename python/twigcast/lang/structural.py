"""The fast lane: plain structural paths such as ``/nitf//iim/*/ds`` go straight to a LinearPath, without a tree.

Most subscriptions are of this kind, so the text is split at its slashes and a dictionary knows each step.
Everything else goes through the full parser, which also words the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from twigcast.errors import QueryError, Span
from twigcast.ir.pattern import Exists, LinearPath, Node, Step, StringValue, Twig
from twigcast.lang import ast
from twigcast.lang.lexer import MAX_LENGTH
from twigcast.lang.names import Scope
from twigcast.lang.xpath import parse

_TEST = re.compile(r"@?(?:[A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?|\*)|text\(\)", re.ASCII)
_MAX_CACHED = 100_000
# Stands in for the second slash of "//" while a text is split at its slashes; no XML character, so no query has it.
DEEP = "\0"


class NotPlain(Exception):
    """It takes the full parser to read this text."""


class Steps(dict[str, Step]):
    """The text of a step -> Step; filled as texts are seen and bounded. Only a path's last step may be a leaf."""

    def __init__(self, scope: Scope, same: dict[Step, Step], *, leaf: bool) -> None:
        super().__init__()
        self.scope = scope
        self.same = same
        self.leaf = leaf

    def __missing__(self, text: str) -> Step:
        axis, test = ("descendant", text[1:]) if text.startswith(DEEP) else ("child", text)
        if not _TEST.fullmatch(test) or (not self.leaf and test.startswith(("@", "text("))):
            raise NotPlain
        kind, name = ("attribute", test[1:]) if test.startswith("@") else ("element", test)
        if name == "text()":
            step = Step(axis, "text")
        elif name == "*":
            step = Step(axis, kind)
        else:
            try:
                step = Step(axis, kind, *self.scope.resolve(name, Span(0, 0), name, attribute=kind == "attribute"))
            except QueryError as error:
                raise NotPlain from error
        if len(self) >= _MAX_CACHED:
            self.clear()
            self.same.clear()
        # one object for equal steps: whoever compares them need not look inside
        step = self[text] = self.same.setdefault(step, step)
        return step


class Branch(NamedTuple):
    """A path without predicates below some node, as what predicates are made of."""

    nodes: tuple[Node, ...]
    exists: Exists
    value: StringValue


class Branches(dict[str, Branch]):
    """The text of a path, such as ``book//@year`` or ``.//last`` -> Branch; filled as texts are seen and bounded.

    Queries have far fewer different branches than branches, and what is known of one (its steps, its text) it keeps.
    """

    def __init__(self, compiler: PathCompiler) -> None:
        super().__init__()
        self.compiler = compiler

    def __missing__(self, text: str) -> Branch:
        absolute = text.replace(" ", "").removeprefix(".")
        path = self.compiler.fast(absolute if absolute.startswith("/") else "/" + absolute)
        if path is None:
            raise NotPlain
        twig = Twig(tuple(map(Node, path.steps)))
        if len(self) >= _MAX_CACHED // 4:
            self.clear()
        found = self[text] = Branch(twig.nodes, Exists(twig), StringValue(twig))
        return found


class PathCompiler:
    """Compiles the paths of one scope of namespaces; keep it while compiling many."""

    def __init__(self, namespaces: Mapping[str, str] | None = None, default_ns: str | None = None) -> None:
        self.namespaces = dict(namespaces or {})
        self.default_ns = default_ns or ""
        scope = Scope(self.namespaces, self.default_ns)
        same: dict[Step, Step] = {}
        self._inner = Steps(scope, same, leaf=False)
        self._last = Steps(scope, same, leaf=True)
        self.branches = Branches(self)

    def fast(self, text: str) -> LinearPath | None:
        """The path of a text that is plainly structural; None when it takes the full parser to tell."""
        if text[:1] != "/" or DEEP in text or len(text) > MAX_LENGTH:
            return None
        _, *inner, last = text.replace("//", "/" + DEEP).split("/")
        known = self._inner
        try:
            return LinearPath((*[known[step] for step in inner], self._last[last]))
        except NotPlain:
            return None

    def compile(self, text: str) -> LinearPath:
        path = self.fast(text)
        if path is not None:
            return path
        return from_ast(parse(text, self.namespaces, self.default_ns), text)


@lru_cache(maxsize=64)
def _compiler(namespaces: tuple[tuple[str, str], ...], default_ns: str) -> PathCompiler:
    return PathCompiler(dict(namespaces), default_ns)


_plain = PathCompiler()


def compiler_for(namespaces: Mapping[str, str] | None, default_ns: str | None) -> PathCompiler:
    """A compiler of this scope, shared with those who asked before."""
    if not namespaces and not default_ns:
        return _plain
    return _compiler(tuple(sorted((namespaces or {}).items())), default_ns or "")


def compile_path(text: str, namespaces: Mapping[str, str] | None = None, default_ns: str | None = None) -> LinearPath:
    """The linear path of a structural subscription; a QueryError for any other text, valid XPath or not."""
    return compiler_for(namespaces, default_ns).compile(text)


def from_ast(expr: ast.Expr, source: str) -> LinearPath:
    """The linear path of a syntax tree, or a QueryError that points at what is not structural.

    The context node of a subscription is the document, so a relative path means the same as an absolute one.
    """
    if not isinstance(expr, ast.LocationPath):
        what = "a union" if isinstance(expr, ast.Union) else f"an expression of type {ast.type_of(expr)}"
        if isinstance(expr, ast.FilterPath):
            what = "a path on an expression in parentheses"
        raise _unsupported("expression", f"{what} is not a structural path", expr.span, source)
    steps: list[Step] = []
    gap = False
    for step in expr.steps:
        if step.predicates:
            span = Span(step.predicates[0].span.start - 1, step.span.end)
            raise _unsupported("predicate", "a predicate is not structural", span, source)
        any_node = isinstance(step.test, ast.KindTest) and step.test.kind == "node"
        if any_node and step.axis == "self":
            continue
        if steps and steps[-1].kind != "element":
            text = f"nothing lies below {steps[-1]}, so this path never matches"
            raise _unsupported("empty-path", text, step.span, source)
        if any_node and step.axis == "descendant-or-self":
            gap = True
            continue
        if step.axis not in ("child", "descendant", "attribute"):
            raise _unsupported("axis", f"the axis {step.axis} is not structural", step.span, source)
        axis = "descendant" if gap or step.axis == "descendant" else "child"
        gap = False
        if isinstance(step.test, ast.NameTest):
            kind = "attribute" if step.axis == "attribute" else "element"
            steps.append(Step(axis, kind, step.test.ns, step.test.local))
        elif step.test.kind == "text" and step.axis != "attribute":
            steps.append(Step(axis, "text"))
        else:
            raise _unsupported("node-test", f"{step.test.kind}() is not structural", step.test.span, source)
    if gap or not steps:
        raise _unsupported("path", "this path selects more than elements, attributes and text", expr.span, source)
    return LinearPath(tuple(steps))


def _unsupported(code: str, text: str, span: Span, source: str) -> QueryError:
    hint = "a structural path has child and descendant steps, names, *, @name and text() only"
    return QueryError(f"unsupported-{code}", text, hint=hint, source=source, span=span)
