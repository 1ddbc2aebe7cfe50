"""The worker's side of the delivery log: one part per task attempt, written in bounded memory, column by column."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twigcast.delivery.ids import delivery_ids
from twigcast.delivery.log import KINDS, Counts
from twigcast.engine.failures import Tally

TIME = pa.timestamp("us", tz="UTC")
MESSAGES = pa.schema(
    [
        ("message", pa.string()),
        ("stream", pa.string()),
        ("time", TIME),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("xml", pa.binary()),
    ]
)
DELIVERIES = pa.schema(
    [
        ("delivery", pa.string()),
        ("row", pa.int32()),
        ("subscription", pa.string()),
        ("subscriber", pa.string()),
        ("payload", pa.binary()),
        ("max_delay", pa.int64()),
    ]
)
DEAD = pa.schema(
    [
        ("message", pa.string()),
        ("stream", pa.string()),
        ("time", TIME),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("reason", pa.string()),
        ("line", pa.int64()),
        ("column", pa.int64()),
        ("offset", pa.int64()),
        ("text", pa.string()),
        ("original", pa.binary()),
    ]
)
FAILURES = pa.schema(
    [
        ("subscription", pa.string()),
        ("subscriber", pa.string()),
        ("reason", pa.string()),
        ("count", pa.int64()),
        ("text", pa.string()),
        ("first_message", pa.string()),
        ("last_message", pa.string()),
        ("last_time", TIME),
    ]
)
"""Failures of subscriptions: a row for each subscription and reason, however many messages it failed on. The text is
that of the last failure."""
SEEN = pa.schema(
    [
        ("stream", pa.string()),
        ("message", pa.string()),
        ("time", TIME),
        ("xml", pa.binary()),
        ("witness", pa.binary()),
    ]
)
"""What correlations see of the messages that were not refused. Where that is nothing, there is no content: only the
time counts."""
SEEN_SQL = "stream string, message string, time timestamp, xml binary, witness binary"
SCHEMAS = dict(zip(KINDS, (MESSAGES, DELIVERIES, DEAD, FAILURES, SEEN), strict=True))
REPORT = pa.schema(
    [
        *((name, pa.int64()) for name in (field.name for field in fields(Counts))),
        *((f"{kind}_file", pa.string()) for kind in KINDS),
    ]
)
"""What a task tells the driver: counts, and the names of the files it has written (null: none)."""
REPORT_SQL = ", ".join(
    [*(f"{field.name} long" for field in fields(Counts)), *(f"{kind}_file string" for kind in KINDS)]
)

GROUP_BYTES = 16 << 20
GROUP_ROWS = 1 << 18
"""Bytes of messages, and deliveries, that make a row group: what a writer holds back, and a reader reads at once."""

# Ids and bodies hardly repeat; a dictionary of them is made in vain.
_REPEATING = ["stream", "subscription", "subscriber", "reason", "max_delay"]


@dataclass(frozen=True, slots=True)
class LogWriter:
    """Names the folder and the stream; pickled with each task."""

    staging: str
    stream: str

    def part(self) -> LogPart:
        """Return the part of one task attempt: ``with writer.part() as part: …``, then ``part.report``."""
        return LogPart(Path(self.staging), self.stream)


class LogPart:
    """What one task attempt writes. The files are whole and durable once the ``with`` block has ended."""

    def __init__(self, staging: Path, stream: str) -> None:
        self.stream = stream
        self.counts = Counts()
        # The name is the attempt's own: a task that Spark runs again, or a worker that outlives its driver for a
        # moment, cannot touch what another one wrote.
        attempt = uuid.uuid4().hex
        self._parts = {kind: Part(staging / f"{attempt}.{kind}.parquet", schema) for kind, schema in SCHEMAS.items()}
        self._failed = Tally()
        self._held_seen: list[pa.RecordBatch] = []
        self._held: list[tuple[pa.RecordBatch, pa.RecordBatch]] = []
        self._held_bytes = self._held_rows = self._held_messages = 0

    def write(self, messages: pa.RecordBatch, deliveries: pa.RecordBatch) -> None:
        """Write some messages that were matched, and their deliveries.

        ``messages``: ``message`` (string), ``xml``, and where known ``time`` and ``headers``. All of them count, and
        those with a delivery are kept. ``deliveries``: ``row`` (in ``messages``), ``subscription``, and where they
        apply ``subscriber``, ``payload``, ``max_delay``, ``result`` (the number among those of one pair), and ``key``
        (the subscription's, as :func:`~twigcast.delivery.ids.subscription_key` has it).
        """
        self.counts.messages += len(messages)
        self.counts.bytes += pc.sum(pc.binary_length(messages.column("xml"))).as_py() or 0
        self.counts.deliveries += len(deliveries)
        if not len(deliveries):
            return
        rows = deliveries.column("row").cast(pa.int32())
        every = pa.array(range(len(messages)), pa.int32())
        used = pc.is_in(every, value_set=rows)
        kept = self._conform(messages, MESSAGES)
        if not pc.all(used).as_py():  # or bodies would be copied for nothing
            kept = kept.filter(used)
            rows = pc.subtract(pc.cumulative_sum(used.cast(pa.int32())), pa.scalar(1, pa.int32())).take(rows)
        subscriptions = deliveries.column("subscription").cast(pa.string())
        results, keys = (deliveries.column(n) if n in deliveries.schema.names else None for n in ("result", "key"))
        given = {
            "delivery": delivery_ids(self.stream, kept.column("message"), rows, subscriptions, results, keys),
            "row": rows,
            "subscription": subscriptions,
        }
        self._hold(kept, self._conform(deliveries, DELIVERIES, given))

    def reject(self, dead: pa.RecordBatch) -> None:
        """Messages that were refused: ``message``, ``reason``, and what is known of the rest of ``DEAD``."""
        if len(dead):
            self.counts.messages += len(dead)
            self.counts.rejects += len(dead)
            rows = self._conform(dead, DEAD)
            self.counts.bytes += pc.sum(pc.binary_length(rows.column("original"))).as_py() or 0
            self._parts["dead"].write([rows])

    def fail(self, failures: pa.RecordBatch) -> None:
        """Count failures of subscriptions: ``subscription``, ``subscriber``, ``reason``, ``text``, ``message`` and
        ``time``, in the order of the messages."""
        self.counts.failures += len(failures)
        for row in failures.to_pylist():
            self._failed.add(**{**row, "last_time": row.pop("time")})

    def see(self, seen: pa.RecordBatch) -> None:
        """Keep what correlations see of some messages: ``message``, ``time``, ``xml`` and ``witness``."""
        if sum(some.nbytes for some in self._held_seen) + seen.nbytes > GROUP_BYTES:
            self._flush_seen()
        self._held_seen.append(self._conform(seen, SEEN))

    def _flush_seen(self) -> None:
        if any(map(len, self._held_seen)):
            self._parts["seen"].write(self._held_seen)
        self._held_seen = []

    @property
    def report(self) -> dict[str, Any]:
        """One row of ``REPORT``."""
        names = {f"{kind}_file": part.name for kind, part in self._parts.items()}
        return {**asdict(self.counts), **names}

    def _conform(
        self, batch: pa.RecordBatch, schema: pa.Schema, given: dict[str, pa.Array] | None = None
    ) -> pa.RecordBatch:
        given = {"stream": pa.repeat(pa.scalar(self.stream), len(batch)), **(given or {})}
        columns = []
        for field in schema:
            if field.name in given:
                columns.append(given[field.name])
            elif field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            else:
                columns.append(pa.nulls(len(batch), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _hold(self, messages: pa.RecordBatch, deliveries: pa.RecordBatch) -> None:
        if self._held_bytes + messages.nbytes > GROUP_BYTES or self._held_rows + len(deliveries) > GROUP_ROWS:
            self._flush()
        if self._held_messages:
            place = deliveries.schema.get_field_index("row")
            moved = pc.add(deliveries.column("row"), pa.scalar(self._held_messages, pa.int32()))
            deliveries = deliveries.set_column(place, deliveries.schema.field(place), moved)
        self._held.append((messages, deliveries))
        self._held_messages += len(messages)
        self._held_bytes += messages.nbytes
        self._held_rows += len(deliveries)

    def _flush(self) -> None:
        if self._held:
            self._parts["messages"].write([messages for messages, _ in self._held])
            self._parts["deliveries"].write([deliveries for _, deliveries in self._held])
            self._held = []
            self._held_bytes = self._held_rows = self._held_messages = 0

    def __enter__(self) -> LogPart:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
                self._flush_seen()
                if self._failed:
                    self._parts["failures"].write([pa.RecordBatch.from_pylist(self._failed.rows, schema=FAILURES)])
        finally:
            for part in self._parts.values():
                part.close(durable=kind is None)


class Part:
    """A Parquet file that exists only if something is written to it; each call makes one row group."""

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        """``options`` are those of Parquet, if they are not to be those of a log."""
        self._path = path
        self._schema = schema
        self._options = options or {
            "compression": "lz4",
            "use_dictionary": [name for name in _REPEATING if name in schema.names],
            "write_statistics": False,
            "write_page_checksum": True,
        }
        self._file: Any = None
        self._writer: Any = None

    @property
    def name(self) -> str | None:
        """The name of the file, if there is one."""
        return None if self._writer is None else self._path.name

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Write some rows."""
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
            self._writer = pq.ParquetWriter(self._file, self._schema, **self._options)
        table = pa.Table.from_batches(batches, self._schema)
        self._writer.write_table(table, row_group_size=max(1, len(table)))

    def close(self, durable: bool) -> None:
        """Let the file be whole, and outlast a loss of power if it is to count."""
        if self._writer is not None:
            self._writer.close()
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
            self._file.close()
