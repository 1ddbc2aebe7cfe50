"""Variables while a query is read: a tree per block, whose edges are still syntax. ``normal`` makes the block of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.errors import Span
from twigcast.ir.visit import replace
from twigcast.lang import ast
from twigcast.lang.ast import AxisStep, Expr
from twigcast.lang.printer import is_any_depth


@dataclass(eq=False)
class Draft:
    """No steps: the document (of a block's first variable). ``needed``: a join compares it or SELECT shows it."""

    name: str
    parent: Draft | None
    steps: list[AxisStep]
    span: Span
    needed: bool = False
    children: list[Draft] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.children.append(self)

    def filter(self, condition: Expr) -> None:
        """One more condition on its nodes."""
        last = self.steps[-1]
        self.steps[-1] = replace(last, predicates=(*last.predicates, condition))


def self_step(span: Span) -> AxisStep:
    return AxisStep("self", ast.KindTest("node", None, span), (), span)


def is_self_step(step: AxisStep) -> bool:
    any_node = isinstance(step.test, ast.KindTest) and step.test.kind == "node"
    return step.axis == "self" and any_node and not step.predicates


def without_self(steps: list[AxisStep]) -> list[AxisStep]:
    """Steps without the ``.`` they may start with, which ``.//x`` needs only at the start of a path."""
    at = 0
    while at < len(steps) and is_self_step(steps[at]):
        at += 1
    return steps[at:]


def path_of(steps: list[AxisStep], span: Span, *, absolute: bool = False) -> ast.LocationPath:
    """A path in its canonical form: ``.//x`` where it is relative and starts with ``//``."""
    steps = without_self(steps)
    if not absolute and (not steps or is_any_depth(steps[0])):
        steps = [self_step(span), *steps]
    return ast.LocationPath(absolute, tuple(steps), span)
