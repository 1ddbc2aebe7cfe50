"""The event time of messages: what the message says, what its transport says, or when it arrived.

Arrival is the time of the micro-batch that took the message in. It is written down with the micro-batch, so that one
that is repeated after a crash has the same times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from time import time_ns

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.errors import QueryError
from twigcast.limits import Limits
from twigcast.rows import ERROR, ErrorRow, error_row
from twigcast.spark.sources.messages import TIME, UNREADABLE_TIME
from twigcast.transform.nodes import text_of
from twigcast.units import EARLIEST, LATEST, format_duration, parse_time, to_datetime

ARRIVAL, TRANSPORT = "arrival", "transport"
AHEAD, NO_TIME = "time-ahead", "no-time"
"""Why a message is refused: its time lies too far ahead of arrival, or it has none that can be read."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """Sets the time of messages; runs in a worker.

    A message is refused if its path leads to no readable time, since any other time would be wrong, and if its time is
    more than ``max_ahead`` ahead of its arrival, since it would make the messages of everybody else late.
    """

    rule: str = ARRIVAL
    """``arrival``, ``transport`` (arrival where the transport gives no time) or a path in the message."""
    namespaces: tuple[tuple[str, str], ...] = ()
    max_ahead: int | None = None
    """Microseconds. None: there is no bound."""
    arrival: int | None = None
    """Microseconds since 1970. None: the column ``arrival`` of the messages has it, or else it is now."""
    limits: Limits = Limits()  # noqa: RUF009 - immutable
    """Those that messages are matched under: a message that they allow has a time."""

    def check(self) -> None:
        """Raise a QueryError if the rule is a path that selects nothing."""
        if self.rule not in (ARRIVAL, TRANSPORT):
            try:
                _reader(self.rule, self.namespaces, self.limits)
            except QueryError as error:
                error.hint = error.hint or 'a time is "arrival", "transport" or a path, such as "/*/@time"'
                raise

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrival = self._arrival(batch)
            if "arrival" in batch.schema.names:
                batch = batch.drop_columns(["arrival"])
            times, errors = batch.column("time"), batch.column("error")
            if self.rule == ARRIVAL:
                times = arrival
            else:
                if times.null_count:
                    times = pc.coalesce(times, arrival)
                if self.rule != TRANSPORT:
                    times, errors = self._from_message(batch, times)
                times, errors = self._bounded(times, errors, arrival)
            place = batch.schema.get_field_index
            batch = batch.set_column(place("time"), "time", times)
            yield batch.set_column(place("error"), "error", errors)

    def _arrival(self, batch: pa.RecordBatch) -> pa.Array:
        if self.arrival is None and "arrival" in batch.schema.names:
            return batch.column("arrival").cast(TIME)
        arrival = self.arrival if self.arrival is not None else time_ns() // 1_000
        return pa.repeat(pa.scalar(arrival, TIME), len(batch))

    def _from_message(self, batch: pa.RecordBatch, otherwise: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the times that the messages give; those of refused messages are ``otherwise``."""
        engine = _reader(self.rule, self.namespaces, self.limits)
        pair = pa.RecordBatch.from_arrays([batch.column("message"), batch.column("xml")], ["id", "xml"])
        answer = engine.select_batch(pair)
        # One subscription: a message has one match or none.
        times = otherwise.cast(pa.int64()).to_pylist()
        errors = batch.column("error").to_pylist()
        unreadable = pc.or_(answer.column("error").is_valid(), batch.column("xml").is_null()).to_pylist()
        for row, matches in enumerate(answer.column("matches").to_pylist()):
            if errors[row] is not None or unreadable[row]:
                continue  # refused anyway, for a better reason
            text = text_of(matches[0]["fragments"][0]) if matches and matches[0]["fragments"] else None
            time = None if text is None else parse_time(text)
            if time is None:
                why = f"there is nothing at {self.rule}" if text is None else f"{text[:100]!r} is not a time"
                errors[row] = error_row(NO_TIME, why)
            else:
                times[row] = time
        return pa.array(times, pa.int64()).cast(TIME), pa.array(errors, ERROR)

    def _bounded(self, times: pa.Array, errors: pa.Array, arrival: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Refuse messages whose time is out of range or too far ahead; they keep the time of their arrival."""
        counted, came = times.cast(pa.int64()), arrival.cast(pa.int64())
        outside = pc.or_(pc.less(counted, EARLIEST), pc.greater(counted, LATEST))
        # Compared by a bound, since a difference of two times can overflow.
        latest = came if self.max_ahead is None else pc.add(came, min(self.max_ahead, LATEST))
        ahead = pc.greater(counted, LATEST if self.max_ahead is None else latest)
        refused = pc.or_(outside, ahead)
        if not pc.any(refused).as_py():
            return times, errors
        rows = errors.to_pylist()
        for row, wrong in enumerate(refused.to_pylist()):
            if wrong and rows[row] is None:
                rows[row] = self._refusal(counted[row].as_py(), came[row].as_py())
        return pc.if_else(refused, arrival, times), pa.array(rows, ERROR)

    def _refusal(self, time: int, arrival: int) -> ErrorRow:
        if time == UNREADABLE_TIME:
            return error_row(NO_TIME, "what the column of times has is not a time")
        if time < EARLIEST or (time > LATEST and self.max_ahead is None):
            return error_row(NO_TIME, f"the time {time} µs since 1970 is not within the years 1 to 9999")
        when = to_datetime(time).isoformat() if time <= LATEST else f"{time} µs since 1970"
        came = to_datetime(arrival).isoformat()
        most = format_duration(self.max_ahead or 0)
        return error_row(AHEAD, f"the event time {when} is more than max_ahead ({most}) ahead of arrival, {came}")


@lru_cache(maxsize=16)
def _reader(path: str, namespaces: tuple[tuple[str, str], ...], limits: Limits) -> Engine:
    """Return an engine that selects the node with the time. Of several nodes the first one counts."""
    engine = Engine(namespaces=dict(namespaces), limits=replace(limits.with_all_results(), max_result_nodes=1))
    engine.add(path, id="time", result="fragments")
    return engine
