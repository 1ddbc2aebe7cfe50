"""Helpers for tests of the kernel's evaluator: queries as text in, answers out, and libxml2's answers beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lxml import etree

from twigcast import _kernel
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_xpath
from twigcast.lang.program import encode
from twigcast.lang.xpath import parse
from twigcast.libxml2 import read
from twigcast.limits import Limits
from twigcast.pattern import Residual
from twigcast.selecting import Selecting, Tree

LIMITS = Limits()
UNHURRIED = (2**40, 2**40)
"""A budget that small documents do not exhaust."""

Nodes = list[int]


def parsed(query: str, namespaces: Mapping[str, str] | None = None) -> ast.Expr:
    return at_document(parse(query, namespaces))


def add(evaluator: _kernel.Evaluator, expr: ast.Expr) -> int:
    """Add a query; return its number. A node-set asks for its nodes."""
    words, strings = encode(expr, evaluator)
    return evaluator.add(words, strings, selects=ast.type_of(expr) == ast.NODE_SET)


def answers(
    xml: bytes,
    exprs: Iterable[ast.Expr],
    budget: tuple[int, int] = UNHURRIED,
) -> list[bool | Nodes | str]:
    """Return for each query the nodes that it selects, whether it holds, or what it exceeded."""
    evaluator = _kernel.Evaluator()
    numbers = [add(evaluator, expr) for expr in exprs]
    found, error = evaluator.evaluate(xml, LIMITS.of_kernel(), budget, numbers)
    assert error is None, error
    return [failed or (holds if nodes is None else nodes) for _, holds, nodes, failed in found]


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
        xpath, prefixes = to_xpath(expr)
        if ast.type_of(expr) == ast.NODE_SET:
            residual = Residual(None, (), xpath, tuple(sorted(prefixes.items())), True)
            return [number for number, _ in Selecting(residual, fragments=False).find(self._tree)]
        test = etree.XPath(f"boolean({xpath})", namespaces=prefixes or None, smart_strings=False)
        return bool(test(self._tree.tree))
