"""The event time of messages: what the message says, what its transport says, or when it arrived.

Arrival is the time of the micro-batch that took the message in. It is written down with the micro-batch, so that one
that is repeated after a crash has the same times.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import time_ns

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine, TextPath
from twigcast.errors import QueryError
from twigcast.rows import ERROR, ErrorRow, error_row
from twigcast.spark.sources.messages import TIME, UNREADABLE_TIME
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

    @property
    def path(self) -> TextPath | None:
        """The path to the time in messages; None if they are not read for it."""
        return None if self.rule in (ARRIVAL, TRANSPORT) else TextPath(self.rule, self.namespaces)

    def check(self) -> None:
        """Raise a QueryError if the rule is a path that selects nothing."""
        if self.path is not None:
            try:
                next(Engine().process_batches(_NOTHING, text=self.path))
            except QueryError as error:
                error.hint = error.hint or 'a time is "arrival", "transport" or a path, such as "/*/@time"'
                raise

    def begin(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Set the times that do not depend on what messages say. Return the batch, and when its messages arrived."""
        arrival = self._arrival(batch)
        if "arrival" in batch.schema.names:
            batch = batch.drop_columns(["arrival"])
        times = batch.column("time")
        if self.rule == ARRIVAL:
            return with_columns(batch, time=arrival), arrival
        if times.null_count:
            times = pc.coalesce(times, arrival)
        if self.rule != TRANSPORT:
            return with_columns(batch, time=times), arrival
        times, errors = self._bounded(times, batch.column("error"), arrival)
        return with_columns(batch, time=times, error=errors), arrival

    def finish(self, batch: pa.RecordBatch, texts: pa.Array, arrival: pa.Array) -> pa.RecordBatch:
        """Set each message's time from its text at the path. A refused message keeps its time."""
        if self.path is None:
            return batch
        times, errors = self._from_texts(batch.column("time"), batch.column("error"), texts)
        times, errors = self._bounded(times, errors, arrival)
        return with_columns(batch, time=times, error=errors)

    def _arrival(self, batch: pa.RecordBatch) -> pa.Array:
        if self.arrival is None and "arrival" in batch.schema.names:
            return batch.column("arrival").cast(TIME)
        arrival = self.arrival if self.arrival is not None else time_ns() // 1_000
        return pa.repeat(pa.scalar(arrival, TIME), len(batch))

    def _from_texts(self, otherwise: pa.Array, errors: pa.Array, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        times, refused = otherwise.cast(pa.int64()).to_pylist(), {}
        for row in pc.indices_nonzero(errors.is_null()).to_pylist():
            found = texts[row].as_py()
            text = None if found is None else found.decode()
            time = None if text is None else parse_time(text)
            if time is None:
                why = f"there is nothing at {self.rule}" if text is None else f"{text[:100]!r} is not a time"
                refused[row] = error_row(NO_TIME, why)
            else:
                times[row] = time
        return pa.array(times, pa.int64()).cast(TIME), with_errors(errors, refused)

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
        rows = pc.indices_nonzero(pc.and_(refused, errors.is_null())).to_pylist()
        found = {row: self._refusal(counted[row].as_py(), came[row].as_py()) for row in rows}
        return pc.if_else(refused, arrival, times), with_errors(errors, found)

    def _refusal(self, time: int, arrival: int) -> ErrorRow:
        if time == UNREADABLE_TIME:
            return error_row(NO_TIME, "what the column of times has is not a time")
        if time < EARLIEST or (time > LATEST and self.max_ahead is None):
            return error_row(NO_TIME, f"the time {time} µs since 1970 is not within the years 1 to 9999")
        when = to_datetime(time).isoformat() if time <= LATEST else f"{time} µs since 1970"
        came = to_datetime(arrival).isoformat()
        most = format_duration(self.max_ahead or 0)
        return error_row(AHEAD, f"the event time {when} is more than max_ahead ({most}) ahead of arrival, {came}")


def with_errors(errors: pa.Array, more: dict[int, ErrorRow]) -> pa.Array:
    """Return the errors with those of further rows."""
    if not more:
        return errors
    return pa.array([more.get(row, error) for row, error in enumerate(errors.to_pylist())], ERROR)


def with_columns(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    """Return the batch with these columns in place of its own."""
    for name, column in columns.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


_NOTHING = pa.RecordBatch.from_pydict({"id": pa.array([], pa.int64()), "xml": pa.array([], pa.binary())})
