"""What the match stage has seen of messages, as a streaming source of Spark: the delivery logs of the streams.

It is a Python data source for the query over correlations. An offset of Spark names the last batch of each stream that
has been read. Batches are taken in the order in which they were committed, whatever their streams, so that no stream
gets ahead of the others.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from twigcast.delivery.log import Log, LogBatch, rows_of
from twigcast.delivery.writer import SEEN_SQL
from twigcast.errors import StateDamaged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "twigcast-seen"
MESSAGES, BYTES = 50_000, 256 << 20
"""Messages, and bytes of them, from which on a micro-batch takes no further batch."""
PATIENCE = 0.5
"""Seconds that an offset is waited for: shorter than anybody waits for the query to stop."""
LOOK_EVERY = 0.02
"""Seconds between two looks for a new batch: one system call each."""


def seen_frame(spark: SparkSession, logs: Path, beginning: Mapping[str, int]) -> DataFrame:
    """Return what was seen of the messages of streams, as rows of ``SEEN_SQL``: by stream the batches after a number.

    ``logs`` is the folder of the delivery logs.
    """
    spark.dataSource.register(SeenSource)
    reader = spark.readStream.format(NAME).option("logs", str(logs)).option("beginning", json.dumps(dict(beginning)))
    return reader.option("slices", str(spark.sparkContext.defaultParallelism)).load()


class SeenSource(DataSource):
    """Spark's way to what was seen."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SEEN_SQL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return SeenReader(dict(self.options))


class SeenReader(DataSourceStreamReader):
    """Follows the logs in a process of its own beside the driver."""

    def __init__(self, options: dict[str, str]) -> None:
        self._beginning: dict[str, int] = json.loads(options["beginning"])
        self._logs = [Log(Path(options["logs"]), stream) for stream in self._beginning]
        self._slices = int(options["slices"])

    def initialOffset(self) -> dict[str, int]:
        return self._beginning

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """Return the offset of the next micro-batch, or ``start`` if nothing has been committed for a while.

        Spark asks again at once, so a batch is found as soon as it is there.
        """
        until = time.monotonic() + PATIENCE
        known = None
        while True:
            changed = [log.folder.stat().st_mtime_ns for log in self._logs]
            if changed != known:
                known = changed
                found = self._after(start)
                if found or time.monotonic() > until:
                    return {**start, **{one.stream: one.batch for one in found}}
            elif time.monotonic() > until:
                return start
            time.sleep(LOOK_EVERY)

    def _after(self, start: Mapping[str, int]) -> list[LogBatch]:
        """Return the committed batches of a micro-batch that begins after an offset."""
        found, messages, size = [], 0, 0
        for one in heapq.merge(*(self._batches(log, start) for log in self._logs), key=lambda one: one.time):
            found.append(one)
            messages, size = messages + one.counts.messages, size + one.counts.bytes
            if messages >= MESSAGES or size >= BYTES:
                break
        return found

    def _batches(self, log: Log, start: Mapping[str, int]) -> Iterator[LogBatch]:
        first = start.get(log.stream, self._beginning[log.stream])
        if log.forgotten > first:
            raise StateDamaged(log.folder, f"has lost batches after {first}, which correlations have not read")
        return log.batches(first)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        files: list[str] = []
        for log in self._logs:
            last = end.get(log.stream, self._beginning[log.stream])
            for one in self._batches(log, start):
                if one.batch <= last:
                    files += map(str, one.files("seen"))
        return [InputPartition(files[place :: self._slices]) for place in range(min(self._slices, len(files)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for file in partition.value:
            yield from rows_of(Path(file))
