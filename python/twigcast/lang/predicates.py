"""Expressions -> predicates: effective boolean values, comparisons and string tests (XPath 1.0, sections 3.4 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from twigcast.errors import Span
from twigcast.ir.pattern import (
    FALSE,
    TRUE,
    Bool,
    Compare,
    Const,
    Count,
    Match,
    NodeIs,
    NormalizeSpace,
    Position,
    Predicate,
    Reason,
    StringLength,
    StringValue,
    Twig,
    Value,
    leaves,
)
from twigcast.lang import ast, positions
from twigcast.lang.ast import BOOLEAN, NODE_SET, NUMBER, Expr, type_of
from twigcast.lang.canon import any_of, conj, disj, exists, negate
from twigcast.lang.constants import constant
from twigcast.lang.needs import needed, when_empty
from twigcast.lang.outer import Unknown
from twigcast.lang.picks import FIRST, picked
from twigcast.lang.routes import SIBLINGS, SINGLE, Paths, Route, TooManyRoutes
from twigcast.lang.values import FLIPPED, Constant, compare, to_boolean, to_number, to_string

# Leaves of the two sides of a comparison of booleans.
MAX_TABLE = 32


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string or number made from one node-set: ``string(p)``, ``normalize-space(p)``, ``count(p)`` and the like."""

    path: Expr
    function: str
    number: bool

    def value(self, twig: Twig) -> Value:
        if self.function == "count":
            return Count(twig)
        string = StringValue(twig, first=bool(twig.nodes))
        spaced = NormalizeSpace(string)
        by_name: dict[str, Value] = {
            "string": string,
            "normalize-space": spaced,
            "string-length": StringLength(string),
            "string-length normalize-space": StringLength(spaced),
        }
        return by_name[self.function]

    @property
    def of_nothing(self) -> Constant:
        """Its value for an empty node-set."""
        return 0.0 if self.function.startswith(("count", "string-length")) else ""


class Predicates:
    """One compilation; it numbers its unknowns."""

    def __init__(self) -> None:
        self.reasons: list[Reason] = []
        self.paths = Paths(self.predicate, self.unknown)

    def unknown(self, text: str, span: Span) -> Unknown:
        self.reasons.append(Reason(text, span))
        return Unknown(self.reasons[-1], len(self.reasons))

    # -- booleans

    def predicate(self, expr: Expr, counted: str) -> Predicate:
        """What stands in brackets: a number means a position (section 2.4)."""
        if type_of(expr) == NUMBER:
            here = ast.Call("position", (), expr.span)
            return self.compared(ast.Comparison("=", here, expr, expr.span), counted)
        return self.boolean(expr, counted)

    def boolean(self, expr: Expr, counted: str) -> Predicate:
        """The effective boolean value; ``counted`` is what position() counts here."""
        known = constant(expr, counted == SINGLE)
        if known is not None:
            return Bool(to_boolean(known))
        match expr:
            case ast.Logical(op, operands):
                terms = [self.boolean(operand, counted) for operand in operands]
                return conj(*terms) if op == "and" else disj(*terms)
            case ast.Call("not", (operand,)):
                return negate(self.boolean(operand, counted))
            case ast.Call("boolean", (operand,)):
                return self.boolean(operand, counted)
            case ast.Call("contains" | "starts-with" as name, (text, wanted)):
                return self.string_test(name, text, wanted, expr.span, counted)
            case ast.Comparison():
                return self.compared(expr, counted)
        if type_of(expr) == NODE_SET:
            return self.exists(expr)
        if type_of(expr) == NUMBER:
            linear = positions.linear(expr)
            if linear is not None and counted == SIBLINGS:
                if math.isnan(linear[2]):
                    return FALSE  # no number is false, and yet not 0
                return positions.compared(expr, "!=", ast.Number(0.0, expr.span)) or self.unsupported(expr)
            below = self.scalar_test(expr, "<", 0.0, counted)
            above = self.scalar_test(expr, ">", 0.0, counted)
            return self.unsupported(expr) if below is None or above is None else disj(below, above)
        if type_of(expr) == BOOLEAN:
            return self.unsupported(expr)
        found = self.scalar_test(expr, "!=", "", counted)
        return self.unsupported(expr) if found is None else found

    def unsupported(self, expr: Expr) -> Predicate:
        what = f"{expr.name}()" if isinstance(expr, ast.Call) else "arithmetic"
        return self.unknown(f"{what} is not part of tree patterns", expr.span)

    # -- node-sets

    def routes(self, expr: Expr) -> list[Route]:
        try:
            return self.paths.routes(expr)
        except TooManyRoutes:
            unknown = self.unknown("the path is too long, or has too many forward forms, for a tree pattern", expr.span)
            return [Route(base=unknown, lost=True)]

    def exists(self, expr: Expr) -> Predicate:
        pick = picked(expr)
        return self.any(expr, exists) if pick is None else self.exists_at(*pick)

    def exists_at(self, expr: Expr, position: Position) -> Predicate:
        """That a node-set has a node at such a position."""
        op, n, from_end = position.op, position.n, position.of == "from-end"
        if position.of == "last":
            return conj(self.exists(expr), self.counted(expr, op, float(n), expr.span))
        first = 0 if from_end else 1
        if op == "<=" or (op == "!=" and n != first):
            return self.exists(expr)
        least = 2 if op == "!=" else n + from_end
        return self.counted(expr, ">=", float(least), expr.span)

    def any(self, expr: Expr, test: Callable[[Twig], Predicate]) -> Predicate:
        """That some node of a node-set passes the test."""
        routes = self.routes(expr)
        return disj(*(route.any(exists(route.twig) if route.lost else test(route.twig)) for route in routes))

    def single(self, expr: Expr, test: Callable[[Twig], Predicate], default: bool, span: Span) -> Predicate:
        """A test of a whole node-set, which has to be one route for that; ``default`` when it is empty."""
        routes = self.routes(expr)
        if not routes:
            return Bool(default)
        route = routes[0]
        if len(routes) == 1 and not route.lost and all(kind != "above" for kind, _ in route.hops):
            return route.one(test(route.twig), default)
        some = TRUE if default else disj(*(route.any(exists(route.twig)) for route in routes))
        return conj(some, self.unknown("a function of several paths at once is not part of tree patterns", span))

    # -- comparisons

    def compared(self, expr: ast.Comparison, counted: str) -> Predicate:
        op, left, right = expr.op, expr.left, expr.right
        a, b = constant(left, counted == SINGLE), constant(right, counted == SINGLE)
        if a is not None and b is not None:
            return Bool(compare(a, op, b))
        if a is not None:
            op, left, right, b = FLIPPED[op], right, left, a
        types = type_of(left), type_of(right)
        ordered = op not in ("=", "!=")
        if ordered and isinstance(b, bool) and types[0] not in (BOOLEAN, NODE_SET):
            b = to_number(b)  # neither side is a node-set: an order compares numbers (XPath 1.0, section 3.4)
        elif BOOLEAN in types and (b is not None or types == (BOOLEAN, BOOLEAN) or not ordered):
            return self.truth_table(left, op, right, b, counted)
        if b is not None and types[0] == NODE_SET:
            return self.any_compared(left, op, b)
        if types[0] != NODE_SET and types[1] != NODE_SET and positions.involved(expr):
            found = positions.compared(left, op, right) if counted == SIBLINGS else None
            if found is not None:
                return found
            why = "is not part of tree patterns" if counted == SIBLINGS else "counts more than siblings"
            return self.unknown(f"this use of position() or last() {why}", expr.span)
        if b is not None:
            scalar = self.scalar_test(left, op, b, counted)
            if scalar is not None:
                return scalar
        needs = [self.exists(path) for path in needed(left, op, right, b)]
        if isinstance(left, ast.Call) and left.name == "name" and op == "=" and isinstance(b, str):
            # The prefix is the message's own affair, but the local name is not.
            same = self.name_test(ast.Call("local-name", left.arguments, left.span), op, b.rpartition(":")[2])
            needs += [same] if same is not None else []
        return conj(*needs, self.unknown(_why(types), expr.span))

    def truth_table(self, left: Expr, op: str, right: Expr, known: Constant | None, counted: str) -> Predicate:
        """A comparison that turns on booleans: the disjunction of the cases in which it holds."""
        x = self.boolean(left, counted)
        if known is not None:
            return disj(
                *(x if value else negate(x) for value in (True, False) if compare(value, op, known)),
            )
        y = self.boolean(right, counted)
        # Each side is there twice, so that a chain of these would double with every link.
        if sum(1 for side in (x, y) for _ in islice(leaves(side), MAX_TABLE)) >= MAX_TABLE:
            return self.unknown("the two conditions compared are too large for a tree pattern", left.span)
        cases = [(p, q) for p in (True, False) for q in (True, False) if compare(p, op, q)]
        return disj(*(conj(x if p else negate(x), y if q else negate(y)) for p, q in cases))

    def any_compared(self, path: Expr, op: str, known: Constant) -> Predicate:
        """``path op constant``: existential (SEMANTICS 2)."""
        number = to_number(known)
        if isinstance(known, float) or op not in ("=", "!="):
            if math.isnan(number):
                return self.exists(path) if op == "!=" else FALSE
            known = number
        const = Const(known)
        pick = picked(path)
        if pick is not None and pick[1] == FIRST:
            first = Scalar(pick[0], "string", False)
            empty = compare("", op, known)
            holds = self.single(first.path, lambda twig: Compare(first.value(twig), op, const), empty, path.span)
            return conj(self.exists(pick[0]), holds)
        return self.any(path, lambda twig: any_of(twig, Compare(StringValue(Twig()), op, const)))

    # -- strings and numbers of a path

    def scalar_test(self, expr: Expr, op: str, known: Constant, counted: str) -> Predicate | None:
        """A test of a string or number expression; None when it is none that patterns know."""
        named = self.name_test(expr, op, known)
        if named is not None:
            return named
        scalar = _scalar(expr)
        if scalar is None:
            return None
        if scalar.number or isinstance(known, float) or op not in ("=", "!="):
            known = to_number(known)
            if math.isnan(known):
                return Bool(op == "!=")
        if scalar.function == "count":
            return self.counted(scalar.path, op, to_number(known), expr.span)
        empty: Constant = to_number(scalar.of_nothing) if scalar.number else scalar.of_nothing
        const = Const(known)
        return self.single(
            scalar.path, lambda twig: Compare(scalar.value(twig), op, const), compare(empty, op, known), expr.span
        )

    def counted(self, path: Expr, op: str, number: float, span: Span) -> Predicate:
        if compare(0.0, op, number) and _always(1.0, op, number, False):
            return negate(self.exists(path))
        if not compare(0.0, op, number) and _always(1.0, op, number, True):
            return self.exists(path)
        const = Const(number)
        return self.single(path, lambda twig: Compare(Count(twig), op, const), compare(0.0, op, number), span)

    def string_test(self, name: str, text: Expr, wanted: Expr, span: Span, counted: str) -> Predicate:
        known = constant(wanted, counted == SINGLE)
        if known is not None and to_string(known) == "":
            return TRUE
        scalar = Scalar(text, "string", False) if type_of(text) == NODE_SET else _scalar(text)
        if known is None or scalar is None or scalar.number or scalar.function.startswith("string-length"):
            fed = when_empty(text) if known is not None else None
            needs = self.exists(fed[0]) if fed is not None and fed[1] == "" else TRUE
            return conj(needs, self.unknown(f"this use of {name}() is not part of tree patterns", span))
        const = Const(to_string(known))

        def test(twig: Twig) -> Predicate:
            value = scalar.value(twig)
            return Match(name, value, const) if isinstance(value, StringValue | NormalizeSpace) else FALSE

        return self.single(scalar.path, test, False, span)

    def name_test(self, expr: Expr, op: str, known: Constant) -> Predicate | None:
        """``local-name() = 'x'`` and ``namespace-uri() = 'u'`` of the context node are node tests."""
        if not isinstance(expr, ast.Call) or not isinstance(known, str) or op not in ("=", "!="):
            return None
        if expr.name not in ("local-name", "namespace-uri") or not all(map(_is_self, expr.arguments)):
            return None
        kinds = ("element", "attribute", "pi") if expr.name == "local-name" else ("element", "attribute")
        if expr.name == "local-name":
            holds = disj(*(NodeIs(kind, None, known) for kind in kinds if known))
        else:
            holds = disj(*(NodeIs(kind, known) for kind in kinds))
        if known == "":
            holds = disj(holds, negate(disj(*map(NodeIs, kinds))))
        return holds if op == "=" else negate(holds)


def _always(start: float, op: str, number: float, wanted: bool) -> bool:
    """Whether ``n op number`` is ``wanted`` for every integer n from ``start``."""
    if compare(start, op, number) != wanted:
        return False
    if op in ("=", "!="):
        return not (number >= start and number == math.floor(number))
    return (op in (">", ">=")) == wanted or math.isinf(number)


def _scalar(expr: Expr) -> Scalar | None:
    if not isinstance(expr, ast.Call):
        return None
    name = expr.name
    if name == "count":
        return Scalar(expr.arguments[0], "count", True)
    if name not in ("string", "number", "normalize-space", "string-length"):
        return None
    inner = expr.arguments[0] if expr.arguments else _self(expr.span)
    pick = picked(inner)
    if pick is not None and pick[1] == FIRST:
        # These functions take the first node anyway.
        inner = pick[0]
    if type_of(inner) == NODE_SET:
        return Scalar(inner, "string" if name == "number" else name, name in ("number", "string-length"))
    made = _scalar(inner)
    if made is None:
        return None
    if name == "number":
        return Scalar(made.path, made.function, True)
    if made.number:
        return None
    if name == "string-length":
        function = "string-length" if made.function == "string" else "string-length normalize-space"
        return Scalar(made.path, function, True)
    return Scalar(made.path, name, False) if made.function == "string" else made


def _self(span: Span) -> Expr:
    return ast.LocationPath(False, (ast.AxisStep("self", ast.KindTest("node", None, span), (), span),), span)


def _is_self(expr: Expr) -> bool:
    return expr == _self(expr.span)


def _why(types: tuple[str, str]) -> str:
    if types == (NODE_SET, NODE_SET):
        return "a comparison between two paths is not part of tree patterns"
    return "a comparison between two computed values is not part of tree patterns"
