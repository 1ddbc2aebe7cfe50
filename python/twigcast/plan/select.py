"""What a plan selects, as a program for the kernel (shapes/select.rs): its condition, read as a node-set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twigcast.ir.pattern import And, Exists, Or, Predicate
from twigcast.plan.planner import Plan
from twigcast.plan.slots import slotted


@dataclass(frozen=True, slots=True)
class Selector:
    """``program`` is ``or`` of (guard ``and`` exists twig), after ``position() = … and`` where there is a pick."""

    program: Predicate
    slots: tuple[tuple[int, str | float], ...]
    """For each slot the constant of the plan that goes there; or -1, and the value."""

    def constants(self, given: Sequence[str | float]) -> list[str | float]:
        return [value if i < 0 else given[i] for i, value in self.slots]


def selector(plan: Plan) -> Selector:
    """The selector of a plan that selects nodes, not residual.

    Each constant of a template is there once, so its value tells which one it is; a value that is not among the plan's
    constants is part of the shape.
    """
    assert plan.selects is not None
    union: Predicate = Or(tuple(And((one.guard, Exists(one.twig))) for one in plan.selects))
    program, values = slotted(union if plan.pick is None else And((plan.pick, union)))
    known = list(plan.constants)
    return Selector(program, tuple((known.index(value) if value in known else -1, value) for value in values))
