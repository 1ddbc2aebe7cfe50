"""Pauses after failures.

A circuit breaker: a target that fails again and again is left alone for a while, then tried with one call.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Breaker:
    failures: int
    """So many in a row open it."""
    pause: float
    """Seconds."""
    count: int = 0
    until: float = 0.0
    """When the next call may be made; in the past if nothing is wrong."""

    def room(self, now: float, limit: int, busy: int) -> int:
        """How many more calls may begin."""
        if now < self.until:
            return 0
        return (limit if self.count < self.failures else 1) - busy

    def succeeded(self) -> None:
        self.count = 0
        self.until = 0.0

    def failed(self, now: float) -> None:
        self.count += 1
        if self.count >= self.failures:
            self.until = now + self.pause

    def wait(self, until: float) -> None:
        """Pause until then, as the target has asked."""
        self.until = max(self.until, until)

    @property
    def open(self) -> bool:
        return self.count >= self.failures


def retry_pause(attempts: int, first: float, most: float) -> float:
    """Return the seconds to wait after so many failures in a row: twice as long each time, up to ``most``.

    What failed together does not come back together: up to half of it is taken off by chance.
    """
    return min(most, first * 2.0 ** min(attempts - 1, 30)) * random.uniform(0.5, 1.0)
