"""Why a part of a query holds for a message or does not, found by evaluating its parts with libxml2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twigcast.errors import Span, caret
from twigcast.explain.message import Found, MessageTree, where
from twigcast.explain.near_misses import closeness, name_text, quote, there_instead, value_hints
from twigcast.ir.visit import replace
from twigcast.lang import ast, positions
from twigcast.lang.context import Context, along, at
from twigcast.lang.printer import is_any_depth
from twigcast.lang.values import FLIPPED, to_number, to_string

_CANDIDATES = 200
_VALUES = 3
_NOWHERE = Span(0, 0)
_WHERE = {
    "attribute": "on",
    "parent": "above",
    "ancestor": "above",
    "ancestor-or-self": "above",
    "self": "at",
    "namespace": "on",
    "following": "after",
    "following-sibling": "after",
    "preceding": "before",
    "preceding-sibling": "before",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a part of a query holds, or does not; ``span`` is its place in the text, ``at`` the closest node."""

    text: str
    span: Span
    at: Found | None = None
    hints: tuple[str, ...] = ()
    parts: tuple[Cause, ...] = ()
    """Causes of this one: the only one, or one for each alternative."""

    def as_dict(self) -> dict[str, object]:
        return {
            "text": self.text,
            "start": self.span.start,
            "end": self.span.end,
            "node": None if self.at is None else self.at.as_dict(),
            "hints": list(self.hints),
            "parts": [part.as_dict() for part in self.parts],
        }


def lines(cause: Cause, query: str, indent: str) -> Iterator[str]:
    yield indent + cause.text
    if not cause.parts:
        yield from (indent + line for line in caret(query, cause.span))
    yield from (f"{indent}hint: {hint}" for hint in cause.hints)
    for part in cause.parts:
        yield from lines(part, query, indent + "  ")


@dataclass(frozen=True, slots=True)
class Search:
    """Explains one query on one message."""

    tree: MessageTree
    query: str

    def text(self, part: ast.Expr) -> str:
        """A part of the query as its author wrote it, on one line."""
        return self.between(part.span.start, part.span.end)

    def between(self, start: int, end: int) -> str:
        return " ".join(self.query[start:end].split())

    # -- why not

    def false(self, expr: ast.Expr, context: Context) -> Cause:
        """Why an expression is false at a node."""
        match expr:
            case ast.Logical("and", operands):
                return next(self.false(one, context) for one in operands if not self.holds(one, context))
            case ast.Logical(_, operands):
                parts = tuple(self.false(one, context) for one in operands)
                return Cause(f"none of the {len(parts)} alternatives holds", expr.span, parts=parts)
            case ast.Call("not", (operand,)):
                text = f"{self.text(expr)} asks for what does hold"
                return Cause(text, expr.span, parts=(self.true(operand, context),))
            case ast.Call("boolean", (operand,)):
                return self.false(operand, context)
            case ast.Call("contains" | "starts-with" as name, (value, wanted)):
                return self.no_match(expr, name, value, wanted, context)
            case ast.Comparison():
                return self.unequal(expr, context)
        if ast.type_of(expr) == ast.NODE_SET:
            return self.empty(expr, context)
        text = f"{self.text(expr)} is {self.shown(expr, context)}"
        return Cause(text, expr.span, parts=self.nothing_in(expr, context))

    def nothing_in(self, expr: ast.Expr, context: Context) -> tuple[Cause, ...]:
        """Why the path that a function is about finds nothing, if it does not."""
        while isinstance(expr, ast.Call) and expr.arguments:
            expr = expr.arguments[0]
        if ast.type_of(expr) == ast.NODE_SET and not self.tree.count(at(expr, context)):
            return (self.empty(expr, context),)
        return ()

    def holds(self, expr: ast.Expr, context: Context) -> bool:
        return self.tree.truth(at(expr, context))

    def shown(self, expr: ast.Expr, context: Context) -> str:
        """The value of an expression that is not a node-set."""
        value = self.tree.string(at(expr, context))
        return quote(value) if ast.type_of(expr) == ast.STRING else f"{value}"

    def no_match(self, expr: ast.Call, name: str, value: ast.Expr, wanted: ast.Expr, context: Context) -> Cause:
        actual, needle = self.tree.string(at(value, context)), self.tree.string(at(wanted, context))
        does = "does not contain" if name == "contains" else "does not start with"
        closest, hints = None, []
        if ast.type_of(value) == ast.NODE_SET:
            nodes = at(value, context)
            closest = next(iter(self.tree.first(nodes)), None)
            here = ast.LocationPath(False, (_SELF,), _NOWHERE)
            other = self.tree.first(where(nodes, ast.Call(name, (here, at(wanted, context)), _NOWHERE)))
            if other:
                any_node = f"{self.text(value)}[{name}(., {self.text(wanted)})]"
                hints = [f"only the first node counts, but {other[0]} has it: write {any_node} for any"]
        if not hints and name == "contains" and needle.casefold() in actual.casefold():
            hints = ["they differ in case only, which counts"]
        if not hints and name == "starts-with" and actual.strip().casefold().startswith(needle.strip().casefold()):
            hints = ["they differ in case or leading white space only, which counts"]
        if not hints and name == "starts-with" and needle in actual:
            hints = ["it is further on: contains() finds it anywhere"]
        text = f"{self.text(value)} is {quote(actual)}, which {does} {quote(needle)}"
        return Cause(text, expr.span, closest, tuple(hints), self.nothing_in(value, context))

    def unequal(self, expr: ast.Comparison, context: Context) -> Cause:
        left, op, right = expr.left, expr.op, expr.right
        types = ast.type_of(left), ast.type_of(right)
        for side, type in zip((left, right), types, strict=True):
            if type == ast.NODE_SET and not self.tree.count(at(side, context)) and ast.BOOLEAN not in types:
                return self.empty(side, context)
        if types[1] == ast.NODE_SET and types[0] != ast.NODE_SET:
            left, op, right, types = right, FLIPPED[op], left, (types[1], types[0])
        if types[0] == ast.NODE_SET and types[1] in (ast.STRING, ast.NUMBER):
            return self.no_value(expr, left, op, right, context)
        sides = []
        for side, type in zip((left, right), types, strict=True):
            if type == ast.NODE_SET:
                values = [one.value for one in self.tree.first(at(side, context), _VALUES)]
                sides.append(f"{self.text(side)} is {_or(values, self.tree.count(at(side, context)))}")
            elif isinstance(side, ast.Number | ast.String):
                sides.append(self.shown(side, context))
            else:
                sides.append(f"{self.text(side)} is {self.shown(side, context)}")
        parts = self.nothing_in(left, context) or self.nothing_in(right, context)
        if isinstance(left, ast.Number | ast.String):
            left, op, right, sides = right, FLIPPED[op], left, sides[::-1]
        if isinstance(left, ast.Number | ast.String):
            return Cause(f"{self.text(expr)} holds for no message", expr.span)
        if isinstance(right, ast.Number | ast.String):
            return Cause(f"{sides[0]}, {_not(op)} {sides[1]}", expr.span, parts=parts)
        return Cause(f"{sides[0]} and {sides[1]}: {op} does not hold", expr.span, parts=parts)

    def no_value(self, expr: ast.Comparison, path: ast.Expr, op: str, const: ast.Expr, context: Context) -> Cause:
        """No node of the path compares with the constant as asked."""
        nodes = at(path, context)
        count, found = self.tree.count(nodes), self.tree.first(nodes, 100)
        value = self.tree.string(at(const, context))
        wanted: str | float = to_number(value) if ast.type_of(const) == ast.NUMBER else value
        values = [one.value for one in found]
        hints = value_hints(values, op, wanted, self.text(path))
        shown = to_string(wanted) if isinstance(wanted, float) else quote(wanted)
        return Cause(f"{self.text(path)} is {_or(values, count)}, {_not(op)} {shown}", expr.span, found[0], hints)

    # -- paths that find nothing

    def empty(self, path: ast.Expr, context: Context) -> Cause:
        match path:
            case ast.Union(operands):
                parts = tuple(self.empty(one, context) for one in operands)
                return Cause(f"none of the {len(parts)} paths of the union finds a node", path.span, parts=parts)
            case ast.LocationPath(absolute, steps):
                return self.lost(Context().node if absolute else context.node, steps, path)
            case ast.FilterPath(primary, predicates, steps):
                base = at(primary, context)
                if not self.tree.count(base):
                    return self.empty(primary, context)
                for k, predicate in enumerate(predicates):
                    left = where(base, *predicates[:k]) if k else base
                    if not self.tree.count(where(left, predicate)):
                        what = f"predicate [{self.text(predicate)}] on {self.text(primary)}"
                        return self.none_passes(predicate, self.counted(left), self.tree.count(left), what)
                return self.lost(where(base, *predicates) if predicates else base, steps, path)
        return Cause(f"{self.text(path)} finds nothing", path.span)

    def lost(self, base: ast.Expr, steps: tuple[ast.AxisStep, ...], path: ast.Expr) -> Cause:
        """The first step, or predicate of one, that leaves no node."""
        groups = _groups(steps)
        for number, (start, i) in enumerate(groups, 1):
            step = steps[i]
            bare = replace(step, predicates=())
            name = f"step {number}" if len(groups) == 1 else f"step {number} of {len(groups)}"
            slash = "//" if i > start else "/" if i or not self.is_relative(path) else ""
            name += f", {slash}{self.between(step.span.start, step.test.span.end)},"
            if not self.tree.count(along(base, (*steps[:i], bare))):
                return self.no_step(along(base, steps[:start]), (*steps[start:i], bare), name)
            for k, predicate in enumerate(step.predicates):
                if not self.tree.count(along(base, (*steps[:i], replace(step, predicates=step.predicates[: k + 1])))):
                    kept = replace(step, predicates=step.predicates[:k])
                    what = f"predicate [{self.text(predicate)}] of {name}"
                    candidates = self.candidates(along(base, steps[:i]), kept, predicate)
                    total = self.tree.count(along(base, (*steps[:i], kept)))
                    return self.none_passes(predicate, candidates, total, what)
        return Cause(f"{self.text(path)} finds nothing", path.span)

    def is_relative(self, path: ast.Expr) -> bool:
        return self.query[path.span.start] != "/" and isinstance(path, ast.LocationPath)

    def no_step(self, before: ast.Expr, steps: tuple[ast.AxisStep, ...], name: str) -> Cause:
        count, closest = self.tree.count(before), self.tree.first(before)[0]
        there, hints = there_instead(self.tree, before, steps, many=count > 1)
        span = Span(steps[-1].span.start, steps[-1].test.span.end)
        if closest.kind == "document":
            closest, place = self.tree.first(_ROOT)[0], "in the message"
            if steps[-1].axis == "child" and len(steps) == 1:
                there = f"the root element is {name_text(closest.ns, closest.local)}"
        else:
            many = f" any of {count:,} nodes, the first" if count > 1 else ""
            place = f"{_WHERE.get(steps[-1].axis, 'below')}{many} {closest}"
        return Cause(f"{name} finds nothing {place}{': ' if there else ''}{there}", span, closest, hints)

    # -- predicates that no node passes

    def counted(self, nodes: ast.Expr) -> list[Context]:
        count = self.tree.count(nodes)
        return [Context(one, n, count) for n, one in enumerate(self.tree.each(nodes, _CANDIDATES), 1)]

    def candidates(self, before: ast.Expr, step: ast.AxisStep, predicate: ast.Expr) -> list[Context]:
        """The nodes that a step finds and the filters before have left, each with its position."""
        if ast.type_of(predicate) != ast.NUMBER and not positions.involved(predicate):
            return self.counted(along(before, (step,)))
        found: list[Context] = []
        parents = where(before, ast.LocationPath(False, (step,), _NOWHERE))
        for parent in self.tree.each(parents, _CANDIDATES):
            last = self.tree.count(along(parent, (step,)))
            for position in range(1, min(last, _CANDIDATES - len(found)) + 1):
                chosen = replace(step, predicates=(*step.predicates, ast.Number(float(position), _NOWHERE)))
                found.append(Context(along(parent, (chosen,)), position, last))
        return found

    def none_passes(self, predicate: ast.Expr, candidates: list[Context], total: int, what: str) -> Cause:
        """``total`` is how many nodes there were, ``candidates`` the first of them."""
        if ast.type_of(predicate) == ast.NUMBER:
            most = max(candidates, key=lambda one: one.last)
            value = self.tree.string(at(predicate, most))
            closest = self.tree.first(most.node)[0]
            only = f"there {'is' if most.last == 1 else 'are'} only {most.last:,}"
            return Cause(f"{what} asks for number {value}, and {only} at {closest}", predicate.span, closest)
        best = max(candidates, key=lambda one: self.score(predicate, one))
        closest = self.tree.first(best.node)[0]
        many = f"fails at all of {total:,} nodes; closest is" if total > 1 else "fails at"
        if total > len(candidates):
            many = f"fails at all of {total:,} nodes; closest among the first of them is"
        why = self.false(predicate, best)
        return Cause(f"{what} {many} {closest}", predicate.span, closest, parts=(why,))

    def score(self, expr: ast.Expr, context: Context) -> float:
        """How near an expression is to holding at a node, from 0 to 1."""
        if self.holds(expr, context):
            return 1.0
        match expr:
            case ast.Logical("and", operands):
                return sum(self.score(one, context) for one in operands) / len(operands)
            case ast.Logical(_, operands):
                return max(self.score(one, context) for one in operands)
            case ast.Comparison(left=left, right=right):
                sides = [self.score(one, context) for one in (left, right) if ast.type_of(one) == ast.NODE_SET]
                return 0.7 * min(sides, default=1.0) + 0.2 * self.closeness(left, right, context)
            case ast.Call("contains" | "starts-with", (value, wanted)):
                actual, needle = (self.tree.string(at(one, context)).casefold() for one in (value, wanted))
                return 0.9 if needle in actual else 0.8 * closeness(actual, needle)
            case ast.LocationPath(absolute, steps) if steps:
                base = Context().node if absolute else context.node
                found = [n for n in range(1, len(steps)) if self.tree.count(along(base, steps[:n]))]
                return 0.7 * len(found) / len(steps)
        return 0.0

    def closeness(self, left: ast.Expr, right: ast.Expr, context: Context) -> float:
        """How alike the two sides are, where one is a constant."""
        if isinstance(left, ast.Number | ast.String):
            left, right = right, left
        if not isinstance(right, ast.Number | ast.String):
            return 0.0
        nodes = at(left, context)
        if ast.type_of(left) != ast.NODE_SET:
            return closeness(self.tree.string(nodes), right.value)
        return max((closeness(one.value, right.value) for one in self.tree.first(nodes, _VALUES)), default=0.0)

    # -- why, after all

    def true(self, expr: ast.Expr, context: Context) -> Cause:
        """Why an expression holds at a node."""
        match expr:
            case ast.Logical("or", operands):
                return next(self.true(one, context) for one in operands if self.holds(one, context))
            case ast.Logical(_, operands):
                parts = tuple(self.true(one, context) for one in operands)
                return Cause(f"all {len(parts)} conditions hold", expr.span, parts=parts)
            case ast.Call("not", (operand,)):
                return Cause(f"{self.text(expr)} holds", expr.span, parts=(self.false(operand, context),))
            case ast.Call("boolean", (operand,)):
                return self.true(operand, context)
            case ast.Comparison(op, left, right):
                return self.witness(expr, left, op, right, context)
        if ast.type_of(expr) == ast.NODE_SET:
            count, first = self.tree.count(at(expr, context)), self.tree.first(at(expr, context))[0]
            more = f" and {count - 1:,} more" if count > 1 else ""
            return Cause(f"{self.text(expr)} finds {first}{more}", expr.span, first)
        if ast.type_of(expr) == ast.BOOLEAN:
            return Cause(f"{self.text(expr)} holds", expr.span)
        return Cause(f"{self.text(expr)} is {self.shown(expr, context)}", expr.span)

    def witness(self, expr: ast.Expr, left: ast.Expr, op: str, right: ast.Expr, context: Context) -> Cause:
        if ast.type_of(left) != ast.NODE_SET:
            left, op, right = right, FLIPPED[op], left
        if ast.type_of(left) == ast.NODE_SET and ast.type_of(right) in (ast.STRING, ast.NUMBER):
            here = ast.LocationPath(False, (_SELF,), _NOWHERE)
            fit = where(at(left, context), ast.Comparison(op, here, at(right, context), _NOWHERE))
            first = self.tree.first(fit)[0]
            return Cause(f"{self.text(left)} is {quote(first.value)} at {first}", expr.span, first)
        return Cause(f"{self.text(expr)} holds", expr.span)


_SELF = ast.AxisStep("self", ast.KindTest("node", None, _NOWHERE), (), _NOWHERE)
_ROOT = ast.LocationPath(True, (ast.AxisStep("child", ast.NameTest(None, None, _NOWHERE), (), _NOWHERE),), _NOWHERE)


def _groups(steps: tuple[ast.AxisStep, ...]) -> list[tuple[int, int]]:
    """Where each step begins and where it is, a ``//`` before it included."""
    groups, start = [], 0
    for i, step in enumerate(steps):
        if i + 1 == len(steps) or not is_any_depth(step):
            groups.append((start, i))
            start = i + 1
    return groups


def _not(op: str) -> str:
    return {"=": "not", "!=": "which is to differ from"}.get(op, f"not {op}")


def _or(values: list[str], count: int) -> str:
    more = f" or one of {count - _VALUES:,} more" if count > _VALUES else ""
    return " or ".join(map(quote, values[:_VALUES])) + more
