"""YFilter's ways to evaluate predicates (overview §3.3): structure leads to a pattern, where ours starts from a value.

``inline`` tests equalities while the message is read, whether or not the rest of the pattern is there; ``postponed``
compares values for the patterns whose paths are all there. The answers are the same.
"""

from __future__ import annotations

from twigcast.plan.access import access, exactly, guards, linear, needs
from twigcast.plan.planner import Condition, Plan, Reach, by_values
from twigcast.plan.slots import slotted


def inline(condition: Condition) -> Plan:
    """Plan a condition so that paths lead to it, and values are looked up as guards."""
    return _by_structure(condition, values=True)


def postponed(condition: Condition) -> Plan:
    """Plan a condition so that paths lead to it, and values are compared last."""
    return _by_structure(condition, values=False)


def _by_structure(condition: Condition, *, values: bool) -> Plan:
    program, constants = slotted(condition.predicate)
    rest = condition.residual, condition.selects, condition.pick
    paths = linear(program)
    if paths is not None and all(path.slot is None for path in paths):
        return Plan(tuple(paths), None, tuple(constants), *rest)
    needed = needs(program, values=False)
    reach = access(needed)
    others, exact = exactly(program, needed, reach)
    if constants or exact is None:
        exact = None
        others = guards(needs(program) if values else needed, reach)
    if values:
        # A bucket has the constants of its ways, and only then the guards of one constant: so a value is a way as well,
        # though none that leads to more than the structure does.
        reach += tuple(path for path in others if path.slot is not None)
    return Plan(reach, program, tuple(constants), *rest, others, exact)


PREDICATES: dict[str, Reach] = {"shared": by_values, "inline": inline, "postponed": postponed}
"""The strategies by name; ``shared`` is the kernel's."""
