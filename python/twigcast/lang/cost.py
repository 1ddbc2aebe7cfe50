"""How much work a full XPath engine may have with an expression, in nodes visited: an upper bound, not a guess.

libxml2 cannot be interrupted, and a few nested predicates make a small message cost minutes. The bound follows how it
evaluates: step by step, each from every node of the set before, and each predicate once for every node it is asked of.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from twigcast.lang import ast
from twigcast.lang.xpath import parse

# Of a visit, what it takes to look at one node of the set so far, or to compare two strings by their hashes.
_GLANCE = 0.1


class Size(NamedTuple):
    """Of a message: ``nodes`` of all kinds, the deepest nesting, and the most children of one node."""

    nodes: int
    depth: int
    width: int

    def reach(self, axis: str) -> tuple[float, float]:
        """The most nodes that an axis leads to from one node, and from all nodes, counted for each of these."""
        n, depth, width = map(float, self)
        match axis:
            case "self" | "parent":
                return 1, n
            case "child" | "attribute" | "namespace":
                return width, n
            case "ancestor" | "ancestor-or-self":
                return depth, n * depth
            case "descendant" | "descendant-or-self":
                return n, n * depth
            case "following-sibling" | "preceding-sibling":
                return width, n * width
        return n, n * n


def cost(xpath: str, prefixes: tuple[tuple[str, str], ...], size: Size) -> float:
    return _cost(_parsed(xpath, prefixes), size)[0]


@lru_cache(maxsize=10_000)
def _parsed(xpath: str, prefixes: tuple[tuple[str, str], ...]) -> ast.Expr:
    return parse(xpath, dict(prefixes))


def _cost(expr: ast.Expr, size: Size) -> tuple[float, float]:
    """Of one evaluation; and how many nodes it finds, if it is a node-set."""
    match expr:
        case ast.LocationPath(_, steps):
            return _walk(steps, 0.0, 1.0, size)
        case ast.FilterPath(primary, predicates, steps):
            work, found = _cost(primary, size)
            for predicate in predicates:
                work += found * (1 + _cost(predicate, size)[0])
            return _walk(steps, work, found, size)
        case ast.Union(operands):
            parts = [_cost(operand, size) for operand in operands]
            found = sum(part[1] for part in parts)
            return sum(part[0] for part in parts) + found * found * _GLANCE, min(found, size.nodes)
        case ast.Logical(_, operands):
            return 1 + sum(_cost(operand, size)[0] for operand in operands), 0.0
        case ast.Comparison(_, left, right):
            a, b = _strings(left, size), _strings(right, size)
            return 1 + a[0] + b[0] + a[1] * b[1] * _GLANCE, 0.0
        case ast.Arithmetic(_, left, right):
            return 1 + _strings(left, size)[0] + _strings(right, size)[0], 0.0
        case ast.Negation(operand):
            return 1 + _strings(operand, size)[0], 0.0
        case ast.Call("count" | "boolean" | "not" | "name" | "local-name" | "namespace-uri", arguments):
            return 1 + sum(_cost(one, size)[0] for one in arguments), 0.0
        case ast.Call(name, arguments):
            itself = size.nodes if not arguments else 0  # the string-value of the context node
            found = size.nodes if name == "id" else 0.0
            return 1 + itself + found + sum(_strings(one, size)[0] for one in arguments), found
    return 1, 0.0


def _walk(steps: tuple[ast.AxisStep, ...], work: float, found: float, size: Size) -> tuple[float, float]:
    for step in steps:
        one, every = size.reach(step.axis)
        visited = min(found * one, every)
        work += visited
        for predicate in step.predicates:
            work += visited * (1 + _cost(predicate, size)[0])
        after = min(visited, float(size.nodes))
        if found > 1 and step.axis not in ("self", "child", "attribute"):
            work += visited * after * _GLANCE  # what several nodes lead to is looked for among what was found
        found = after
    return work, found


def _strings(expr: ast.Expr, size: Size) -> tuple[float, float]:
    """With the string-values of what is found: of each node, all the text below it."""
    work, found = _cost(expr, size)
    return work + min(found * size.nodes, float(size.nodes * size.depth)), max(found, 1.0)
