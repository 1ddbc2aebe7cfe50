"""What correlations found, into the delivery log: results to their subscribers, and published messages to the filters
and transforms that read their stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.correlate.default import TOO_MUCH
from twigcast.correlate.engine import PUBLISHED
from twigcast.delivery import REPORT, LogPart, LogWriter
from twigcast.rows import ERROR
from twigcast.spark.sources.messages import TIME
from twigcast.spark.stages.correlate import DERIVED, FAILED, LATE, REFUSED, RESULT
from twigcast.spark.stages.deliver import DELIVERIES, MATCHES_AT_ONCE, deliveries_of, write_failures
from twigcast.spark.stages.live import Held, Version, held_at
from twigcast.spark.stages.outcome import Outcome, outcomes


@dataclass(frozen=True, slots=True)
class DeliverFound:
    """Rows of ``FOUND`` in, a part of the log out. Pickled with each task."""

    writer: LogWriter
    traits: Mapping[str, tuple[str | None, int | None]]
    """Subscriber and longest delay of each correlation."""
    shards: tuple[Version, ...]
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
            some = _messages(of_stream)
            places = pa.array(range(len(some)), pa.int32())
            columns = [places, some.column("xml"), pa.nulls(len(some), ERROR)]
            asked = pa.RecordBatch.from_arrays(columns, ["id", "xml", "error"])
            for version in self.shards:
                held = held_at(version)
                for outcome in outcomes([asked], held.engine, select=version.selects, at_once=MATCHES_AT_ONCE):
                    rows_of, found = outcome.matches.value_parent_indices(), outcome.matches.flatten()
                    own = _reading(found, held, stream)
                    deliveries = deliveries_of(rows_of.filter(own), found.filter(own), held, stream)
                    if len(deliveries):
                        part.write(some.take(outcome.ids), deliveries)
                    if outcome.failing is not None:
                        write_failures(some, outcome.failing, held, stream, part, derived=True)
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
