"""Transforms that the kernel does not evaluate: those that no tree pattern decides.

libxml2 evaluates them, one by one, each within a bound. One that cannot be evaluated on a message fails alone
(``twigcast.failures``). Who asked for ``deliver_empty`` gets the empty outer element where nothing is bound
(SEMANTICS 15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from twigcast.arrow import pa
from twigcast.constructor import Transform
from twigcast.errors import excerpt
from twigcast.failures import FATAL, Failed, FailedRows
from twigcast.limits import Limits
from twigcast.shares import BUDGET_BYTES, RESULT_BYTES, Result, Sharing
from twigcast.transform import reference
from twigcast.transform.budget import PER_STEP, Budget, TooCostly
from twigcast.transform.nodes import Message
from twigcast.transform.render import TooLong, render

# All transforms of a message together may take so many times what one may.
_TOGETHER = 4


@dataclass(slots=True)
class Made:
    """The new message that a subscription gets of a message, or the reason why it does not get it."""

    number: int
    payload: bytes | None
    reason: str | None = None

    @property
    def result(self) -> Result:
        """What the subscription gets."""
        return None, None, self.reason is None, self.payload, self.reason

    def size(self) -> int:
        """Return the bytes that it has."""
        return len(self.payload or b"")

    def cut(self, share: int) -> None:
        """Take it away if it is larger than a share."""
        if self.size() > share:
            self.payload, self.reason = None, BUDGET_BYTES


@dataclass(slots=True)
class Row:
    """What is made of one message, and the transforms that failed on it."""

    made: list[Made] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


class Deliveries:
    """Transforms by number. ``transform_of`` parses one again."""

    def __init__(self, transform_of: Callable[[int], Transform]) -> None:
        self._transforms: dict[int, Transform | None] = {}
        self._empty: dict[int, bytes] = {}
        # parsing costs far more than evaluation on a small message
        self._parsed = lru_cache(1024)(transform_of)

    def __len__(self) -> int:
        return len(self._transforms)

    def __contains__(self, number: int) -> bool:
        return number in self._transforms

    def add(self, number: int, transform: Transform | None, *, deliver_empty: bool = False) -> None:
        """Add a transform; None for one that is parsed when it is first needed."""
        self._transforms[number] = transform
        if deliver_empty:
            self._empty[number] = render(transform or self._parsed(number), [], deliver_empty=True) or b""

    def remove(self, number: int) -> None:
        """Remove a transform, if it is here."""
        self._parsed.cache_clear()  # the number may come to mean another
        self._transforms.pop(number, None)
        self._empty.pop(number, None)

    def make(self, xml: bytes, limits: Limits) -> Row:
        """Return what is made of a message that can be read."""
        row = Row()
        if self._transforms:
            self._evaluate(list(self._transforms), xml, limits, row)
            left = self._empty.keys() - {made.number for made in row.made} - {one.number for one in row.failed}
            row.made += [Made(number, self._empty[number]) for number in sorted(left)]
        return row

    def make_column(self, column: pa.Array, errors: pa.Array, limits: Limits) -> tuple[list[list[Made]], FailedRows]:
        """Return what is made of the messages of a column, but for those with an error, and the failures by row."""
        made: list[list[Made]] = []
        failed: FailedRows = {}
        for at, xml in enumerate(messages_of(column)):
            row = Row() if errors[at].is_valid else self.make(xml, limits)
            made.append(row.made)
            if row.failed:
                failed[at] = row.failed
        return made, failed

    def _evaluate(self, numbers: Iterable[int], xml: bytes, limits: Limits, row: Row) -> None:
        """Evaluate some of the transforms on a message."""
        try:
            message = Message(xml, limits)
        except FATAL:
            raise
        except BaseException as error:  # our reader takes more, such as nesting that is allowed by a setting
            text = excerpt(f"libxml2 cannot read the message: {error}")
            row.failed += [Failed(number, "message-refused", text) for number in numbers]
            return
        most_visits = PER_STEP * limits.max_query_steps
        together = float(_TOGETHER * most_visits)
        shared = Sharing[Made](limits.max_message_result_bytes, Made.size, Made.cut)
        for number in numbers:
            budget = Budget(min(most_visits, together))
            before = budget.left
            most = min(limits.max_result_bytes, shared.share)
            made = self._try(number, message, most, budget, row, limits)
            if made is not None and made.reason is not None and most < limits.max_result_bytes:
                made.reason = BUDGET_BYTES
            if made is not None:
                shared.add(made, beyond=made.reason == BUDGET_BYTES)
            together -= before - max(budget.left, 0)
        row.made += shared.finish()

    def _try(self, number: int, message: Message, most: int, budget: Budget, row: Row, limits: Limits) -> Made | None:
        """Make the new message of one transform; None if it makes nothing, or failed."""
        try:
            transform = self._transforms.get(number)
            if transform is None:
                transform = self._parsed(number)
                if number in self._transforms:
                    self._transforms[number] = transform
            groups = reference.groups(transform, message, budget=budget)
            payload = render(transform, groups, most=most, spend=budget.spend)
        except TooLong:
            return Made(number, None, RESULT_BYTES)
        except TooCostly:
            row.failed.append(Failed.exceeded(number, "work", limits))
        except FATAL:
            raise
        except BaseException as error:
            if number in self:  # else it was removed meanwhile
                row.failed.append(Failed.of(number, error, "transform-refused"))
        else:
            return None if payload is None else Made(number, payload)
        return None


def messages_of(column: pa.Array) -> Iterator[bytes]:
    """Yield the messages of a column as bytes; a null message becomes empty bytes."""
    for xml in column.to_pylist():
        yield xml.encode() if isinstance(xml, str) else xml or b""
