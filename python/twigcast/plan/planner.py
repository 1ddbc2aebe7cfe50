"""A compiled query to a plan: what the kernel is told once per shape."""

from __future__ import annotations

from collections.abc import Callable

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
from twigcast.plan.access import ANYWAY, NOWHERE, ValuePath, access, exactly, guards, linear, needs
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


class Condition(Part):
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
    if isinstance(compiled, Structural):
        steps = compiled.path.steps
        return Plan((ValuePath(steps),), None, (), selects=(Selection(TRUE, Twig(tuple(map(Node, steps)))),))
    if isinstance(compiled, Pattern):
        if compiled.condition == FALSE:
            return Plan((NOWHERE,), None, (), selects=compiled.selects)
        return reach(Condition(compiled.condition, None, compiled.selects, compiled.pick))
    if compiled.necessary is None:
        return Plan((ANYWAY,), None, (), compiled)
    return reach(Condition(compiled.necessary, compiled))


def by_values(condition: Condition) -> Plan:
    """Plan a condition so that the most selective value, or else path, leads to it."""
    program, constants = slotted(condition.predicate)
    rest = condition.residual, condition.selects, condition.pick
    paths = linear(program)
    if paths is not None:
        return Plan(tuple(paths), None, tuple(constants), *rest)
    needed = needs(program)
    reach = access(needed)
    others, exact = exactly(program, needed, reach)
    return Plan(reach, program, tuple(constants), *rest, guards(needed, reach) if exact is None else others, exact)


def alternatives(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """The paths that together mean the given one: a last ``node()`` is an element, text, comment or PI."""
    *inner, last = steps
    if last.kind != "node":
        return [steps]
    return [(*inner, Step(last.axis, kind)) for kind in ("element", "text", "comment", "pi")]
