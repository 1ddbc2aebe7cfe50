"""Correlations on Spark: messages per second of the stage, in steady state, with very many queries."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Line
from twigcast.papers.joins.workload import STREAM, feed, feed_items, join_queries
from twigcast.spark.correlate import correlate
from twigcast.spark.session import session
from twigcast.units import SECOND

CORES = 2
FILES = 4
"""Of a micro-batch."""
WINDOW = 40_000
"""Messages, one a second."""


def lines(quick: bool) -> Iterator[Line]:
    """Feed items as in ``joins``: few match, and all queries are distinct. What is measured comes when windows are full
    and Java has compiled what it is going to."""
    queries, batch, full, measured = (2_000, 2_000, 3, 2) if quick else (100_000, 50_000, 3, 4)
    folder = Path(tempfile.mkdtemp(prefix="twigcast-bench-"))
    try:
        yield _stage(folder, queries, batch, full, measured)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stage(folder: Path, count: int, batch: int, full: int, measured: int) -> Line:
    messages = batch * (full + measured)
    _write(folder / "in", messages, batch // FILES)
    window = min(WINDOW, 2 * batch) * SECOND
    asked = islice(join_queries(feed(), channels=418), count)
    queries = {f"q{number}": replace(one, window=window).correlation for number, one in enumerate(asked)}
    spark = session(cores=CORES)
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # as a pipeline does
    try:
        reader = spark.readStream.schema("message string, time long, xml binary").option("maxFilesPerTrigger", FILES)
        results = correlate(reader.parquet(str(folder / "in")), queries, lateness=0)
        writer = results.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(folder / "out"))
        began = time.perf_counter()
        query.awaitTermination()
        took = [one["batchDuration"] / 1e3 for one in query.recentProgress if one["numInputRows"]]
        found = spark.read.parquet(str(folder / "out")).count()
        total = time.perf_counter() - began
    finally:
        spark.stop()
    steady = sum(took[full:])
    note = f"batches of {batch:,}: {', '.join(f'{one:.1f}' for one in took)} s of {total:.0f} s;"
    note += f" {found / messages:.2f} results a message"
    name = f"Spark local[{CORES}], {count:,} queries of {STREAM}"
    return Line("join-stage", name, batch * measured / steady, "messages/s", 5_000, "higher", note)


def _write(folder: Path, messages: int, rows: int) -> None:
    folder.mkdir()
    items = feed_items()
    for start in range(0, messages, rows):
        numbers = range(start, start + rows)
        columns: dict[str, Any] = {
            "message": [str(number) for number in numbers],
            "time": pa.array([number * SECOND for number in numbers], pa.int64()),
            "xml": pa.array(list(islice(items, rows)), pa.binary()),
        }
        pq.write_table(pa.table(columns), folder / f"{start:08}.parquet")
