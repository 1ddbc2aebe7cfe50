"""How the calls of a webhook sink are shared among its targets.

A sink makes a bounded number of calls at a time. If every target took as many as it may, a few slow targets would
hold all of them, and a quick one would wait although nothing is wrong with it. Therefore:

- Free slots are handed out one at a time, to the target that has waited longest for its turn.
- Half of the slots are kept for the first call of targets that are not slow. Further calls of a target, and calls of
  slow targets, share the other half.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_CALLS = 128
"""Calls of a sink under way at one time, to all of its targets."""
SHARED_CALLS = MOST_CALLS // 2
"""Slots for calls to slow targets, and for the second and further calls to a target."""
SLOW = 1.0
"""Seconds of a call from which on its target counts as slow."""


@dataclass(frozen=True, slots=True)
class Load:
    """The calls of one target."""

    under_way: int
    slow: bool

    @property
    def shared(self) -> int:
        """How many of the calls under way use the shared slots."""
        return self.under_way if self.slow else max(0, self.under_way - 1)


def allot(
    wanted: Iterable[tuple[str, int]],
    loads: dict[str, Load],
    most: int | None = None,
    shared: int | None = None,
) -> dict[str, int]:
    """Return how many calls each target may begin.

    Parameters
    ----------
    wanted
        Targets and the number of calls that each would like to begin, the one that waits longest first.
    loads
        The calls of every target that has some under way or wants some.
    """
    free = (MOST_CALLS if most is None else most) - sum(load.under_way for load in loads.values())
    free_shared = (SHARED_CALLS if shared is None else shared) - sum(load.shared for load in loads.values())
    left = {target: count for target, count in wanted if count > 0}
    given: dict[str, int] = {}
    for target in left:
        if free > 0 and loads[target].under_way == 0 and not loads[target].slow:
            given[target] = 1
            left[target] -= 1
            free -= 1
    while min(free, free_shared) > 0 and any(left.values()):
        for target in [target for target, count in left.items() if count > 0]:
            if min(free, free_shared) <= 0:
                break
            given[target] = given.get(target, 0) + 1
            left[target] -= 1
            free -= 1
            free_shared -= 1
    return given
