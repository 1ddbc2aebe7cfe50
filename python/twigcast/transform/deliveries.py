"""What the transforms of an engine deliver: all that the kernel makes, and what it leaves to others.

- Transforms that no tree pattern decides are evaluated by libxml2, one by one, each within a bound.
- A message that the kernel's transforms refuse (nested beyond what their bit sets hold, or with too many matches), or
  that the kernel fails on, is evaluated node by node, for those transforms whose binding path and condition hold for
  it: a set of filters knows.
- A transform that cannot be evaluated on a message fails alone (``twigcast.failures``).
- ``deliver_empty``: who asked for that gets the empty outer element where nothing is bound (SEMANTICS 15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock
from typing import Any, Protocol, TypeVar

from twigcast import _kernel
from twigcast import rows as row_types
from twigcast.arrow import pa
from twigcast.constructor import Transform
from twigcast.errors import TwigcastError, excerpt
from twigcast.failures import FATAL, Failed, FailedRows, Failure
from twigcast.forking import refuse_if_forked_in_use
from twigcast.limits import Limits
from twigcast.plan.encode import NotEncodable
from twigcast.shares import BUDGET_BYTES, RESULT_BYTES, Sharing
from twigcast.transform import reference
from twigcast.transform.budget import PER_STEP, Budget, TooCostly
from twigcast.transform.engine import Made, Transforms, merged, merged_numbers, messages_of, row_of
from twigcast.transform.nodes import Message
from twigcast.transform.render import TooLong, render
from twigcast.transform.saved import Kept, Opening, saved
from twigcast.transform.templates import Prepared

FAILED = "transforms-failed"
# Codes of messages that the kernel's transforms refuse, or fail on, and that filters have no trouble with.
REFUSED = ("too-deep-to-transform", "too-much-to-transform", FAILED)
# All transforms of a message together may take so many times what one may.
_TOGETHER = 4


class Filters(Protocol):
    """An engine of filters."""

    def add(self, query: str, *, id: int) -> Any: ...

    def remove(self, id: int) -> None: ...

    def match(self, xml: bytes, *, failures: list[Failure]) -> Sequence[Any]: ...


@dataclass(slots=True)
class Row:
    """What is made of one message beside the kernel, and the transforms that failed on it."""

    made: list[Made]
    failed: list[Failed]


@dataclass(slots=True)
class _Payload:
    """A new message, as long as the message's budget is being shared."""

    number: int
    payload: bytes | None
    reason: str | None = None

    def size(self) -> int:
        """Return the bytes that it has."""
        return len(self.payload or b"")

    def cut(self, share: int) -> None:
        """Take it away if it is larger than a share."""
        if self.size() > share:
            self.payload, self.reason = None, BUDGET_BYTES


class Deliveries:
    """Transforms by number. ``transform_of`` parses one again; ``filters`` makes a set of filters."""

    def __init__(
        self, fast: Transforms, transform_of: Callable[[int], Transform], filters: Callable[[], Filters]
    ) -> None:
        self.fast = fast
        self._transform_of = transform_of
        self._make_filters = filters
        self._filters: Filters | None = None
        self._ungated: set[int] = set()
        """Transforms that the filters do not take: they are evaluated on every message that the kernel refuses."""
        self._slow: dict[int, Transform | None] = {}
        self._kept: dict[int, Kept] = {}
        self._empty: dict[int, bytes] = {}
        self._lock = RLock()  # held while the filters are made or changed
        refuse_if_forked_in_use(self, "_lock")
        # parsing costs far more than evaluation on a small message
        self._parsed = lru_cache(1024)(self._transform_of)

    def __len__(self) -> int:
        return len(self.fast) + len(self._slow)

    def add(self, number: int, prepared: Prepared, *, deliver_empty: bool = False) -> None:
        transform = prepared.transform
        with self._lock:
            if not self._add(number, prepared):
                self._slow[number] = transform
            elif self._filters is not None:
                self._add_filter(self._filters, number, transform)
        if deliver_empty:
            self._empty[number] = _empty(prepared) or _empty(Prepared(None, self._transform_of(number)))

    def _add(self, number: int, prepared: Prepared) -> bool:
        """Whether the kernel has taken it."""
        if prepared.encoded is not None:
            self.fast.put(number, prepared.encoded)
            self._kept[number] = Kept(prepared)
            return True
        if prepared.transform is None:
            return False
        try:
            self.fast.add(number, prepared.transform)
        except NotEncodable:
            return False
        return True

    def remove(self, number: int) -> None:
        self._empty.pop(number, None)
        self._parsed.cache_clear()  # the number may come to mean another
        if number in self._slow:
            del self._slow[number]
            return
        with self._lock:
            self.fast.remove(number)
            self._kept.pop(number, None)
            if number in self._ungated:
                self._ungated.remove(number)
            elif self._filters is not None:
                self._filters.remove(number)

    def saved(self) -> dict[int, dict[str, Any] | None]:
        """For a snapshot, what each is made of; None for those that the kernel did not take. Plans are made anew."""
        with self._lock:
            kept = {**dict.fromkeys(self._slow), **self._kept}
            return dict(saved(kept.items(), self.fast.codes))

    def opening(self) -> Opening:
        return Opening(self.fast.codes)

    # -- one message

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], list[Failed], _kernel.Error | None]:
        """Return the subscriptions that get something of a message and those that failed, or why it was refused."""
        numbers, error = _isolated(self.fast.match, xml, limits)
        refused = error is not None and error[0] in REFUSED
        if error is not None and not refused:
            return [], [], error
        row = self._beside(xml, limits, everything=refused)
        numbers += [made.number for made in row.made]
        return sorted({*numbers, *self._empty} - {one.number for one in row.failed}), row.failed, None

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], list[Failed], _kernel.Error | None]:
        """Do as ``match`` does, with what the subscriptions get. Equal payloads are one object."""
        made, error = _isolated(self.fast.make, xml, limits)
        refused = error is not None and error[0] in REFUSED
        if error is not None and not refused:
            return [], [], error
        row = self._beside(xml, limits, everything=refused)
        made += row.made
        made += self._empties([one.number for one in made], row)
        return made, row.failed, None

    def _empties(self, served: Iterable[int], row: Row) -> list[Made]:
        """Return the empty outer elements, for those who want them and were served nothing else."""
        if not self._empty:
            return []
        left = self._empty.keys() - served - {made.number for made in row.made} - {one.number for one in row.failed}
        return [Made(number, self._empty[number]) for number in sorted(left)]

    # -- columns

    def match_column(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, FailedRows]:
        """Return lists of numbers, ascending, and the failures by row. Messages that cannot be read match nothing."""
        try:
            matches, errors = self.fast.match_column(column, limits)
        except FATAL:
            raise
        except BaseException:
            return self._match_rows(column, limits)
        if not self._has_more(errors):
            return matches, {}
        more, failed = self._rows(column, matches, errors, limits)
        numbers = [[made.number for made in row] for row in more]
        return merged_numbers(matches, pa.array(numbers, row_types.MATCHES)), failed

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, FailedRows, int]:
        """Return lists of ``MADE`` from a row on until there are ``max_bytes``, failures, and the first row not done.

        The rows of failures count from ``start``.
        """
        try:
            lists, errors, end = self.fast.make_column(column, start, max_bytes, limits)
        except FATAL:
            raise
        except BaseException:
            return self._make_rows(column, start, max_bytes, limits)
        if not self._has_more(errors):
            return lists, {}, end
        numbers = pa.ListArray.from_arrays(lists.offsets, lists.flatten().field("subscription"))
        more, failed = self._rows(column.slice(start, end - start), numbers, errors, limits)
        rows = [[row_of(made) for made in row] for row in more]
        return merged(lists, pa.array(rows, pa.list_(row_types.MADE))), failed, end

    def _match_rows(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, FailedRows]:
        """Do as ``match_column`` does, message by message: the kernel has failed on one of them."""
        rows: list[list[int]] = []
        failed: FailedRows = {}
        for at, xml in enumerate(messages_of(column)):
            numbers, of_row, _ = self.match(xml, limits)
            rows.append(numbers)
            if of_row:
                failed[at] = of_row
        return pa.array(rows, row_types.MATCHES), failed

    def _make_rows(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, FailedRows, int]:
        """Do as ``make_column`` does, message by message: the kernel has failed on one of them."""
        rows: list[list[dict[str, Any]]] = []
        failed: FailedRows = {}
        size = 0
        for at, xml in enumerate(messages_of(column.slice(start))):
            made, of_row, _ = self.make(xml, limits)
            rows.append([row_of(one) for one in made])
            if of_row:
                failed[at] = of_row
            size += sum(8 + len(one.payload or b"") for one in made)
            if size >= max_bytes:
                break
        return pa.array(rows, pa.list_(row_types.MADE)), failed, start + len(rows)

    def _has_more(self, errors: pa.Array) -> bool:
        return bool(self._slow or self._empty) or errors.null_count < len(errors)

    def _rows(
        self, column: pa.Array, matches: pa.Array, errors: pa.Array, limits: Limits
    ) -> tuple[list[list[Made]], FailedRows]:
        """Return what is made beside the kernel, which found ``matches`` and ``errors``, and the failures."""
        texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        known = errors.to_pylist()
        served = matches.to_pylist() if self._empty else [[]] * len(known)
        found: list[list[Made]] = []
        failed: FailedRows = {}
        for at, (xml, error) in enumerate(zip(column.to_pylist(), known, strict=True)):
            refused = error is not None and error["code"] in REFUSED
            if xml is None or (error is not None and not refused):
                found.append([])
                continue
            row = self._beside(xml.encode() if texts else xml, limits, everything=refused)
            if row.failed:
                failed[at] = row.failed
            found.append(row.made + self._empties(served[at], row))
        return found, failed

    # -- what the kernel does not do

    def _beside(self, xml: bytes, limits: Limits, *, everything: bool) -> Row:
        """Evaluate the transforms beyond the kernel; with ``everything`` all, for a message that the kernel refused."""
        row = Row([], [])
        if not self._slow and not everything:
            return row
        numbers = [*(self._gated(xml, row) if everything else ()), *self._slow]
        if not numbers:
            return row
        try:
            message = Message(xml, limits)
        except FATAL:
            raise
        except BaseException as error:  # our reader takes more, such as nesting that is allowed by a setting
            text = excerpt(f"libxml2 cannot read the message: {error}")
            row.failed += [Failed(number, "message-refused", text) for number in numbers]
            return row
        most_visits = PER_STEP * limits.max_query_steps
        together = float(_TOGETHER * most_visits)
        shared = Sharing[_Payload](limits.max_message_result_bytes, _Payload.size, _Payload.cut)
        for number in numbers:
            budget = Budget(min(most_visits, together))
            before = budget.left
            most = min(limits.max_result_bytes, shared.share)
            made = self._try(number, message, most, budget, row)
            if made is not None and made.reason is not None and most < limits.max_result_bytes:
                made.reason = BUDGET_BYTES
            if made is not None:
                shared.add(made, beyond=made.reason == BUDGET_BYTES)
            together -= before - max(budget.left, 0)
        row.made += [Made(one.number, one.payload, one.reason) for one in shared.finish()]
        return row

    def _gated(self, xml: bytes, row: Row) -> list[int]:
        """Return the kernel's transforms to evaluate on a message; those that the filters fail on have failed."""
        failures: list[Failure] = []
        try:
            numbers = [*self._gate().match(xml, failures=failures), *self._ungated]
        except FATAL:
            raise
        except BaseException:  # no filter is known to hold or not to
            return self.fast.numbers()
        row.failed += [Failed.of(int(one.id), one.error) for one in failures]
        return numbers

    def _try(self, number: int, message: Message, most: int, budget: Budget, row: Row) -> _Payload | None:
        """Make the new message of one transform; None if it makes nothing, or failed."""
        try:
            transform = self._slow.get(number)
            if transform is None:
                transform = self._parsed(number)
                if number in self._slow:
                    self._slow[number] = transform
            groups = reference.groups(transform, message, budget=budget)
            payload = render(transform, groups, most=most, spend=budget.spend)
        except TooLong:
            return _Payload(number, None, RESULT_BYTES)
        except TooCostly:
            row.failed.append(Failed(number, "transform-too-costly", "it may take too long with this message"))
        except FATAL:
            raise
        except BaseException as error:
            if number in self:  # else it was removed meanwhile
                row.failed.append(Failed.of(number, error, "transform-refused"))
        else:
            return None if payload is None else _Payload(number, payload)
        return None

    def __contains__(self, number: int) -> bool:
        return number in self._slow or number in self.fast

    def _gate(self) -> Filters:
        """Return the kernel's transforms as filters, made once a message needs it."""
        with self._lock:
            if self._filters is None:
                made = self._make_filters()
                for number in self.fast.numbers():
                    self._add_filter(made, number)
                self._filters = made
            return self._filters

    def _add_filter(self, filters: Filters, number: int, transform: Transform | None = None) -> None:
        try:
            filters.add(as_filter(transform or self._transform_of(number)), id=number)
        except TwigcastError:
            self._ungated.add(number)


Result = TypeVar("Result")


def _isolated(
    ask: Callable[[bytes, Limits], tuple[list[Result], _kernel.Error | None]], xml: bytes, limits: Limits
) -> tuple[list[Result], _kernel.Error | None]:
    """Ask the kernel's transforms. A message that they fail on is refused, hence evaluated transform by transform."""
    try:
        return ask(xml, limits)
    except FATAL:
        raise
    except BaseException as error:
        return [], (FAILED, str(error), 1, 1, 0)


def as_filter(transform: Transform) -> str:
    """The filter that holds for the messages that the transform makes something of."""
    where = "" if transform.where is None else f"[{transform.where.text}]"
    return transform.binding.text + where


def _empty(prepared: Prepared) -> bytes:
    """What is made where nothing is bound."""
    if prepared.encoded is None:
        return b"" if prepared.transform is None else render(prepared.transform, [], deliver_empty=True) or b""
    _, before, _, after = prepared.encoded.making
    alone = before.count(b"<") == after.count(b"<") == 1 and before.endswith(b">") and after.startswith(b"</")
    return before[:-1] + b"/>" if alone else before + after
