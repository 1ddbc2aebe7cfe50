"""When a message happened: as it says itself, as its transport says, or when it arrived."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.errors import QueryError
from twigcast.spark.sources.messages import TIME
from twigcast.spark.stages.outcome import ERROR

ARRIVAL, TRANSPORT = "arrival", "transport"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 10**11
"""A number from here on counts milliseconds: as seconds it would be in the year 5138."""
_NUMBER = re.compile(r"-?\d{1,18}(\.\d+)?")
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(Z|[+-]\d\d:?\d\d)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class EventTime:
    """Sets the time of messages; runs in a worker.

    ``rule`` is ``arrival``, ``transport`` (arrival where the transport has none) or a path in the message. A message
    without a readable time at that path is refused: any other time would be wrong.
    """

    rule: str = ARRIVAL
    namespaces: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raises a QueryError if the rule is a path that selects nothing."""
        if self.rule not in (ARRIVAL, TRANSPORT):
            try:
                _reader(self.rule, self.namespaces)
            except QueryError as error:
                error.hint = error.hint or 'a time is "arrival", "transport" or a path, such as "/*/@time"'
                raise

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            now = pa.scalar(datetime.now(UTC), TIME)
            times, errors = batch.column("time"), batch.column("error")
            if self.rule == ARRIVAL:
                times = pa.repeat(now, len(batch))
            else:
                times = times.fill_null(now) if times.null_count else times
                if self.rule != TRANSPORT:
                    times, errors = self._from_message(batch, times)
            place = batch.schema.get_field_index
            batch = batch.set_column(place("time"), "time", times)
            yield batch.set_column(place("error"), "error", errors)

    def _from_message(self, batch: pa.RecordBatch, otherwise: pa.Array) -> tuple[pa.Array, pa.Array]:
        engine = _reader(self.rule, self.namespaces)
        pair = pa.RecordBatch.from_arrays([batch.column("message"), batch.column("xml")], ["id", "xml"])
        answer = engine.select_batch(pair)
        # One subscription: a message has one match or none.
        times = otherwise.to_pylist()
        errors = batch.column("error").to_pylist()
        unreadable = pc.or_(answer.column("error").is_valid(), batch.column("xml").is_null()).to_pylist()
        for row, matches in enumerate(answer.column("matches").to_pylist()):
            if errors[row] is not None or unreadable[row]:
                continue  # refused anyway, for a better reason
            text = matches[0]["fragments"][0].decode() if matches and matches[0]["fragments"] else None
            time = None if text is None else parse_time(text)
            if time is None:
                why = f"there is nothing at {self.rule}" if text is None else f"{text[:100]!r} is not a time"
                errors[row] = {"code": "no-time", "line": None, "column": None, "offset": None, "text": why}
            else:
                times[row] = time
        return pa.array(times, TIME), pa.array(errors, ERROR)


def parse_time(text: str) -> datetime | None:
    """A date and time as XML Schema writes them (UTC if no zone is given), or a count of (milli)seconds since 1970."""
    text = re.sub(r"<[^>]*>", "", text).strip()
    try:
        if _NUMBER.fullmatch(text):
            number = float(text)
            return _EPOCH + timedelta(seconds=number / (1000 if abs(number) >= _MILLISECONDS else 1))
        found = _DATE_TIME.fullmatch(text)
        if not found:
            return None
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        micro = int((found[7] or "0")[:6].ljust(6, "0"))
        # 24:00:00 is the end of a day in XML Schema.
        midnight = (hour, minute, second, micro) == (24, 0, 0, 0)
        time = datetime(year, month, day, 0 if midnight else hour, minute, second, micro, _zone(found[8]))
        return time + timedelta(days=1) if midnight else time
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if not text or text in "Zz":
        return UTC
    shift = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-shift if text[0] == "-" else shift)


@lru_cache(maxsize=16)
def _reader(path: str, namespaces: tuple[tuple[str, str], ...]) -> Engine:
    engine = Engine(namespaces=dict(namespaces))
    engine.add(path, id="time", result="fragments")
    return engine
