"""Failures of single subscriptions: an exception while one is evaluated is its own, and the others get their matches.

A subscription that keeps failing is paused, by one rule for the broker in a process and for pipelines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from twigcast import rows as row_types
from twigcast.common.arrow import pa, pc
from twigcast.common.text import shown
from twigcast.errors import OptionError, SubscriptionError, TwigcastError, excerpt
from twigcast.limits import Limits
from twigcast.subscription import SubscriptionId

TOO_COSTLY = "query-too-costly"
"""The code of a query beyond tree patterns that took more steps or bytes on a message than the limits allow."""

FATAL = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end the process or a generator; every other one, a panic of the kernel too, is a failure."""
MAX_TEXT = 500
"""Characters of the text of a failure: a query may be long, and every message may fail."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A subscription that could not be evaluated on a message. The others were."""

    id: SubscriptionId
    error: SubscriptionError

    __repr__ = shown


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure inside an engine, where a subscription is a number."""

    number: int
    code: str
    text: str

    @classmethod
    def of(cls, number: int, error: BaseException, code: str = "subscription-failed") -> Failed:
        """Return the failure for an exception. ``code`` is for exceptions that are not Twigcast's own."""
        if isinstance(error, TwigcastError):
            return cls(number, error.code, excerpt(error.text, MAX_TEXT))
        said = str(error)
        text = f"{type(error).__name__}: {said}" if said else type(error).__name__
        return cls(number, code, excerpt(text, MAX_TEXT))

    @classmethod
    def exceeded(cls, number: int, what: str, limits: Limits) -> Failed:
        """Return the failure of a query that took too many ``steps`` or ``bytes``, or a transform too much ``work``."""
        if what == "work":
            return cls(number, "transform-too-costly", "it may take too long with this message")
        limit = f"max_query_{what}"
        text = f"the query took more than {getattr(limits, limit):,} {what} on this message"
        return cls(number, TOO_COSTLY, f"{text} ({limit}); simplify it or raise the limit")

    @property
    def error(self) -> SubscriptionError:
        return SubscriptionError(self.code, self.text)


FailedRows: TypeAlias = dict[int, list[Failed]]
"""Failures by row of a batch; rows without any are not in it."""


def exceeded_rows(rows: Iterable[tuple[int, list[tuple[int, str]]]], limits: Limits) -> FailedRows:
    """Return the kernel's failures by row: of each subscription, its number and what it took too much of."""
    return {row: [Failed.exceeded(number, what, limits) for number, what in failed] for row, failed in rows}


def failures_column(length: int, rows: FailedRows) -> pa.Array:
    """Return the failures of a batch of ``length`` rows as a column of ``FAILURES``."""
    if not rows:
        return pa.nulls(length, row_types.FAILURES)
    given = [rows.get(row) for row in range(length)]
    every = [one for failed in given if failed for one in failed]
    columns = [
        pa.array([one.number for one in every], pa.uint32()),
        pa.array([one.code for one in every], pa.string()).dictionary_encode(),
        pa.array([one.text for one in every], pa.large_string()).dictionary_encode().cast(row_types.WORDS),
    ]
    offsets = [0, *accumulate(len(failed or ()) for failed in given)]
    found = pa.StructArray.from_arrays(columns, fields=list(row_types.FAILURE))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found, type=row_types.FAILURES)
    return pc.if_else(pa.array([bool(failed) for failed in given]), lists, pa.scalar(None, row_types.FAILURES))


class Tally:
    """Failures counted by subscription and reason, so that a report does not grow with the messages."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Any, str], dict[str, Any]] = {}
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, subscription: Any, reason: str, text: str, message: Any, **more: Any) -> None:
        """Count one failure; what is kept beside the count is of the last one, and the first message."""
        row = self._rows.setdefault((subscription, reason), {"count": 0, "first_message": message})
        row |= {"subscription": subscription, "reason": reason, "text": text, "last_message": message, **more}
        row["count"] += 1
        self.count += 1

    @property
    def rows(self) -> list[dict[str, Any]]:
        """``subscription``, ``reason``, ``count``, ``text``, ``first_message``, ``last_message``, and more."""
        return list(self._rows.values())


# -- pausing


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
