"""A compiled query to a plan: what the kernel is told once per shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twigcast.ir.pattern import (
    FALSE,
    TRUE,
    Compiled,
    Node,
    Pattern,
    Position,
    Predicate,
    Residual,
    Selection,
    Step,
    Structural,
    Twig,
)
from twigcast.ir.visit import Part
from twigcast.plan.access import ANYWAY, MAX_GUARDS, NOWHERE, access, guards, needs
from twigcast.plan.linear import ValuePath, conjunction, linear
from twigcast.plan.slots import slotted


class Plan(Part):
    """One of three kinds, from cheap to dear:

    *paths* alone (``program`` is None): the path engine decides; *pattern*: ``paths`` lead to it, and the kernel checks
    ``program``; either may be *residual* too: then a full XPath engine has the last word.
    """

    paths: tuple[ValuePath, ...]
    program: Predicate | None
    """With slots in place of constants."""
    constants: tuple[str | float, ...]
    residual: Residual | None = None
    selects: tuple[Selection, ...] | None = None
    """As in Pattern, with constants and not slots; None also for a residual plan, for there the full engine selects."""
    pick: Position | None = None

    guards: tuple[ValuePath, ...] = ()
    """Further paths that every message which satisfies the program has; they are looked up before it is run."""
    exact: int | None = None
    """The one path and the guards decide the program if so many steps of it, its first, find a single node."""

    @property
    def is_node_set(self) -> bool:
        return self.selects is not None or (self.residual is not None and self.residual.node_set)

    @property
    def kind(self) -> str:
        if self.residual is not None:
            return "residual"
        return "paths" if self.program is None else "pattern"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a message has to satisfy, and the parts of the plan that do not depend on how it is reached."""

    predicate: Predicate
    residual: Residual | None = None
    selects: tuple[Selection, ...] | None = None
    pick: Position | None = None


Reach = Callable[[Condition], Plan]
"""Plans how the kernel finds the messages that satisfy a condition."""


def plan(compiled: Compiled, reach: Reach | None = None) -> Plan:
    """Return the plan of a query. ``reach`` plans its condition; by default, values lead to it."""
    reach = reach or by_values
    match compiled:
        case Structural(path):
            trunk = Twig(tuple(map(Node, path.steps)))
            return Plan((ValuePath(path.steps),), None, (), selects=(Selection(TRUE, trunk),))
        case Pattern(condition, selects) if condition == FALSE:
            return Plan((NOWHERE,), None, (), selects=selects)
        case Pattern(condition, selects, pick):
            return reach(Condition(condition, None, selects, pick))
        case Residual(None):
            return Plan((ANYWAY,), None, (), compiled)
        case Residual(necessary):
            assert necessary is not None
            return reach(Condition(necessary, compiled))
    raise TypeError(compiled)


def by_values(condition: Condition) -> Plan:
    """Plan a condition so that the most selective value, or else path, leads to it."""
    program, constants = slotted(condition.predicate)
    rest = condition.residual, condition.selects, condition.pick
    paths = linear(program)
    if paths is not None:
        return Plan(tuple(paths), None, tuple(constants), *rest)
    needed = needs(program, values=True)
    reach = access(needed)
    joined, exact = exactly(program, reach)
    others = guards(needed, reach) if exact is None else tuple(path for path in joined if path != reach[0])
    return Plan(reach, program, tuple(constants), *rest, others, exact)


def exactly(program: Predicate, reach: tuple[ValuePath, ...]) -> tuple[tuple[ValuePath, ...], int | None]:
    """Return the paths of a conjunction, and how many of its first steps must find one node for these to decide it.

    None instead of a number means that the paths do not decide it.
    """
    joined = conjunction(program)
    if joined and len(joined.paths) - 1 <= MAX_GUARDS and reach[1:] == () and reach[0] in joined.paths:
        return tuple(joined.paths), joined.centre
    return (), None


def alternatives(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """The paths that together mean the given one: a last ``node()`` is an element, text, comment or PI."""
    *inner, last = steps
    if last.kind != "node":
        return [steps]
    return [(*inner, Step(last.axis, kind)) for kind in ("element", "text", "comment", "pi")]
