"""When a subscription that keeps failing is paused: one rule for the broker in a process and for pipelines.

Imports: errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from twigcast.errors import OptionError

AFTER = 100
WITHIN = 1000
UNCOUNTED = frozenset(("too-much-to-correlate", "message-refused"))
"""Codes of failures that are the message's doing: they hit many subscriptions at once and pause none."""


class Streak(NamedTuple):
    """Recent failures of a subscription: how many, and how many messages had been matched before the first of them."""

    failures: int
    since: int


@dataclass(frozen=True, slots=True)
class PauseRule:
    """Pause a subscription that fails on at least ``after`` of ``within`` messages in succession.

    Single failures far apart, such as on the few messages that are very large, pause nothing. ``after = 0``: never.
    """

    after: int = AFTER
    within: int = WITHIN

    def __post_init__(self) -> None:
        for name, least in (("after", 0), ("within", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
                text = f"pause_{name} must be a whole number of at least {least}, not {value!r}"
                raise OptionError("bad-pause", text)
        if self.after > self.within:
            text = f"pause_after ({self.after}) must not be greater than pause_within ({self.within})"
            raise OptionError("bad-pause", text, hint="a subscription fails at most once on a message")

    def count(self, known: Streak | None, failures: int, before: int, messages: int = 1) -> Streak:
        """Return the streak with ``failures`` on some of the ``messages`` that followed the ``before`` earlier ones."""
        fresh = Streak(failures, before)
        if known is None:
            return fresh
        grown = Streak(known.failures + failures, known.since)
        seen = before + messages - grown.since
        return grown if seen <= self.within or self._is_frequent(grown, seen) else fresh

    def pauses(self, streak: Streak, now: int) -> bool:
        """Return whether a subscription with this streak is to be paused after ``now`` messages."""
        return 0 < self.after <= streak.failures and self._is_frequent(streak, now - streak.since)

    def _is_frequent(self, streak: Streak, seen: int) -> bool:
        return streak.failures * self.within >= self.after * seen


def pause_reason(streak: Streak, now: int, code: str, text: str) -> str:
    """Return why a subscription was paused, for people."""
    return f"failed on {streak.failures:,} of {max(now - streak.since, streak.failures):,} messages: {code}: {text}"
