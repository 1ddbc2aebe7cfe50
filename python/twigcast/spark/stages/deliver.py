"""Deliveries into the delivery log: workers write parts of it, the driver commits them.

``DeliverTask`` does in one pass all from the rows of a source to the deliveries of filters and transforms, and to what
correlations see of the messages.
``DeliverFound`` takes what correlations found: results to their subscribers, and published messages to the filters and
transforms that read their stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.correlate.default import TOO_MUCH
from twigcast.correlate.engine import PUBLISHED
from twigcast.delivery import REPORT, REPORT_SQL, Counts, Log, LogPart, LogWriter
from twigcast.rows import ERROR, refused_columns
from twigcast.spark.sources.event_time import EventTime, with_columns
from twigcast.spark.sources.messages import TIME, Load
from twigcast.spark.stages.archive import Archive, ArchivePart
from twigcast.spark.stages.correlate import DERIVED, FAILED, LATE, REFUSED, RESULT
from twigcast.spark.stages.outcome import Asked, Outcome, outcomes, payloads
from twigcast.spark.stages.preload import preloading
from twigcast.spark.stages.seeing import Seeing
from twigcast.spark.stages.validity import ANYTHING, Reading, Validity
from twigcast.spark.workers import TRAITS, Held, Snapshot, held_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twigcast.spark.live import Published

MATCHES_AT_ONCE = 1 << 18
"""Matches held at one time, roughly: each becomes a delivery of some hundred bytes."""


@dataclass(frozen=True, slots=True)
class DeliverTask:
    """Load, date, match, write. Pickled with each task, hence small: the engine is named, not carried."""

    load: Load
    time: EventTime
    stream: str
    version: Snapshot
    writer: LogWriter
    archive: Archive | None = None
    first: bool = True
    """The first shard's task: the one that counts the messages, keeps the refused ones, and the archive."""
    validity: Validity = ANYTHING
    again: bool = False
    """The messages have been through before: those that are refused are in the dead letter already."""
    seeing: Seeing | None = None
    """The correlations, if there are some, that are to see the messages."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = held_at(self.version)
        with self.writer.part() as part:
            if self.archive is not None and self.first:
                with self.archive.part() as kept:
                    self._match(batches, held, part, kept)
                archived = kept.name
            else:
                self._match(batches, held, part)
                archived = None
        report = part.report
        if not self.first:
            # Every shard sees every message.
            report |= {"messages": 0, "bytes": 0, "rejects": 0, "dead_file": None}
        if any(report.values()):
            row = {**report, "archive_file": archived}
            yield pa.RecordBatch.from_pylist([row], schema=TASK_REPORT)

    def for_shard(self, number: int, version: Snapshot) -> DeliverTask:
        return replace(self, version=version, first=number == 0, seeing=self.seeing if number == 0 else None)

    def _match(
        self, batches: Iterable[pa.RecordBatch], held: Held, part: LogPart, kept: ArchivePart | None = None
    ) -> None:
        reading = Reading(self.load, self.time, self.validity)
        streams = None if self.seeing is None else self.seeing.streams(held)
        asked = Asked(held.engine, self.version.selects, streams=streams, at_once=MATCHES_AT_ONCE)
        for messages, outcome in reading(batches, asked):
            if kept is not None:
                kept.keep(messages)
            rejected = outcome.rejected
            if rejected is not None and self.first and not self.again:
                part.reject(_dead(messages, rejected))
            failing = outcome.failing
            if failing is not None:
                write_failures(messages, failing, held, self.stream, part)
            self._write(messages, outcome, held, part)

    def _write(self, messages: pa.RecordBatch, outcome: Outcome, held: Held, part: LogPart) -> None:
        matches, errors, witnesses = outcome.matches, outcome.errors, outcome.witnesses
        if errors.null_count < len(errors):
            good = errors.is_null()
            matches, messages, witnesses = matches.filter(good), messages.filter(good), witnesses.filter(good)
        if self.seeing is not None:
            xml = pc.if_else(witnesses.is_valid(), messages.column("xml"), None)
            part.see(with_columns(messages, xml=xml).append_column("witness", witnesses))
        part.write(messages, deliveries_of(matches.value_parent_indices(), matches.flatten(), held, self.stream))


TASK_REPORT = REPORT.append(pa.field("archive_file", pa.string()))
TASK_REPORT_SQL = f"{REPORT_SQL}, archive_file string"
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


def _dead(batch: pa.RecordBatch, rejected: Outcome) -> pa.RecordBatch:
    messages = batch.take(rejected.ids)
    columns = {name: messages.column(name) for name in ("message", "time", "headers")}
    columns |= refused_columns(rejected.errors)
    return pa.RecordBatch.from_pydict({**columns, "original": messages.column("xml")})


def commit_batch(frame: DataFrame, task: DeliverTask, published: Published, log: Log, batch: int) -> Counts:
    """Match the rows of ``frame``, which ``task`` knows how to load, against one version, and commit what was found.

    With several shards every one of them sees every message: memory for time.
    """
    # Of several shards a machine is to hold no more than its workers are busy with.
    shared = published.shards[0].base.engine if len(published.shards) == 1 else None
    with preloading(frame.sparkSession.sparkContext, shared):
        parts = [
            frame.mapInArrow(task.for_shard(number, version), TASK_REPORT_SQL)
            for number, version in enumerate(published.shards)
        ]
    every = parts[0]
    for part in parts[1:]:
        every = every.unionAll(part)
    reports: Sequence[dict[str, object]] = [row.asDict() for row in every.collect()]
    if task.archive is not None:
        task.archive.commit(batch, [str(r["archive_file"]) for r in reports if r["archive_file"]])
    return log.commit(batch, published.version, reports)


@dataclass(frozen=True, slots=True)
class DeliverFound:
    """Writes rows of ``FOUND`` to a part of the delivery log. It is pickled with each task."""

    writer: LogWriter
    traits: Mapping[str, tuple[str | None, int | None]]
    """Subscriber and longest delay of each correlation."""
    shards: tuple[Snapshot, ...]
    """The filters and transforms."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.writer.part() as part:
            for batch in batches:
                kinds = batch.column("kind")
                self._results(batch.filter(pc.equal(kinds, RESULT)), part)
                self._dead(batch.filter(pc.equal(kinds, LATE)), "late", part)
                self._dead(batch.filter(pc.equal(kinds, REFUSED)), TOO_MUCH, part)
                self._derived(batch.filter(pc.equal(kinds, DERIVED)), part)
                self._failed(batch.filter(pc.equal(kinds, FAILED)), part)
        if any(part.report.values()):
            yield pa.RecordBatch.from_pylist([part.report], schema=REPORT)

    def _results(self, rows: pa.RecordBatch, part: LogPart) -> None:
        if not len(rows):
            return
        ids = rows.column("subscription").to_pylist()
        known = [self.traits.get(id, (None, None)) for id in ids]
        columns = [
            pa.array(range(len(rows)), pa.int32()),
            rows.column("subscription"),
            pa.array([subscriber for subscriber, _ in known], pa.string()),
            rows.column("payload"),
            pa.array([delay for _, delay in known], pa.int64()),
        ]
        part.write(_messages(rows), pa.RecordBatch.from_arrays(columns, schema=DELIVERIES))

    def _dead(self, rows: pa.RecordBatch, reason: str, part: LogPart) -> None:
        if len(rows):
            reasons = pa.repeat(pa.scalar(reason), len(rows))
            columns = {"message": rows.column("message"), "time": _times(rows), "reason": reasons}
            part.reject(pa.RecordBatch.from_pydict(columns))

    def _failed(self, rows: pa.RecordBatch, part: LogPart) -> None:
        """Write the failures of correlations: ``subscription``, ``message``, ``time``, ``reason`` and ``text``."""
        if len(rows):
            columns = {name: rows.column(name) for name in ("subscription", "reason", "text", "message")}
            ids = columns["subscription"].to_pylist()
            columns["subscriber"] = pa.array([self.traits.get(id, (None, None))[0] for id in ids], pa.string())
            part.fail(pa.RecordBatch.from_pydict({**columns, "time": _times(rows)}))

    def _unreadable(self, rows: pa.RecordBatch, rejected: Outcome, part: LogPart) -> None:
        """Write a failure of the correlation that published a message which cannot be read."""
        failed = rows.take(rejected.ids)
        reasons = pa.repeat(pa.scalar(PUBLISHED), len(failed))
        names = [*failed.schema.names]
        columns = [reasons if name == "reason" else failed.column(name) for name in names]
        columns[names.index("text")] = rejected.errors.field("text")
        self._failed(pa.RecordBatch.from_arrays(columns, names), part)

    def _derived(self, rows: pa.RecordBatch, part: LogPart) -> None:
        if not len(rows):
            return
        for stream in rows.column("stream").unique().to_pylist():
            of_stream = rows.filter(pc.equal(rows.column("stream"), stream))
            messages = _messages(of_stream)
            places = pa.array(range(len(messages)), pa.int32())
            columns = [places, messages.column("xml"), pa.nulls(len(messages), ERROR)]
            some = pa.RecordBatch.from_arrays(columns, ["id", "xml", "error"])
            for version in self.shards:
                held = held_at(version)
                for outcome in outcomes([some], Asked(held.engine, version.selects, at_once=MATCHES_AT_ONCE)):
                    rows_of, found = outcome.matches.value_parent_indices(), outcome.matches.flatten()
                    own = _reading(found, held, stream)
                    deliveries = deliveries_of(rows_of.filter(own), found.filter(own), held, stream)
                    if len(deliveries):
                        part.write(messages.take(outcome.ids), deliveries)
                    if outcome.failing is not None:
                        write_failures(messages, outcome.failing, held, stream, part, derived=True)
                    if outcome.rejected is not None:
                        self._unreadable(of_stream, outcome.rejected, part)


def _reading(found: pa.Array, held: Held, stream: str) -> pa.Array:
    """Only subscriptions that name the stream read what correlations publish."""
    numbers = found.field("subscription") if pa.types.is_struct(found.type) else found
    return pc.equal(held.traits.take("stream", numbers), stream).fill_null(False)


def _times(rows: pa.RecordBatch) -> pa.Array:
    return rows.column("time").cast(TIME)


def _messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"message": rows.column("message"), "time": _times(rows), "xml": rows.column("payload")}
    )
