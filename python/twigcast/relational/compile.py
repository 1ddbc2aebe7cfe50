"""Subscriptions as conjunctions of predicates on linear paths (relational §3.2), compiled once per shape.

``or`` makes several conjunctions, existence is an operator of its own, and the predicates come in the order of their
evaluation: equalities first. What a conjunction's branches share is kept as branch points; but not the root element,
for there is one only, so that its branches meet whatever they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twigcast.engine import Subscription
from twigcast.engine.results import check_result
from twigcast.errors import OptionError, QueryError, Span
from twigcast.ir.pattern import (
    And,
    Bool,
    Compare,
    Exists,
    LinearPath,
    Node,
    Or,
    Predicate,
    Slot,
    Step,
    StringValue,
    Twig,
)
from twigcast.lang.flwr import is_transform
from twigcast.lang.names import check_namespaces
from twigcast.lang.shape import Shapes, Template, scope_of
from twigcast.lang.xpath import check_dialect
from twigcast.lang.xscl import is_correlation
from twigcast.plan.access import ANYWAY
from twigcast.plan.planner import Plan, alternatives
from twigcast.relational import reference as references
from twigcast.relational.reference import REFERENCE
from twigcast.relational.refuse import Refused, not_relational, refusal

EXISTS = "exists"
IN = "in"
"""That a column of reference data has the value."""
_NUMERIC = {"=": "==", "!=": "!=="}
EQUALITIES = ("=", "==", IN)
# Conjunctions of one subscription; each is a chain of its own in the tables.
MAX_ALTERNATIVES = 64


class Test(NamedTuple):
    """A predicate of a conjunction: what is compared, how, and with which constant; ``points`` has the branch points on
    the way as (number, step), both from 1."""

    path: str
    op: str
    slot: Slot | None
    points: tuple[tuple[int, int], ...]


Conjunction = tuple[Test, ...]


class Row(NamedTuple):
    """The same with the constant in place. Of ``value`` and ``number`` the one that ``op`` has no use for is empty."""

    path: str
    op: str
    value: str
    number: float
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of the pattern; equal places are the same one."""

    key: int
    step: Step


@dataclass(frozen=True, slots=True)
class _Leaf:
    trail: tuple[_Place, ...]
    op: str
    slot: Slot | None


_Way = tuple[_Leaf, ...]


def conjunctions(template: Template, query: str, namespaces: Mapping[str, str]) -> tuple[Conjunction, ...]:
    """Of a shape, with slots in place of constants. Raises QueryError, with the place, for what is no such thing."""
    plan = template.plan
    if plan.residual is not None:
        reason = plan.residual.reasons[0]
        raise not_relational(reason.text, query, reason.span)
    try:
        ways = _Ways().of(_program(plan), ())
        return tuple(_conjunction(way) for way in ways)
    except Refused as error:
        raise refusal(error.what, query, namespaces) from None


def rows(conjunction: Conjunction, constants: Sequence[str | float]) -> list[Row] | None:
    """Return the predicates with their constants; None if they can never hold together."""
    made = []
    for path, op, slot, points in conjunction:
        value, number = "", 0.0
        if slot is not None:
            constant = constants[slot.index]
            if isinstance(constant, str):
                value = constant
                if value.startswith(REFERENCE):
                    if op != "=":
                        raise Refused("reference")
                    op, value = IN, value.removeprefix(REFERENCE)
            elif math.isnan(constant):
                # nothing compares with NaN, and everything differs from it
                if op != "!==":
                    return None
                op = EXISTS
            else:
                number = constant + 0.0  # -0 is 0
        made.append(Row(path, op, value, number, points))
    return made


def _program(plan: Plan) -> Predicate:
    if plan.program is not None:
        return plan.program
    terms: list[Predicate] = []
    for path in plan.paths:
        twig = Twig(tuple(map(Node, path.steps)))
        terms.append(Exists(twig) if path.slot is None else Compare(StringValue(twig), "=", path.slot))
    return terms[0] if len(terms) == 1 else Or(tuple(terms))


class _Ways:
    """The ways in which a predicate can hold, each a conjunction of leaves."""

    def __init__(self) -> None:
        self._places = 0

    def of(self, predicate: Predicate, base: tuple[_Place, ...]) -> list[_Way]:
        match predicate:
            case Exists(twig):
                return self._along(twig, base, EXISTS, None)
            case Compare(StringValue(twig, False), op, Slot() as slot):
                numeric = not isinstance(slot.value, str)
                return self._along(twig, base, _NUMERIC.get(op, op) if numeric else op, slot)
            case And(terms):
                return self._all([self.of(term, base) for term in terms])
            case Or(terms):
                return _bounded([way for term in terms for way in self.of(term, base)])
            case Bool(True):
                return [()] if base else [(_Leaf((self._place(ANYWAY.steps[0]),), EXISTS, None),)]
            case Bool(False):
                return []
        raise Refused(predicate)

    def _place(self, step: Step) -> _Place:
        self._places += 1
        return _Place(self._places, step)

    def _along(self, twig: Twig, base: tuple[_Place, ...], op: str, slot: Slot | None) -> list[_Way]:
        parts: list[list[_Way]] = []
        ends_in_filters = False
        for i, node in enumerate(twig.nodes):
            last = i + 1 == len(twig.nodes)
            if (node.step.kind == "node" and not (last and not node.filters)) or (
                node.step.kind == "pi" and node.step.local is not None
            ):
                raise Refused(node.step)
            base = (*base, self._place(node.step))
            parts += [self.of(one, base) for one in node.filters]
            ends_in_filters = bool(node.filters)
        if not (ends_in_filters and op == EXISTS):
            if not base:
                if op == EXISTS:
                    return [()]
                raise Refused("document")
            *inner, last_place = base
            ends = alternatives((last_place.step,)) if last_place.step.kind == "node" else [(last_place.step,)]
            parts.append([(_Leaf((*inner, _Place(last_place.key, step)), op, slot),) for (step,) in ends])
        return self._all(parts)

    def _all(self, parts: Iterable[list[_Way]]) -> list[_Way]:
        found: list[_Way] = [()]
        for part in parts:
            found = _bounded([(*one, *other) for one in found for other in part], of=len(found) * len(part))
        return found


def _bounded(ways: list[_Way], of: int | None = None) -> list[_Way]:
    if (len(ways) if of is None else of) > MAX_ALTERNATIVES:
        raise Refused("alternatives")
    return list(dict.fromkeys(ways))


def _conjunction(way: _Way) -> Conjunction:
    if not way:
        return (Test(str(LinearPath(ANYWAY.steps)), EXISTS, None, ()),)
    numbers = _branch_points(way)
    tests = []
    for leaf in way:
        path = str(LinearPath(tuple(place.step for place in leaf.trail)))
        points = tuple((numbers[p.key], i) for i, p in enumerate(leaf.trail, 1) if p.key in numbers)
        tests.append(Test(path, leaf.op, leaf.slot, points))
    # what asks the same of the same node asks it once
    return tuple(sorted(dict.fromkeys(tests), key=_order))


def _order(test: Test) -> tuple[int, str, str]:
    stage = {IN: 1, "=": 0, "==": 1, EXISTS: 4, "!=": 3, "!==": 3}.get(test.op, 2)
    return stage, test.path, test.op


def _branch_points(way: _Way) -> dict[int, int]:
    """Number the branch points, the nodes of the pattern below which paths to different leaves go on, from 1."""
    following: dict[int, set[int]] = {}
    count: dict[int, int] = {}
    for leaf in way:
        trail = leaf.trail
        for i, place in enumerate(trail):
            count[place.key] = count.get(place.key, 0) + 1
            below = trail[i + 1].key if i + 1 < len(trail) else -count[place.key]
            following.setdefault(place.key, set()).add(below)
    roots = {leaf.trail[0].key for leaf in way if leaf.trail[0].step.axis == "child"}
    keys = sorted(key for key, below in following.items() if len(below) > 1 and key not in roots)
    return {key: number for number, key in enumerate(keys, 1)}


class Compiler:
    def __init__(self, namespaces: Mapping[str, str], columns: Callable[[], list[str]]) -> None:
        """``columns`` tells which columns of reference data there are, as ``table.column``."""
        self.namespaces = dict(namespaces)
        self._columns = columns
        self._shapes = Shapes()
        self._compiled: dict[Template, tuple[Conjunction, ...]] = {}

    def compile(self, s: Subscription) -> list[list[Row]]:
        """Return the conjunctions of a subscription, predicates in the order of evaluation. Raises QueryError."""
        if not isinstance(s.query, str):
            raise OptionError("bad-query", f"a query is a string, not {type(s.query).__name__}")
        check_dialect(s.dialect)
        check_result(s.result)
        if s.result != "match":
            hint = "the relational engine tells which messages match; leave the result out"
            raise OptionError("bad-result", f"the relational engine gives no {s.result}", hint=hint)
        if is_transform(s.query):
            text = "a transform makes new messages, which tables do not"
            hint = "leave --engine relational out"
            raise QueryError("not-relational", text, hint=hint, source=s.query, span=Span(0, len(s.query)))
        if is_correlation(s.query):
            text = "a correlation ties messages together, which are matched one by one here"
            hint = "leave --engine relational out"
            raise QueryError("not-relational", text, hint=hint, source=s.query, span=Span(0, len(s.query)))
        check_namespaces(s.namespaces, s.default_namespace)
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        if "$" not in s.query:
            return self._compile(s, s.query, namespaces)
        query = references.as_literals(s.query, self._columns())
        try:
            return self._compile(s, query, namespaces)
        except QueryError as error:
            raise references.as_written(error, s.query) from None

    def _compile(self, s: Subscription, query: str, namespaces: dict[str, str]) -> list[list[Row]]:
        template, literals = self._shapes.split(query, scope_of(namespaces, s.default_namespace, s.dialect))
        constants = template.constants(literals)
        found = self._compiled.get(template)
        if found is None:
            found = conjunctions(template, query, namespaces)
            if template.kept:
                self._compiled[template] = found
        try:
            made = [rows(conjunction, constants) for conjunction in found]
            if query != s.query and references.named(query) != references.used(made):
                raise Refused("reference")
        except Refused as error:
            raise refusal(error.what, query, namespaces) from None
        return [rows for rows in made if rows is not None]

    def declared(self, s: Subscription) -> dict[str, str]:
        """Return the prefixes that a query uses, also the engine's: who opens the database next may have others."""
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        return {prefix: uri for prefix, uri in namespaces.items() if f"{prefix}:" in s.query}
