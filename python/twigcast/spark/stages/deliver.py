"""Messages to deliveries: what a worker does in one pass, from the source's rows to a part of the delivery log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.delivery import REPORT, LogPart, LogWriter
from twigcast.rows import refused_columns
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import Load
from twigcast.spark.stages.archive import Archive
from twigcast.spark.stages.live import TRAITS, Held, Version, held_at
from twigcast.spark.stages.outcome import Outcome, outcomes
from twigcast.spark.stages.payload import payloads
from twigcast.spark.stages.validity import ANYTHING, Validity

MATCHES_AT_ONCE = 1 << 18
"""Matches held at one time, roughly: each becomes a delivery of some hundred bytes."""


@dataclass(frozen=True, slots=True)
class DeliverTask:
    """Load, date, match, write. Pickled with each task, hence small: the engine is named, not carried."""

    load: Load
    time: EventTime
    stream: str
    version: Version
    writer: LogWriter
    archive: Archive | None = None
    first: bool = True
    """The first shard's task: the one that counts the messages, keeps the refused ones, and the archive."""
    validity: Validity = ANYTHING
    again: bool = False
    """The messages have been through before: those that are refused are in the dead letter already."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = held_at(self.version)
        with self.writer.part() as part:
            messages = self.validity(self.time(self.load(batches)))
            if self.archive is not None and self.first:
                with self.archive.part() as kept:
                    self._match(kept.passing(messages), held, part)
                archived = kept.name
            else:
                self._match(messages, held, part)
                archived = None
        report = part.report
        if not self.first:
            # Every shard sees every message.
            report |= {"messages": 0, "bytes": 0, "rejects": 0, "dead_file": None}
        if any(report.values()):
            row = {**report, "archive_file": archived}
            yield pa.RecordBatch.from_pylist([row], schema=TASK_REPORT)

    def for_shard(self, number: int, version: Version) -> DeliverTask:
        return replace(self, version=version, first=number == 0)

    def _match(self, messages: Iterable[pa.RecordBatch], held: Held, part: LogPart) -> None:
        for batch in messages:
            asked = outcomes(_with_rows(batch), held.engine, select=self.version.selects, at_once=MATCHES_AT_ONCE)
            for outcome in asked:
                rejected = outcome.rejected
                if rejected is not None and self.first and not self.again:
                    part.reject(_dead(batch, rejected))
                failing = outcome.failing
                if failing is not None:
                    write_failures(batch, failing, held, self.stream, part)
                self._write(batch, outcome, held, part)

    def _write(self, batch: pa.RecordBatch, outcome: Outcome, held: Held, part: LogPart) -> None:
        matches = outcome.matches
        if outcome.errors.null_count == len(outcome.errors) and len(batch) == len(outcome.ids):
            part.write(batch, deliveries_of(matches.value_parent_indices(), matches.flatten(), held, self.stream))
            return
        good = outcome.errors.is_null()
        matches = matches.filter(good)
        deliveries = deliveries_of(matches.value_parent_indices(), matches.flatten(), held, self.stream)
        part.write(batch.take(outcome.ids.filter(good)), deliveries)


TASK_REPORT = REPORT.append(pa.field("archive_file", pa.string()))
DELIVERIES = pa.schema(
    [
        ("row", pa.int32()),
        ("subscription", pa.string()),
        ("subscriber", pa.string()),
        ("payload", pa.binary()),
        ("max_delay", pa.int64()),
    ]
)
KEYED = DELIVERIES.append(pa.field("key", pa.string()))


def deliveries_of(rows: pa.Array, found: pa.Array, held: Held, stream: str) -> pa.RecordBatch:
    """Matches (numbers, or what ``Engine.select_batch`` has) as deliveries; those of other streams fall out."""
    numbers = found.field("subscription") if pa.types.is_struct(found.type) else found
    payload = payloads(found) if pa.types.is_struct(found.type) else pa.nulls(len(found), pa.binary())
    of = {name: held.traits.take(name, numbers) for name in TRAITS.names}
    only = of["stream"]
    arrays = [rows.cast(pa.int32()), of["subscription"], of["subscriber"], payload, of["max_delay"], of["key"]]
    deliveries = pa.RecordBatch.from_arrays(arrays, schema=KEYED)
    if only.null_count == len(only):
        return deliveries
    return deliveries.filter(pc.or_(only.is_null(), pc.equal(only, stream).fill_null(False)))


def write_failures(
    messages: pa.RecordBatch, failing: Outcome, held: Held, stream: str, part: LogPart, *, derived: bool = False
) -> None:
    """Write the failures on some messages, by row, to the log; those of subscriptions to other streams fall out.

    ``derived``: a correlation published the messages, and only subscriptions that name the stream read them.
    """
    failures = failing.failures
    rows, found = failing.ids.take(failures.value_parent_indices()), failures.flatten()
    numbers = found.field("subscription")
    only = held.traits.take("stream", numbers)
    own = pc.equal(only, stream).fill_null(not derived)
    columns = {
        "subscription": held.traits.take("subscription", numbers),
        "subscriber": held.traits.take("subscriber", numbers),
        "reason": found.field("code").cast(pa.string()),
        "text": found.field("text").cast(pa.string()),
        "message": messages.column("message").take(rows),
        "time": messages.column("time").take(rows),
    }
    part.fail(pa.RecordBatch.from_pydict(columns).filter(own))


def _with_rows(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """The engine is asked by row: the other columns of a message are found again by it."""
    rows = pa.array(range(len(batch)), pa.int32())
    yield pa.RecordBatch.from_arrays([rows, batch.column("xml"), batch.column("error")], ["id", "xml", "error"])


def _dead(batch: pa.RecordBatch, rejected: Outcome) -> pa.RecordBatch:
    messages = batch.take(rejected.ids)
    columns = {name: messages.column(name) for name in ("message", "time", "headers")}
    columns |= refused_columns(rejected.errors)
    return pa.RecordBatch.from_pydict({**columns, "original": messages.column("xml")})
