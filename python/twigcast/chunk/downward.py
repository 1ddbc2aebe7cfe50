"""Paths with predicates beyond tree patterns, but that look at nothing outside the element they stand at.

Such a predicate is a leaf that no one looks into (``Raw``): where all of the element is, it can be decided.
"""

from __future__ import annotations

from twigcast.ir.pattern import Node, Step, Twig
from twigcast.ir.visit import walk
from twigcast.lang import ast
from twigcast.lang.canon import Opaque
from twigcast.lang.context import at_document
from twigcast.lang.printer import is_any_depth

_DOWN = frozenset(("child", "descendant", "descendant-or-self", "self", "attribute"))


class Raw(Opaque):
    """A predicate as it was written."""

    expr: ast.Expr


def downward_twig(expr: ast.Expr) -> Twig | None:
    """Convert a location path that only leads downward to a twig; return None for any other expression."""
    expr = at_document(expr)
    if not isinstance(expr, ast.LocationPath):
        return None
    nodes: list[Node] = []
    deep = False
    for step in expr.steps:
        if is_any_depth(step):
            deep = True
            continue
        attribute = step.axis == "attribute"
        if not isinstance(step.test, ast.NameTest) or (nodes and nodes[-1].step.kind == "attribute"):
            return None
        if step.axis not in ("child", "descendant", "attribute") or not all(map(_is_local, step.predicates)):
            return None
        axis = "descendant" if deep or step.axis == "descendant" else "child"
        kind = "attribute" if attribute else "element"
        if attribute and not nodes and not deep:
            return None
        filters = tuple(map(Raw, step.predicates))
        nodes.append(Node(Step(axis, kind, step.test.ns, step.test.local), filters))
        deep = False
    return Twig(tuple(nodes)) if nodes and not deep else None


def _is_local(predicate: ast.Expr) -> bool:
    """Whether it depends on the context node and what is in it, not on how many other nodes there are."""
    return ast.type_of(predicate) != ast.NUMBER and not _counts(predicate) and _looks_down(predicate)


def _counts(expr: ast.Expr) -> bool:
    """Whether it asks for its own position; predicates inside it have positions of their own."""
    if isinstance(expr, ast.Call) and expr.name in ("position", "last"):
        return True
    return any(map(_counts, ast.operands(expr)))


def _looks_down(expr: ast.Expr) -> bool:
    for part in walk(expr):
        match part:
            case ast.Call("id") | ast.LocationPath(absolute=True):
                return False
            case ast.AxisStep(axis=axis) if axis not in _DOWN:
                return False
    return True
