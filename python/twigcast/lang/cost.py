"""How much work a full XPath engine may have with an expression, in nodes visited: an upper bound, not a guess.

libxml2 cannot be interrupted, and a few nested predicates make a small message cost minutes. The bound follows how it
evaluates: step by step, each from every node of the set before, and each predicate once for every node it is asked of.
All evaluations of a predicate are counted together: the children of all nodes that it is asked of are no more than
there are nodes, however many one of them may have.
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

    def reach(self, axis: str) -> tuple[float, float, float]:
        """The most nodes that an axis leads to from one node, and from all nodes, counted for each of these; and from
        how many it leads to the same node."""
        n, depth, width = map(float, self)
        match axis:
            case "self":
                return 1, n, 1
            case "parent":
                return 1, n, width
            case "child" | "attribute" | "namespace":
                return width, n, 1
            case "ancestor" | "ancestor-or-self":
                return depth, n * depth, n
            case "descendant" | "descendant-or-self":
                return n, n * depth, depth
            case "following-sibling" | "preceding-sibling":
                return width, n * width, width
        return n, n * n, n


class _Asked(NamedTuple):
    """Evaluations of one expression: how many, and how many of them at the same node."""

    times: float
    at_one: float


class _Done(NamedTuple):
    """What they cost together. What they find, if that is node-sets: nodes in all, how often one of them, and how many
    in one evaluation."""

    work: float
    found: float = 0.0
    same: float = 0.0
    most: float = 0.0


def cost(xpath: str, prefixes: tuple[tuple[str, str], ...], size: Size) -> float:
    return _cost(_parsed(xpath, prefixes), size, _Asked(1.0, 1.0)).work


@lru_cache(maxsize=10_000)
def _parsed(xpath: str, prefixes: tuple[tuple[str, str], ...]) -> ast.Expr:
    return parse(xpath, dict(prefixes))


def _cost(expr: ast.Expr, size: Size, asked: _Asked) -> _Done:
    n, count = float(size.nodes), asked.times
    match expr:
        case ast.LocationPath(absolute, steps):
            return _walk(steps, _Done(0.0, count, count if absolute else asked.at_one, 1.0), size, asked)
        case ast.FilterPath(primary, predicates, steps):
            done = _cost(primary, size, asked)
            for predicate in predicates:
                again = _cost(predicate, size, _Asked(done.found, done.same)).work
                done = done._replace(work=done.work + done.found + again)
            return _walk(steps, done, size, asked)
        case ast.Union(operands):
            parts = [_cost(operand, size, asked) for operand in operands]
            same = min(count, sum(part.same for part in parts))
            most = sum(part.most for part in parts)
            found = sum(part.found for part in parts)
            work = sum(part.work for part in parts) + found * most * _GLANCE
            return _Done(work, min(found, same * n), same, min(most, n))
        case ast.Logical(_, operands):
            return _Done(count + sum(_cost(operand, size, asked).work for operand in operands))
        case ast.Comparison(_, left, right):
            a, b = _strings(left, size, asked), _strings(right, size, asked)
            pairs = min(a.found * b.most, a.most * b.found, count * a.most * b.most)
            return _Done(count + a.work + b.work + pairs * _GLANCE)
        case ast.Arithmetic(_, left, right):
            return _Done(count + _strings(left, size, asked).work + _strings(right, size, asked).work)
        case ast.Negation(operand):
            return _Done(count + _strings(operand, size, asked).work)
        case ast.Call("count" | "boolean" | "not" | "name" | "local-name" | "namespace-uri", arguments):
            return _Done(count + sum(_cost(one, size, asked).work for one in arguments))
        case ast.Call(name, arguments):
            # without arguments, the string-value of the context node
            itself = 0.0 if arguments else _text(count, asked.at_one, size)
            found = count * n if name == "id" else 0.0
            work = count + itself + found + sum(_strings(one, size, asked).work for one in arguments)
            return _Done(work, found, count, n) if found else _Done(work)
    return _Done(count)


def _walk(steps: tuple[ast.AxisStep, ...], done: _Done, size: Size, asked: _Asked) -> _Done:
    n = float(size.nodes)
    work, found, same, most = done
    for step in steps:
        one, every, back = size.reach(step.axis)
        visited = min(found * one, same * every)
        times = min(visited, same * back)
        work += visited
        for predicate in step.predicates:
            work += visited + _cost(predicate, size, _Asked(visited, times)).work
        after = min(most * one, every, n)
        if most > 1 and step.axis not in ("self", "child", "attribute"):
            work += visited * after * _GLANCE  # what several nodes lead to is looked for among what was found
        same = min(times, asked.times)
        found, most = min(visited, same * n), after
    return _Done(work, found, same, most)


def _strings(expr: ast.Expr, size: Size, asked: _Asked) -> _Done:
    """With the string-values of what is found: of each node, all the text below it."""
    done = _cost(expr, size, asked)
    work = done.work + _text(done.found, done.same, size)
    return _Done(work, max(done.found, asked.times), max(done.same, 1.0), max(done.most, 1.0))


def _text(nodes: float, same: float, size: Size) -> float:
    """Of the string-values of so many nodes, of which each is there at most so many times."""
    return min(nodes * size.nodes, same * size.nodes * size.depth)
