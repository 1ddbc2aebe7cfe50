"""The words of the error for a query that never matches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twigcast.errors import QueryError, Span
from twigcast.lang import ast
from twigcast.lang.ast import NODE_SET, Expr, type_of
from twigcast.lang.constants import constant
from twigcast.lang.printer import to_text
from twigcast.lang.single_values import DOCUMENT, Conjunct, Kinds, atoms, least
from twigcast.lang.values import Constant

CODE = "never-matches"

_WORDS = {
    "document": "the document",
    "attribute": "an attribute",
    "text": "a text node",
    "comment": "a comment",
    "pi": "a processing instruction",
    "namespace": "a namespace node",
}
_DATE = re.compile(r"\s*(\d{4})-(\d\d)-(\d\d)(T.*|\s.*)?", re.DOTALL)
_GROUPED = re.compile(r"\s*[^\d\s]?\s*\d{1,3}(,\d{3})+(\.\d+)?\s*")


@dataclass(frozen=True, slots=True)
class Never:
    """Why no message can match, where in the text, and what to write instead."""

    text: str
    span: Span
    hint: str | None = None

    def error(self, source: str) -> QueryError:
        return QueryError(CODE, f"no message can match: {self.text}", hint=self.hint, source=source, span=self.span)


# -- words


def no_such_node(step: ast.AxisStep, kinds: Kinds) -> Never:
    where = " or ".join(sorted(_WORDS.get(kind, "an element") for kind in kinds))
    wanted = to_text(ast.LocationPath(False, (ast.AxisStep(step.axis, step.test, (), step.span),), step.span))
    hint = "name the document element first, or write // to look at any depth"
    if kinds != DOCUMENT:
        hint = "make the step before it the last one, or put the condition on the element"
    return Never(f"{where} has no {wanted}", step.span, hint)


def not_a_number(side: Expr, op: str, other: Expr) -> Never:
    value = constant(side)
    if not isinstance(value, str):
        nested = next((one for one in _operands(side) if isinstance(constant(one), str)), side)
        if nested is not side:
            return not_a_number(nested, "-", other)
        return Never("this is not a number (NaN), and no comparison with it holds", side.span)
    shown = value if len(value) <= 40 else value[:40] + "…"
    what = "arithmetic needs numbers" if op == "-" else f"{op} compares numbers"
    if op == "=":
        what = "the other side is a number"
    text = f"{shown!r} is not a number, and {what}"
    hint = "XPath 1.0 has no order of texts; compare with = or !=, or use a number without quotes"
    date = _DATE.fullmatch(value)
    path = to_text(other) if type_of(other) == NODE_SET else "@d"
    if date is not None:
        digits = f"substring({path}, 1, 10)" if date[4] else path
        day = "".join(date.group(1, 2, 3))
        hint = f"compare dates as numbers: translate({digits}, '-', '') {'>' if op == '-' else op} {day}"
    elif _GROUPED.fullmatch(value):
        hint = f"write the number without separators: {re.sub(r'[^0-9.]', '', value)}"
    elif op == "=":
        hint = "compare the text itself, without number() around the path"
    return Never(text, side.span, hint)


def _operands(expr: Expr) -> Iterator[Expr]:
    match expr:
        case ast.Arithmetic(_, left, right):
            yield from _operands(left)
            yield from _operands(right)
        case ast.Negation(operand) | ast.Call(_, (operand,)):
            yield from _operands(operand)
        case _:
            yield expr


def no_value(expr: Expr, conjuncts: Sequence[Conjunct], span: Span) -> Never:
    about = [atom for one, number in conjuncts for atom in atoms(one, number) if atom[0][0] == expr]
    name = to_text(expr)
    whole = Span(min(atom[3].start for atom in about), max(atom[3].end for atom in about))
    tests = [f"{op} {_shown(fixed)}" for _, op, fixed, _ in about if fixed is not None]
    lowest = least(expr)
    if len(about) == 1 and tests:
        hints = {1.0: "positions are whole numbers from 1", 0.0: "it is a whole number from 0"}
        return Never(f"{name} cannot be {tests[0]}", whole, None if lowest is None else hints[lowest])
    hint = "join the conditions with 'or', or mend the bounds"
    if _are_plain(conjuncts) and len(tests) == len(about):
        return Never(f"{name} cannot be {' and '.join(dict.fromkeys(tests))}", whole, hint)
    return Never(f"these conditions on {name} exclude each other", span, hint)


def _are_plain(conjuncts: Iterable[Conjunct]) -> bool:
    """Tell whether conditions are comparisons and conjunctions of them."""
    return all(
        isinstance(one, ast.Comparison)
        or (isinstance(one, ast.Logical) and one.op == "and" and _are_plain([(x, 0) for x in one.operands]))
        for one, _ in conjuncts
    )


def _shown(fixed: Constant) -> str:
    if isinstance(fixed, str):
        return repr(fixed if len(fixed) <= 40 else fixed[:40] + "…")
    return f"{fixed:g}"
