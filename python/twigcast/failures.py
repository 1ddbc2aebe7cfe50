"""Failures of single subscriptions: an exception while one is evaluated is its own, and the others get their matches.

Imports: errors, ids, limits, rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from twigcast import rows as row_types
from twigcast.arrow import pa, pc
from twigcast.errors import SubscriptionError, TwigcastError, excerpt
from twigcast.ids import SubscriptionId
from twigcast.limits import Limits
from twigcast.shown import shown

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
