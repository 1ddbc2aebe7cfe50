"""How messages reach a pattern: paths of which every message that satisfies it has at least one.

An equality is the best access there is, for few messages have the very value; a path that must exist comes next. The
choice is per shape, so it goes by the kind of condition and not by the constant. Without ``values``, structure alone
counts.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from twigcast.ir.pattern import (
    And,
    Compare,
    Exists,
    Match,
    NormalizeSpace,
    Or,
    Predicate,
    Slot,
    Step,
    StringValue,
    Twig,
    Value,
    tests_any,
    twig_of,
)
from twigcast.plan.linear import ValuePath, equality, equality_is_a_step

# Any message has a root element.
ANYWAY = ValuePath((Step("child", "element"),))
# No message has it: a text node has no children.
NOWHERE = ValuePath((Step("child", "text"), Step("child", "element")))

_EQUAL_STRING, _EQUAL_NUMBER, _PATH = 1.0, 2.0, 100.0


class Access(NamedTuple):
    cost: float
    paths: tuple[ValuePath, ...]


def needs(predicate: Predicate, *, values: bool = True) -> list[Access]:
    """Ways of which every message that satisfies the predicate has each."""
    found: list[Access] = []
    _collect(predicate, (), values, found)
    return found


def access(needed: list[Access]) -> tuple[ValuePath, ...]:
    """The cheapest paths that cover every message which satisfies the predicate."""
    return min(needed, key=_cost).paths if needed else (ANYWAY,)


# Each guard is looked up for every candidate; after a few there is little left to rule out.
MAX_GUARDS = 3


def guards(needed: list[Access], reach: tuple[ValuePath, ...]) -> tuple[ValuePath, ...]:
    """Further single paths that the predicate needs, those that rule out most first."""
    known = [path.steps for path in reach] if len(reach) == 1 else []
    chosen: list[ValuePath] = []
    for _, paths in sorted(needed, key=_cost):
        path = paths[0]
        if len(paths) > 1 or path in reach or path in chosen or path == ANYWAY:
            continue
        # a path that another one goes through says nothing new
        if path.slot is None and any(other[: len(path.steps)] == path.steps for other in known):
            continue
        known.append(path.steps)
        chosen.append(path)
        if len(chosen) == MAX_GUARDS:
            break
    return tuple(chosen)


_cost = itemgetter(0)


def _collect(predicate: Predicate, base: tuple[Step, ...], values: bool, found: list[Access]) -> None:
    if isinstance(predicate, Exists):
        trunk = _trunk(_along(predicate.twig, base, values, found), base)
    elif isinstance(predicate, And):
        for term in predicate.terms:
            _collect(term, base, values, found)
        return
    elif values and (equal := equality(predicate)) is not None:
        twig, slot = equal
        own = _own(base + twig.steps, slot)
        if own is not None:
            found.append(own)
        steps = _along(twig, base, values, found)
        trunk = None if own is not None else _trunk(steps, base)
    else:
        trunk = _of(predicate, base, values)
    if trunk is not None:
        found.append(trunk)


def _along(twig: Twig, base: tuple[Step, ...], values: bool, found: list[Access]) -> tuple[Step, ...]:
    """What the filters on the way need; returns the steps."""
    if twig.bare:
        return base + twig.steps
    steps = base
    for node in twig.nodes:
        steps += (node.step,)
        for filter in node.filters:
            _collect(filter, steps, values, found)
    return steps


def _of(predicate: Predicate, base: tuple[Step, ...], values: bool) -> Access | None:
    """What the predicate needs below a node that ``base`` leads to; None if it needs nothing there."""
    match predicate:
        case And(terms):
            return _cheapest([_of(term, base, values) for term in terms])
        case Or(terms):
            parts = [_of(term, base, values) for term in terms]
            if any(p is None for p in parts):
                return None
            found = [p for p in parts if p is not None]
            return Access(sum(p.cost for p in found), tuple(path for p in found for path in p.paths))
        case Exists(twig):
            return _twig(twig, base, values)
        case Compare(StringValue(twig, first), "=", Slot() as slot) if equality_is_a_step(slot):
            # the first of no nodes is the empty string
            if first and slot.value in ("", 0.0):
                return None
            return _value(twig, base, slot) if values else _twig(twig, base, values)
        case Compare(value, op, Slot(const)) if not _holds_of_nothing(value, op, const):
            return _twig(twig_of(value), base, values)
        case Match(_, StringValue(twig, _) | NormalizeSpace(StringValue(twig, _)), Slot(const)) if const != "":
            return _twig(twig, base, values)
    return None


def _value(twig: Twig, base: tuple[Step, ...], slot: Slot) -> Access | None:
    return _cheapest([_own(base + twig.steps, slot), _twig(twig, base, True)])


def _own(steps: tuple[Step, ...], slot: Slot) -> Access | None:
    """The path to a node with the value."""
    if not steps or not _followable(steps):
        return None
    cost = _EQUAL_STRING if isinstance(slot.value, str) else _EQUAL_NUMBER
    return Access(cost - 0.01 * len(steps), (ValuePath(steps, slot),))


def _twig(twig: Twig, base: tuple[Step, ...], values: bool) -> Access | None:
    options: list[Access | None] = []
    steps = base
    for node in twig.nodes:
        steps = (*steps, node.step)
        options += [_of(filter, steps, values) for filter in node.filters]
    return _cheapest([*options, _trunk(steps, base)])


def _trunk(steps: tuple[Step, ...], base: tuple[Step, ...]) -> Access | None:
    """As much of the trunk as the path engine can follow."""
    while not _followable(steps):
        if len(steps) <= len(base):
            return None
        steps = steps[:-1]
    if not steps:
        return None
    return Access(_PATH - len(steps), (ValuePath(steps),))


def _cheapest(options: list[Access | None]) -> Access | None:
    best = None
    for option in options:
        if option is not None and (best is None or option.cost < best.cost):
            best = option
    return best


def _followable(steps: tuple[Step, ...]) -> bool:
    for step in steps:  # noqa: SIM110 - a generator takes twice as long
        if step.kind == "node" or (step.kind == "pi" and step.local is not None):
            return False
    return True


def _holds_of_nothing(value: Value, op: str, const: str | float) -> bool:
    """Can it hold where the path finds no node? (Only values of *the first* node, and counts, exist then.)"""
    if tests_any(value):
        return False
    if isinstance(const, str):
        return True
    if isinstance(value, StringValue | NormalizeSpace):
        return op == "!="
    return {"=": const == 0, "!=": const != 0, "<": const > 0, "<=": const >= 0, ">": const < 0, ">=": const <= 0}[op]
