"""From a folder of messages to a folder of results, as a Structured Streaming query: live or once, restartable.

One micro-batch is one pass: the task that reads a file matches it and writes what it found. Only a row of counts per
task goes back to the driver, which then makes the batch visible (see ``sinks/outbox.py`` for how, and for crashes).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.failures import cause
from twigcast.spark.session import session
from twigcast.spark.sinks.jsonl import REPORT_SQL, Write
from twigcast.spark.sinks.outbox import Counts, Outbox
from twigcast.spark.sources.directory import Load, check_inbox, listed_by_the_driver, listing, passed_over
from twigcast.spark.stages.messages import check_workers
from twigcast.spark.stages.outcome import outcomes
from twigcast.spark.stages.preload import preloading
from twigcast.spark.stages.snapshot import Snapshot, engine_of, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MAX_FILES = 5_000
"""Messages per micro-batch: enough to make its fixed cost small, few enough to show results within seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch that has become visible, and what this run has done so far."""

    batch: int
    counts: Counts
    seconds: float
    total: Counts
    replayed: bool
    """An earlier run had committed it; it is not in the total."""


@dataclass(frozen=True, slots=True)
class DirectoryTask:
    """Read, match, write: what runs in a worker."""

    load: Load
    snapshot: Snapshot
    write: Write

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.write(outcomes(self.load(batches), engine_of(self.snapshot)))


def run_directory(
    inbox: str | Path,
    outbox: str | Path,
    engine: Engine | str | Path,
    *,
    once: bool = False,
    interval: float = 2.0,
    max_files: int = MAX_FILES,
    max_bytes: int | None = None,
    glob: str | None = None,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> Counts:
    """Match the files of ``inbox`` as they appear and write JSON Lines under ``outbox``; returns what this run did.

    ``once`` ends when all files present at the start are done; otherwise the folder is looked at every ``interval``
    seconds until ``stop`` is set, which lets the micro-batch at hand finish. With the same ``outbox`` a later run goes
    on where this one ended, each message matched by exactly one of them; the engine may be another one.

    A larger file than ``max_bytes``, the engine's limit unless given, is refused without being read.
    A function for ``spark`` is called once all else has been found in order, since a session takes seconds to start.
    """
    if max_files < 1:
        raise OptionError("bad-max-files", f"the number of files per batch is {max_files}", hint="give 1 or more")
    source = check_inbox(Path(inbox))
    sink = Outbox(Path(outbox))
    if sink.folder.resolve().is_relative_to(source):
        raise OptionError(
            "outbox-in-inbox",
            f"{outbox} lies in {inbox}, so results would be read as messages",
            hint="put it elsewhere",
        )
    with sink.claimed(source):
        if spark is None:
            spark = session(quick=once)
        elif callable(spark):
            spark = spark()
        check_workers(spark.sparkContext)
        snapshot = publish(engine, folder=sink.state / "snapshots", context=spark.sparkContext)
        _forget_others(snapshot)
        limits = (engine if isinstance(engine, Engine) else engine_of(snapshot)).limits
        run = _Run(sink, Load(str(source), max_bytes or limits.max_bytes), snapshot, on_batch)
        found = listing(spark, source, glob=glob, max_files=max_files)
        with listed_by_the_driver(spark, max_files):
            run.wait(run.start(found, once, interval), stop or threading.Event())
        return run.total


@dataclass
class _Run:
    sink: Outbox
    load: Load
    snapshot: Snapshot
    on_batch: Callable[[Progress], None] | None
    total: Counts = field(default_factory=Counts)
    busy: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False

    def batch(self, found: DataFrame, batch: int) -> None:
        with self.busy:
            if self.stopping:
                raise InterruptedError("stopped before this micro-batch began; the next run does it")
            started = time.monotonic()
            counts = self.sink.committed(batch)
            replayed = counts is not None
            if counts is None:
                task = DirectoryTask(self.load, self.snapshot, Write(str(self.sink.staging), self.snapshot))
                dropped = [(path, 0) for path in passed_over(self.sink.checkpoint, batch)]
                if dropped:
                    found = found.union(found.sparkSession.createDataFrame(dropped, found.schema))
                with preloading(found.sparkSession.sparkContext, self.snapshot.file):
                    reports = found.mapInArrow(task, REPORT_SQL)
                counts = self.sink.commit(batch, reports.collect())
                self.total.add(counts)
            if self.on_batch is not None:
                self.on_batch(Progress(batch, counts, time.monotonic() - started, self.total, replayed))

    def start(self, found: DataFrame, once: bool, interval: float) -> StreamingQuery:
        writer = found.writeStream.foreachBatch(self.batch).option("checkpointLocation", str(self.sink.checkpoint))
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{max(1, round(interval * 1000))} milliseconds").start()

    def wait(self, query: StreamingQuery, stop: threading.Event) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        hint = "nothing is lost: a restart goes on here"
        try:
            # Short waits: a signal handler of Python runs only between them.
            while not query.awaitTermination(0.2):  # type: ignore[arg-type]
                if stop.is_set():
                    # The lock is let go before the query is told: it waits for a micro-batch that has just begun, which
                    # must be able to see that it is not wanted.
                    with self.busy:
                        self.stopping = True
                    return
        except PySparkException as error:
            raise TwigcastError("run-failed", cause(str(error)), hint=hint) from error
        except (Py4JError, OSError) as error:
            raise TwigcastError("spark-died", f"Spark has ended: {error}", hint=hint) from error
        finally:
            with suppress(PySparkException, Py4JError, OSError):
                query.stop()


def _forget_others(snapshot: Snapshot) -> None:
    """Earlier runs' snapshots: nobody else can be using them, the outbox is locked."""
    for path in Path(snapshot.path).parent.iterdir():
        if path != Path(snapshot.path):
            path.unlink(missing_ok=True)
