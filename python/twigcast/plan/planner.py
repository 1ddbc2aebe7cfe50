"""A compiled query to a plan: what the kernel is told once per shape."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.frozen import quick
from twigcast.pattern import (
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
from twigcast.plan.access import ANYWAY, MAX_GUARDS, NOWHERE, access, guards, needs
from twigcast.plan.linear import ValuePath, conjunction, linear
from twigcast.plan.slots import slotted

PREDICATES = ("shared", "inline", "postponed")
"""When values are compared. ``shared``: a value leads to the pattern. The other two are YFilter's (overview §3.3), and
there structure leads: ``inline`` tests equalities while the message is read, whether or not the rest of the pattern is
there; ``postponed`` compares values for the patterns whose paths are all there."""


@quick
@dataclass(frozen=True, slots=True)
class Plan:
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


def plan(compiled: Compiled, predicates: str = PREDICATES[0]) -> Plan:
    match compiled:
        case Structural(path):
            trunk = Twig(tuple(map(Node, path.steps)))
            return Plan((ValuePath(path.steps),), None, (), selects=(Selection(TRUE, trunk),))
        case Pattern(condition, selects) if condition == FALSE:
            return Plan((NOWHERE,), None, (), selects=selects)
        case Pattern(condition, selects, pick):
            return _pattern(condition, predicates, None, selects, pick)
        case Residual(None):
            return Plan((ANYWAY,), None, (), compiled)
        case Residual(necessary):
            assert necessary is not None
            return _pattern(necessary, predicates, compiled)
    raise TypeError(compiled)


def _pattern(
    condition: Predicate,
    predicates: str,
    residual: Residual | None,
    selects: tuple[Selection, ...] | None = None,
    pick: Position | None = None,
) -> Plan:
    program, constants = slotted(condition)
    values = predicates == "shared"
    paths = linear(program)
    if paths is not None and (values or all(path.slot is None for path in paths)):
        return Plan(tuple(paths), None, tuple(constants), residual, selects, pick)
    joined = conjunction(program)
    needed = needs(program, values=values)
    reach = access(needed)
    exact = None
    if joined and len(joined.paths) - 1 <= MAX_GUARDS and reach[1:] == () and reach[0] in joined.paths:
        exact = joined.centre if values or not constants else None
    if joined and exact is not None:
        others = tuple(path for path in joined.paths if path != reach[0])
    else:
        others = guards(needs(program) if predicates == "inline" else needed, reach)
    if predicates == "inline":
        # A bucket has the constants of its ways, and only then the guards of one constant: so a value is a way as well,
        # though none that leads to more than the structure does.
        reach += tuple(path for path in others if path.slot is not None)
    return Plan(reach, program, tuple(constants), residual, selects, pick, others, exact)


def alternatives(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """The paths that together mean the given one: a last ``node()`` is an element, text, comment or PI."""
    *inner, last = steps
    if last.kind != "node":
        return [steps]
    return [(*inner, Step(last.axis, kind)) for kind in ("element", "text", "comment", "pi")]
