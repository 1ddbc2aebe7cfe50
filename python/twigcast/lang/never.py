"""Find queries that no message can match, without a schema.

The judgement is made on the syntax tree, which knows the places in the text. Each condition gets its *outcomes*:
whether it can be true, and whether it can be false. Outcomes are over-approximated, so that a query is refused only if
it really never matches (SEMANTICS 26). XPath 1.0 has no side effects, hence equal expressions at one node have equal
values: a contradiction is found by trying the few values that the constants of the query tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from twigcast.errors import Span
from twigcast.lang import ast
from twigcast.lang.ast import BOOLEAN, NODE_SET, NUMBER, Expr, type_of
from twigcast.lang.constants import constant
from twigcast.lang.never_words import Never, no_such_node, no_value, not_a_number
from twigcast.lang.single_values import (
    ABSENT,
    ANY,
    DOCUMENT,
    PRESENT,
    Conjunct,
    Key,
    Kinds,
    Number,
    Value,
    any_node,
    conjuncts_of,
    is_nan,
    is_single,
    key_of,
    moved,
    representatives,
    sides,
    variables,
)
from twigcast.lang.values import Constant, compare, to_boolean, to_number

# Outcomes of a condition, as bits.
FALSE_ONLY, TRUE_ONLY, EITHER = 1, 2, 3

# Conditions looked at for one query; one that needs more passes unjudged.
MAX_WORK = 50_000


class TooMuchWork(Exception):
    """The query is too large to judge."""


def never(expr: Expr, start: Kinds = DOCUMENT) -> Never | None:
    """Return why a query can never be true at nodes of the kinds ``start``; None if some message may match."""
    try:
        judge = Judge()
        conjuncts = [(expr, 0)]
        if judge.outcomes(conjuncts, start) & TRUE_ONLY:
            return None
        return judge.blame(conjuncts, start)
    except (RecursionError, TooMuchWork):
        return None


def depends_on_constants(expr: Expr) -> bool:
    """Tell whether the judgement may differ for a query with other constants."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, Kinds]] = [(expr, DOCUMENT)]
    while stack:
        one, kinds = stack.pop()
        match one:
            case ast.LocationPath(_, steps) | ast.FilterPath(steps=steps):
                predicates = [p for step in steps for p in step.predicates]
                if isinstance(one, ast.FilterPath):
                    stack.append((one.primary, kinds))
                    predicates += one.predicates
                if any(type_of(p) == NUMBER for p in predicates):
                    return True
                stack += [(p, ANY) for p in predicates]
            case ast.Union(operands) | ast.Logical(_, operands):
                stack += [(operand, kinds) for operand in operands]
            case ast.Call("not" | "boolean", (operand,)):
                stack.append((operand, kinds))
            case ast.Call("contains" | "starts-with", (text, ast.String())) if type_of(text) == NODE_SET:
                stack.append((text, kinds))
            case ast.Comparison(op, left, right):
                if isinstance(left, ast.String | ast.Number):
                    left, right = right, left
                plain = isinstance(right, ast.Number) or (isinstance(right, ast.String) and op in ("=", "!="))
                if not plain or type_of(left) != NODE_SET or (left in seen and is_single(left, kinds)):
                    return True
                seen.add(left)
                stack.append((left, kinds))
            case _:
                return True
    return False


class Judge:
    """Judges one query, with a bound on the work."""

    def __init__(self) -> None:
        self._paths: dict[tuple[int, Kinds], tuple[int, Kinds]] = {}
        self.work = 0

    # -- conditions

    def outcomes(self, conjuncts: Sequence[Conjunct], kinds: Kinds) -> int:
        """Return the outcomes of a conjunction at a node of ``kinds``."""
        found = self._together(conjuncts, kinds, {})
        if found != EITHER:
            return found
        for key, constants in variables(conjuncts, kinds).items():
            tried = 0
            for value in representatives(key[0], constants, kinds):
                tried |= self._together(conjuncts, kinds, {key: value})
                if tried == EITHER:
                    break
            found &= tried
            if found != EITHER:
                break
        return found or FALSE_ONLY

    def _together(self, conjuncts: Iterable[Conjunct], kinds: Kinds, known: Mapping[Key, Value | Number]) -> int:
        can_be_true, can_be_false = True, False
        for expr, number in conjuncts:
            one = self.condition(expr, number, kinds, known)
            can_be_true = can_be_true and bool(one & TRUE_ONLY)
            can_be_false = can_be_false or bool(one & FALSE_ONLY)
        return TRUE_ONLY * can_be_true + FALSE_ONLY * (can_be_false or not can_be_true)

    def condition(self, expr: Expr, number: int, kinds: Kinds, known: Mapping[Key, Value | Number]) -> int:
        """Return the outcomes of an expression as a boolean, given the values in ``known``."""
        self.work += 1
        if self.work > MAX_WORK:
            raise TooMuchWork
        value = constant(expr)
        if value is not None:
            return _certain(to_boolean(value))
        match expr:
            case ast.Logical("and", operands):
                conjuncts = [(one, number) for one in operands]
                return self._together(conjuncts, kinds, known) if known else self.outcomes(conjuncts, kinds)
            case ast.Logical(_, operands):
                each = [self.condition(one, number, kinds, known) for one in operands]
                return TRUE_ONLY * any(one & TRUE_ONLY for one in each) + all(one & FALSE_ONLY for one in each)
            case ast.Call("not", (operand,)):
                return _flipped(self._whole(operand, number, kinds, known))
            case ast.Call("boolean", (operand,)):
                return self._whole(operand, number, kinds, known)
            case ast.Comparison():
                return self._comparison(expr, number, kinds, known)
        if type_of(expr) == NODE_SET:
            found = known.get(key_of(expr, -1))
            return self.nodes(expr, kinds)[0] if found is None else _certain(found is not ABSENT)
        if type_of(expr) == NUMBER and is_nan(expr):
            return FALSE_ONLY
        return EITHER

    def _whole(self, expr: Expr, number: int, kinds: Kinds, known: Mapping[Key, Value | Number]) -> int:
        return self.condition(expr, number, kinds, known) if known else self.outcomes([(expr, number)], kinds)

    def _comparison(self, expr: ast.Comparison, number: int, kinds: Kinds, known: Mapping[Key, Value | Number]) -> int:
        op, left, right, fixed = sides(expr)
        types = type_of(left), type_of(right)
        if BOOLEAN in types:
            return self._booleans(op, left, right, fixed, number, kinds, known)
        for side in (left, right):
            if type_of(side) == NODE_SET and not self.nodes(side, kinds)[0] & TRUE_ONLY:
                return FALSE_ONLY
        numeric = op not in ("=", "!=") or NUMBER in types or isinstance(fixed, float)
        if numeric and (is_nan(left) or is_nan(right)):
            if op != "!=":
                return FALSE_ONLY
            return EITHER if NODE_SET in types else TRUE_ONLY
        if fixed is None:
            return EITHER
        value = known.get(key_of(left, number))
        if value is None or value is PRESENT:
            return EITHER
        if value is ABSENT:
            return FALSE_ONLY
        if isinstance(value, float):
            return _certain(compare(value, op, to_number(fixed)))
        if isinstance(fixed, str) and op in ("=", "!="):
            return _certain((value.text == fixed) == (op == "="))
        return _certain(compare(value.number, op, to_number(fixed)))

    def _booleans(
        self,
        op: str,
        left: Expr,
        right: Expr,
        fixed: Constant | None,
        number: int,
        kinds: Kinds,
        known: Mapping[Key, Value | Number],
    ) -> int:
        def values(expr: Expr) -> list[Constant]:
            found = self._whole(expr, number, kinds, known)
            return [value for value, bit in ((True, TRUE_ONLY), (False, FALSE_ONLY)) if found & bit]

        if fixed is None and op not in ("=", "!=") and (type_of(left), type_of(right)) != (BOOLEAN, BOOLEAN):
            return EITHER
        if type_of(left) != BOOLEAN and op not in ("=", "!=") and type_of(left) != NODE_SET:
            return EITHER
        others = values(right) if fixed is None else [fixed]
        found = 0
        for a in values(left):
            for b in others:
                found |= _certain(compare(a, op, b))
        return found

    # -- node-sets

    def nodes(self, expr: Expr, kinds: Kinds) -> tuple[int, Kinds]:
        """Return whether a node-set can have nodes (as the outcomes of that condition), and of which kinds."""
        key = id(expr), kinds
        found = self._paths.get(key)
        if found is None:
            found = self._paths[key] = self._nodes(expr, kinds)
        return found

    def _nodes(self, expr: Expr, kinds: Kinds) -> tuple[int, Kinds]:
        match expr:
            case ast.LocationPath(absolute, steps):
                return self._walk(steps, DOCUMENT if absolute else kinds, TRUE_ONLY)
            case ast.Union(operands):
                each = [self.nodes(one, kinds) for one in operands]
                reached = frozenset().union(*(these for _, these in each))
                return TRUE_ONLY * any(one & TRUE_ONLY for one, _ in each) + all(
                    o & FALSE_ONLY for o, _ in each
                ), reached
            case ast.FilterPath(primary, predicates, steps):
                outcome, reached = self.nodes(primary, kinds)
                if not outcome & TRUE_ONLY:
                    return FALSE_ONLY, frozenset()
                if predicates:
                    if not self.outcomes(conjuncts_of(predicates), reached) & TRUE_ONLY:
                        return FALSE_ONLY, frozenset()
                    outcome = EITHER
                return self._walk(steps, reached, outcome)
        return EITHER, ANY

    def _walk(self, steps: Sequence[ast.AxisStep], kinds: Kinds, outcome: int) -> tuple[int, Kinds]:
        for step in steps:
            kinds = moved(kinds, step)
            if not kinds:
                return FALSE_ONLY, kinds
            if step.predicates and not self.outcomes(conjuncts_of(step.predicates), kinds) & TRUE_ONLY:
                return FALSE_ONLY, frozenset()
            if step.predicates or step.axis != "self" or not any_node(step):
                outcome = EITHER
        return outcome, kinds

    # -- reasons

    def blame(self, conjuncts: Sequence[Conjunct], kinds: Kinds) -> Never:
        """Return the reason why a conjunction, which is never true, is not."""
        for expr, number in conjuncts:
            if not self.outcomes([(expr, number)], kinds) & TRUE_ONLY:
                return self._blame(expr, number, kinds)
        return self._contradiction(conjuncts, kinds)

    def _blame(self, expr: Expr, number: int, kinds: Kinds) -> Never:
        if type_of(expr) == NODE_SET:
            return self._no_nodes(expr, kinds)
        match expr:
            case ast.Logical("and", operands):
                return self.blame([(one, number) for one in operands], kinds)
            case ast.Logical(_, operands) if constant(expr) is None:
                return self._blame(operands[0], number, kinds)
            case ast.Call("not", (operand,)) if constant(operand) is None:
                return Never("what stands in this not() is always true", operand.span, "remove it, or the not()")
            case ast.Call("boolean", (operand,)) if constant(operand) is None:
                return self._blame(operand, number, kinds)
            case ast.Comparison() if constant(expr) is None:
                return self._no_comparison(expr, number, kinds)
        return Never("this is false for every message", expr.span, "remove it, or write a condition on the message")

    def _no_comparison(self, expr: ast.Comparison, number: int, kinds: Kinds) -> Never:
        op, left, right, _ = sides(expr)
        if BOOLEAN not in (type_of(left), type_of(right)):
            for side in (left, right):
                if type_of(side) == NODE_SET and not self.nodes(side, kinds)[0] & TRUE_ONLY:
                    return self._no_nodes(side, kinds)
            for side in (left, right):
                if is_nan(side):
                    return not_a_number(side, op, left if side is right else right)
        return self._contradiction([(expr, number)], kinds)

    def _contradiction(self, conjuncts: Sequence[Conjunct], kinds: Kinds) -> Never:
        first, last = conjuncts[0][0].span, conjuncts[-1][0].span
        span = Span(first.start, max(last.end, first.end))
        for key, constants in variables(conjuncts, kinds).items():
            values = list(representatives(key[0], constants, kinds))
            if any(self._together(conjuncts, kinds, {key: value}) & TRUE_ONLY for value in values):
                continue
            return no_value(key[0], conjuncts, span)
        return Never("these conditions exclude each other", span, "remove one of them, or join them with 'or'")

    def _no_nodes(self, expr: Expr, kinds: Kinds) -> Never:
        match expr:
            case ast.LocationPath(absolute, steps):
                return self._no_step(steps, DOCUMENT if absolute else kinds)
            case ast.Union(operands):
                return self._no_nodes(operands[0], kinds)
            case ast.FilterPath(primary, predicates, steps):
                outcome, reached = self.nodes(primary, kinds)
                if not outcome & TRUE_ONLY:
                    return self._no_nodes(primary, kinds)
                if predicates and not self.outcomes(conjuncts_of(predicates), reached) & TRUE_ONLY:
                    return self.blame(conjuncts_of(predicates), reached)
                return self._no_step(steps, reached)
        return Never("this path finds nothing in any message", expr.span)

    def _no_step(self, steps: Sequence[ast.AxisStep], kinds: Kinds) -> Never:
        for step in steps:
            reached = moved(kinds, step)
            if not reached:
                return no_such_node(step, kinds)
            if step.predicates and not self.outcomes(conjuncts_of(step.predicates), reached) & TRUE_ONLY:
                return self.blame(conjuncts_of(step.predicates), reached)
            kinds = reached
        raise AssertionError("some step finds nothing")


def _certain(value: bool) -> int:
    return TRUE_ONLY if value else FALSE_ONLY


def _flipped(outcomes: int) -> int:
    return (outcomes & 1) << 1 | outcomes >> 1
