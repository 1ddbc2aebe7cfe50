"""Helpers for tests of the kernel's evaluator: queries as text in, answers out, and libxml2's answers beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lxml_nodes import Query, Tree
from twigcast import _kernel
from twigcast.engine.register import Register
from twigcast.ir.pattern import Residual
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.shape import Template
from twigcast.lang.xpath import parse
from twigcast.limits import Limits
from twigcast.plan.access import ANYWAY
from twigcast.plan.planner import Plan
from twigcast.schema.libxml2 import read

LIMITS = Limits().with_all_results()
DEFAULT = (LIMITS.max_query_steps, LIMITS.max_query_bytes)
UNHURRIED = (2**40, 2**40)
"""A budget that small documents do not exhaust."""

Nodes = list[int]


def parsed(query: str, namespaces: Mapping[str, str] | None = None) -> ast.Expr:
    return at_document(parse(query, namespaces))


def kernel_with(exprs: Iterable[ast.Expr]) -> _kernel.Engine:
    """Return a kernel with subscriptions that the evaluator alone decides, by number. A node-set asks for its nodes."""
    kernel = _kernel.Engine()
    register = Register(kernel)
    for count, expr in enumerate(exprs, 1):
        is_node_set = ast.type_of(expr) == ast.NODE_SET
        plan = Plan((ANYWAY,), None, (), Residual(None, (), expr, is_node_set))
        register.queue(count - 1, Template(plan), (), "nodes" if is_node_set else "match")
    register.flush(count)
    return kernel


def answers(
    xml: bytes,
    exprs: Sequence[ast.Expr],
    budget: tuple[int, int] = UNHURRIED,
) -> list[bool | Nodes | str]:
    """Return for each query the nodes that it selects, whether it holds, or what it exceeded."""
    found: list[bool | Nodes | str] = [[] if ast.type_of(expr) == ast.NODE_SET else False for expr in exprs]
    if not exprs:
        return found
    limits = replace(LIMITS, max_query_steps=budget[0], max_query_bytes=budget[1])
    matched, results, _, _, failed, error = kernel_with(exprs).process_one(xml, [], True, limits.as_dict())
    assert error is None, error
    for number in matched:
        nodes = results[number][0] if number in results else None
        found[number] = True if nodes is None else nodes
    for number, what in failed:
        found[number] = what
    return found


def answer(
    xml: bytes,
    query: str,
    namespaces: Mapping[str, str] | None = None,
    budget: tuple[int, int] = UNHURRIED,
) -> bool | Nodes | str:
    return answers(xml, [parsed(query, namespaces)], budget)[0]


class Libxml2:
    """A message as libxml2 sees it."""

    def __init__(self, xml: bytes) -> None:
        self._tree = Tree(read(xml, LIMITS))

    def answer(self, expr: ast.Expr) -> bool | Nodes:
        query = Query(expr)
        return query.find(self._tree) if ast.type_of(expr) == ast.NODE_SET else query.holds(self._tree)
