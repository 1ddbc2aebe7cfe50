"""From a folder of messages to a folder of results: live or once, restartable.

One micro-batch is one pass: the task that reads a file matches it and writes what it found. Only a row of counts per
task goes back to the driver, which then makes the batch visible (see ``sinks/outbox.py`` for how, and for crashes).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.failures import cause_of
from twigcast.spark.session import session
from twigcast.spark.sinks.jsonl import REPORT_SQL, Write
from twigcast.spark.sinks.outbox import Counts, Outbox
from twigcast.spark.sources.directory import check_inbox
from twigcast.spark.sources.files import LoadFiles
from twigcast.spark.sources.following import GOES_ON, Following
from twigcast.spark.sources.listing import Entry, Listing
from twigcast.spark.stages.messages import check_workers
from twigcast.spark.stages.outcome import outcomes
from twigcast.spark.stages.preload import preloading
from twigcast.spark.stages.snapshot import Snapshot, engine_of, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_FILES = 5_000
"""Messages per micro-batch: enough to make its fixed cost small, few enough to show results within seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch that has become visible, and what this run has done so far."""

    batch: int
    counts: Counts
    seconds: float
    total: Counts


@dataclass(frozen=True, slots=True)
class DirectoryTask:
    """Read, match, write: what runs in a worker."""

    load: LoadFiles
    snapshot: Snapshot
    write: Write

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages = (batch.select(["message", "xml", "error"]) for batch in self.load(batches))
        yield from self.write(outcomes(messages, engine_of(self.snapshot)))


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
    with sink.claimed(source), closing(_listing(sink, source, glob, max_files)) as listing:
        if spark is None:
            spark = session(quick=once)
        elif callable(spark):
            spark = spark()
        check_workers(spark.sparkContext)
        snapshot = publish(engine, folder=sink.state / "snapshots", context=spark.sparkContext)
        _forget_others(snapshot)
        limits = (engine if isinstance(engine, Engine) else engine_of(snapshot)).limits
        load = LoadFiles(str(source), max_bytes=max_bytes or limits.max_bytes)
        run = _Run(spark, sink, load, snapshot, on_batch)
        following = Following(listing, run.batch, lambda: sink.last, interval=None if once else interval)
        run.wait(following.start(), stop or threading.Event())
        return run.total


def _listing(sink: Outbox, inbox: Path, glob: str | None, max_files: int) -> Listing:
    return Listing.opened(sink.checkpoint, inbox, sink.last, sink.folder, glob=glob, max_files=max_files)


@dataclass
class _Run:
    spark: SparkSession
    sink: Outbox
    load: LoadFiles
    snapshot: Snapshot
    on_batch: Callable[[Progress], None] | None
    total: Counts = field(default_factory=Counts)

    def batch(self, entry: Entry) -> None:
        """Match the files of a micro-batch and make the results visible."""
        started = time.monotonic()
        task = DirectoryTask(self.load, self.snapshot, Write(str(self.sink.staging), self.snapshot))
        found = self.spark.createDataFrame(pa.table({"path": pa.array(entry.paths, pa.string())}))
        with preloading(self.spark.sparkContext, self.snapshot.file):
            reports = found.mapInArrow(task, REPORT_SQL)
        counts = self.sink.commit(entry.number, reports.collect())
        self.total.add(counts)
        if self.on_batch is not None:
            self.on_batch(Progress(entry.number, counts, time.monotonic() - started, self.total))

    def wait(self, following: Following, stop: threading.Event) -> None:
        """Wait for the end, or for ``stop``, which lets the micro-batch at hand finish."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            # Short waits: a signal handler of Python runs only between them.
            while not following.awaitTermination(0.2):
                if stop.is_set():
                    return
        except PySparkException as error:
            raise TwigcastError("run-failed", cause_of(error), hint=GOES_ON) from error
        except Py4JError as error:
            raise TwigcastError("spark-died", f"Spark has ended: {cause_of(error)}", hint=GOES_ON) from error
        finally:
            following.stop()


def _forget_others(snapshot: Snapshot) -> None:
    """Earlier runs' snapshots: nobody else can be using them, the outbox is locked."""
    for path in Path(snapshot.path).parent.iterdir():
        if path != Path(snapshot.path):
            path.unlink(missing_ok=True)
