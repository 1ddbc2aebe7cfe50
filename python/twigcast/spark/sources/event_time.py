"""The event time of messages: what the message says, what its transport says, or when it arrived.

Arrival is the time of the micro-batch that took the message in. It is written down with the micro-batch, so that one
that is repeated after a crash has the same times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.errors import QueryError
from twigcast.spark.sources.messages import TIME
from twigcast.spark.stages.outcome import ERROR
from twigcast.times import date_time

ARRIVAL, TRANSPORT = "arrival", "transport"
AHEAD, NO_TIME = "time-ahead", "no-time"
"""Why a message is refused: its time lies too far ahead of arrival, or it has none that can be read."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_MILLISECONDS = 10**11
"""A number from here on counts milliseconds: as seconds it would be in the year 5138."""
_NUMBER = re.compile(r"-?\d{1,18}(\.\d+)?", re.ASCII)


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

    def check(self) -> None:
        """Raise a QueryError if the rule is a path that selects nothing."""
        if self.rule not in (ARRIVAL, TRANSPORT):
            try:
                _reader(self.rule, self.namespaces)
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
        arrival = self.arrival if self.arrival is not None else (datetime.now(UTC) - _EPOCH) // _MICROSECOND
        return pa.repeat(pa.scalar(arrival, TIME), len(batch))

    def _from_message(self, batch: pa.RecordBatch, otherwise: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the times that the messages give; those of refused messages are ``otherwise``."""
        engine = _reader(self.rule, self.namespaces)
        pair = pa.RecordBatch.from_arrays([batch.column("message"), batch.column("xml")], ["id", "xml"])
        answer = engine.select_batch(pair)
        # One subscription: a message has one match or none.
        times = otherwise.cast(pa.int64()).to_pylist()
        errors = batch.column("error").to_pylist()
        unreadable = pc.or_(answer.column("error").is_valid(), batch.column("xml").is_null()).to_pylist()
        for row, matches in enumerate(answer.column("matches").to_pylist()):
            if errors[row] is not None or unreadable[row]:
                continue  # refused anyway, for a better reason
            text = matches[0]["fragments"][0].decode() if matches and matches[0]["fragments"] else None
            time = None if text is None else parse_time(text)
            if time is None:
                why = f"there is nothing at {self.rule}" if text is None else f"{text[:100]!r} is not a time"
                errors[row] = _error(NO_TIME, why)
            else:
                times[row] = (time - _EPOCH) // _MICROSECOND
        return pa.array(times, pa.int64()).cast(TIME), pa.array(errors, ERROR)

    def _bounded(self, times: pa.Array, errors: pa.Array, arrival: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Refuse messages whose time is out of range or too far ahead; they keep the time of their arrival."""
        counted, came = times.cast(pa.int64()), arrival.cast(pa.int64())
        outside = pc.or_(pc.less(counted, _EARLIEST), pc.greater(counted, _LATEST))
        # Compared by a bound, since a difference of two times can overflow.
        latest = came if self.max_ahead is None else pc.add(came, min(self.max_ahead, _LATEST))
        ahead = pc.greater(counted, _LATEST if self.max_ahead is None else latest)
        refused = pc.or_(outside, ahead)
        if not pc.any(refused).as_py():
            return times, errors
        rows = errors.to_pylist()
        for row, wrong in enumerate(refused.to_pylist()):
            if wrong and rows[row] is None:
                rows[row] = self._refusal(counted[row].as_py(), came[row].as_py())
        return pc.if_else(refused, arrival, times), pa.array(rows, ERROR)

    def _refusal(self, time: int, arrival: int) -> dict[str, object]:
        if time < _EARLIEST or (time > _LATEST and self.max_ahead is None):
            return _error(NO_TIME, f"the time {time} µs since 1970 is not within the years 1 to 9999")
        told = (_EPOCH + timedelta(microseconds=time)).isoformat() if time <= _LATEST else f"{time} µs since 1970"
        came = (_EPOCH + timedelta(microseconds=arrival)).isoformat()
        most = timedelta(microseconds=self.max_ahead or 0)
        return _error(AHEAD, f"the event time {told} is more than max_ahead ({most}) ahead of arrival, {came}")


def parse_time(text: str) -> datetime | None:
    """Return the time, in UTC, that a text gives, or None if it gives none within the years 1 to 9999.

    The text is a date and time (UTC if no zone is given), or a count of (milli)seconds since 1970.
    """
    text = re.sub(r"<[^>]*>", "", text).strip()
    try:
        if _NUMBER.fullmatch(text):
            number = float(text)
            return _EPOCH + timedelta(seconds=number / (1000 if abs(number) >= _MILLISECONDS else 1))
        found = date_time(text)
        return None if found is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=16)
def _reader(path: str, namespaces: tuple[tuple[str, str], ...]) -> Engine:
    engine = Engine(namespaces=dict(namespaces))
    engine.add(path, id="time", result="fragments")
    return engine


def _error(code: str, text: str) -> dict[str, object]:
    return {"code": code, "line": None, "column": None, "offset": None, "text": text}
