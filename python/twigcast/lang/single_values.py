"""Which expressions have one value at a node, and which values are worth trying to find a contradiction.

XPath 1.0 has no side effects: equal expressions at one node have equal values. So a comparison with a constant is a
statement about a *variable*, which is an expression, and its constants part the values of that into few classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twigcast.errors import Span
from twigcast.lang import ast
from twigcast.lang.ast import BOOLEAN, NODE_SET, NUMBER, Expr, type_of
from twigcast.lang.constants import constant
from twigcast.lang.positions import involved
from twigcast.lang.values import FLIPPED, Constant, to_number

# Comparisons and variables of one conjunction; beyond these a query passes unjudged.
MAX_ATOMS = 100
MAX_VARIABLES = 20

Kinds = frozenset[str]
"""Kinds of nodes: document, element, attribute, text, comment, pi, namespace."""
DOCUMENT: Kinds = frozenset(("document",))
ANY: Kinds = frozenset(("document", "element", "attribute", "text", "comment", "pi", "namespace"))
_CHILDREN = frozenset(("element", "text", "comment", "pi"))
_TOP_LEVEL = frozenset(("element", "comment", "pi"))


@dataclass(frozen=True, slots=True)
class Value:
    """A possible value of a string: a text of the query or, where ``text`` is None, any other with this number."""

    text: str | None
    number: float


ABSENT = Value(None, math.nan)
"""The node-set is empty."""
PRESENT = Value(None, math.nan)
"""The node-set has nodes, of unknown values."""
Number = float
Key = tuple[Expr, int]
"""An expression, and the number of its predicate if it depends on position() or last(), else -1."""
Conjunct = tuple[Expr, int]
"""A condition, and the number of its predicate."""


# -- steps


def moved(kinds: Kinds, step: ast.AxisStep) -> Kinds:
    """Return the kinds of nodes that a step can find from nodes of ``kinds``."""
    below: Kinds = frozenset()
    if "element" in kinds:
        below = _CHILDREN
    elif "document" in kinds:
        below = _TOP_LEVEL if step.axis == "child" else _CHILDREN
    above: set[str] = set()
    if kinds - DOCUMENT:
        above.add("element")
    if kinds & _TOP_LEVEL or (above and step.axis.startswith("ancestor")):
        above.add("document")
    match step.axis:
        case "child" | "descendant":
            found = below
        case "descendant-or-self":
            found = below | kinds
        case "self":
            found = kinds
        case "parent" | "ancestor":
            found = frozenset(above)
        case "ancestor-or-self":
            found = frozenset(above) | kinds
        case "attribute" | "namespace":
            found = frozenset((step.axis,)) if "element" in kinds else frozenset()
        case _:
            found = _CHILDREN if kinds - DOCUMENT else frozenset()
    test = step.test
    if isinstance(test, ast.NameTest):
        return found & {step.axis if step.axis in ("attribute", "namespace") else "element"}
    return found if test.kind == "node" else found & {"pi" if test.kind == "processing-instruction" else test.kind}


def any_node(step: ast.AxisStep) -> bool:
    return isinstance(step.test, ast.KindTest) and step.test.kind == "node"


def is_single(expr: Expr, kinds: Kinds) -> bool:
    """Tell whether a node-set has at most one node for each context node."""
    match expr:
        case ast.LocationPath(absolute, steps):
            at = DOCUMENT if absolute else kinds
        case ast.FilterPath(primary, predicates, steps):
            if not is_single(primary, kinds) and not any(map(is_place, predicates)):
                return False
            at = ANY
        case _:
            return False
    for step in steps:
        if not _finds_one(step, at):
            return False
        at = moved(at, step)
    return True


def _finds_one(step: ast.AxisStep, kinds: Kinds) -> bool:
    named = isinstance(step.test, ast.NameTest) and step.test.ns is not None and step.test.local is not None
    if step.axis in ("self", "parent") or (step.axis == "attribute" and named):
        return True
    if step.axis == "child" and kinds == DOCUMENT and isinstance(step.test, ast.NameTest):
        return True  # a message has one document element
    return any(map(is_place, step.predicates))


def is_place(predicate: Expr) -> bool:
    return type_of(predicate) == NUMBER and constant(predicate) is not None


# -- comparisons


def conjuncts_of(predicates: Sequence[Expr]) -> list[Conjunct]:
    """Return predicates as conditions: a number means a position."""
    found: list[Conjunct] = []
    for number, one in enumerate(predicates):
        if type_of(one) == NUMBER:
            one = ast.Comparison("=", ast.Call("position", (), one.span), one, one.span)
        found.append((one, number))
    return found


def sides(expr: ast.Comparison) -> tuple[str, Expr, Expr, Constant | None]:
    """Return a comparison with its constant, if it has one, on the right, and the constant."""
    fixed = constant(expr.right)
    if fixed is not None:
        return expr.op, expr.left, expr.right, fixed
    fixed = constant(expr.left)
    if fixed is not None:
        return FLIPPED[expr.op], expr.right, expr.left, fixed
    return expr.op, expr.left, expr.right, None


def key_of(expr: Expr, number: int) -> Key:
    if isinstance(expr, ast.LocationPath) and not expr.absolute and len(expr.steps) > 1:
        at = 0
        while at < len(expr.steps) - 1 and _is_dot(expr.steps[at]):
            at += 1
        if at and expr.steps[at].axis != "descendant-or-self":
            expr = ast.LocationPath(False, expr.steps[at:], expr.span)  # ./@a is @a
    return expr, number if involved(expr) else -1


def _is_dot(step: ast.AxisStep) -> bool:
    return step.axis == "self" and any_node(step) and not step.predicates


def is_nan(expr: Expr) -> bool:
    """Tell whether the number of an expression is NaN in every message."""
    value = constant(expr)
    if value is not None:
        return math.isnan(to_number(value))
    match expr:
        case ast.Arithmetic(_, left, right):
            return is_nan(left) or is_nan(right)
        case ast.Negation(operand):
            return is_nan(operand)
        case ast.Call("floor" | "ceiling" | "round", (operand,)):
            return is_nan(operand)
        case ast.Call("number", (operand,)) if type_of(operand) == NUMBER:
            return is_nan(operand)
    return False


def atoms(expr: Expr, number: int) -> Iterator[tuple[Key, str, Constant | None, Span]]:
    """Yield the comparisons with constants that a condition is made of, at the node of the condition itself.

    A node-set that has to exist is one without a constant."""
    if type_of(expr) == NODE_SET:
        yield key_of(expr, -1), "", None, expr.span
        return
    match expr:
        case ast.Logical(_, operands):
            for one in operands:
                yield from atoms(one, number)
        case ast.Call("not" | "boolean", (operand,)):
            yield from atoms(operand, number)
        case ast.Comparison(_, left, right):
            if BOOLEAN in (type_of(left), type_of(right)):
                yield from atoms(left, number)
                yield from atoms(right, number)
                return
            op, left, _, fixed = sides(expr)
            if fixed is not None and constant(left) is None:
                yield key_of(left, number), op, fixed, expr.span


def variables(conjuncts: Sequence[Conjunct], kinds: Kinds) -> dict[Key, list[Constant]]:
    """Return what is tested for existence or compared with constants, and these constants."""
    found: dict[Key, list[Constant]] = {}
    count = 0
    for expr, number in conjuncts:
        for key, _, fixed, _ in atoms(expr, number):
            count += 1
            if count > MAX_ATOMS:
                return {}
            found.setdefault(key, []).extend(() if fixed is None else (fixed,))
    return found if len(found) <= MAX_VARIABLES else {}


def representatives(expr: Expr, constants: Sequence[Constant], kinds: Kinds) -> Iterator[Value | Number]:
    """Yield values of ``expr`` such that any other value compares with all the constants as one of these does."""
    if type_of(expr) == NODE_SET and not is_single(expr, kinds):
        yield PRESENT
        yield ABSENT
        return
    numbers = sorted({n for n in map(to_number, constants) if math.isfinite(n)})
    lowest = least(expr)
    if lowest is not None:
        near = {float(math.floor(n) + d) for n in numbers for d in (-1, 0, 1, 2)}
        yield from sorted(n for n in {*near, lowest} if n >= lowest)
        yield math.inf
        return
    between = [a / 2 + b / 2 for a, b in pairwise(numbers)]
    points = [-math.inf, *numbers, *between, math.inf, math.nan]
    if type_of(expr) == NUMBER:
        yield from points
        return
    for fixed in constants:
        if isinstance(fixed, str):
            yield Value(fixed, to_number(fixed))
    for point in points:
        yield Value(None, point)
    if type_of(expr) == NODE_SET and not _is_here(expr):
        yield ABSENT


def least(expr: Expr) -> float | None:
    """Return the least value of an expression that is a count; None for other expressions."""
    match expr:
        case ast.Call("position" | "last"):
            return 1.0
        case ast.Call("count" | "string-length"):
            return 0.0
    return None


def _is_here(expr: Expr) -> bool:
    """Tell whether a path is ``.``, which is always there."""
    if not isinstance(expr, ast.LocationPath) or expr.absolute:
        return False
    return all(map(_is_dot, expr.steps))
