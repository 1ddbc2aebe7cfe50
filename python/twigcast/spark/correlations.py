"""The correlations of a pipeline: one query of Spark over what was seen of the messages of all streams.

The match stage reads a message once, for its matches, its time, and what correlations see of it, and the delivery logs
have that (``sources/seen_source.py``). The query follows these logs at its own pace, into a log of its own, so that
filters never wait for it. When the correlations of the store change, the query is stopped between two micro-batches and
started again with the new set. The state says since which micro-batch each correlation has been there. While the store
has no correlations there is no query, and the next one begins where the streams are then (``beginning.py``).

A micro-batch is committed twice: to the delivery log, and then by Spark. A crash in between leaves a batch that the log
has and Spark has not. The next run repeats it for the sake of its state, with the set of correlations that it had the
first time, and drops its results.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast.delivery import REPORT_SQL, Log, LogWriter
from twigcast.delivery.log import CORRELATED
from twigcast.errors import StateDamaged
from twigcast.spark import earlier
from twigcast.spark.beginning import FILE as BEGINNING
from twigcast.spark.beginning import Beginning, read_running, standing_of, write_running
from twigcast.spark.checkpoint import check as check_checkpoint
from twigcast.spark.checkpoint import numbers, offsets
from twigcast.spark.paths import local_uri
from twigcast.spark.serve import files_of
from twigcast.spark.stages.correlate import EVICTED
from twigcast.spark.stages.deliver import DeliverFound
from twigcast.spark.stages.seeing import Seeing
from twigcast.spark.stages.standing import Ready, Shipped, Standing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from twigcast.spark.live import Published
    from twigcast.spark.pipeline import Run, StreamRun
    from twigcast.store import SubscriptionRecord

logger = logging.getLogger(__name__)

CORRELATIONS = "correlations"
"""The name of the log, and of the checkpoint."""
CONNECT = "failed to connect back"
STARTS = 5
"""How often a query is started whose Python process does not start in time."""
INTERRUPTIONS = 5
"""How often in a row a micro-batch is put off because correlations have changed. Then it is done all the same: if they
change all the time, messages must be correlated, too."""


class CorrelationRun:
    """The query over the correlations of a run, which is started again whenever they change."""

    def __init__(self, run: Run, stack: ExitStack) -> None:
        self.run = run
        self.stopping = threading.Event()
        self.ended: list[StreamingQuery] = []
        """Queries that have been stopped. Others have taken their place."""
        self._stack = stack
        self._busy = threading.Lock()
        self._beginning = Beginning()
        self._released: dict[str, int] = {}
        """By stream the last batch that its log need not keep for the query."""
        self._records: dict[str, SubscriptionRecord] = {}
        self._parsed: dict[str, Ready] = {}
        """The correlations by id, as they were parsed last."""
        self._seen: tuple[Mapping[str, SubscriptionRecord], Shipped] | None = None
        """The correlations that messages are matched for, as workers get them."""
        self.query: StreamingQuery | None = None
        """The query that runs, if the store has correlations, or had them a moment ago."""
        self._starts = 1
        self._interruptions = 0
        self._log: Log | None = None
        self._outdated = False
        """The query must not begin another micro-batch: the next one needs another set of correlations."""
        self._repeats: int | None = None
        """The micro-batch that the log has and Spark has not, until the query has repeated it."""
        self._state_lock = threading.Lock()
        saved = read_running(run.settings.state.path)
        known = (self._checkpoint / BEGINNING).exists() or bool(numbers(self._checkpoint / "offsets"))
        self._begun = known if saved is None else bool(saved)
        """Whether the checkpoint is that of the correlations which the store has."""

    @property
    def _checkpoint(self) -> Path:
        return self.run.settings.state.checkpoints / CORRELATIONS

    @property
    def _streams(self) -> dict[str, StreamRun]:
        """The streams that are correlated: not those of messages that were put back."""
        return {name: self.run.streams[name] for name in self.run.settings.streams}

    def begin_batch(self) -> Published:
        """Return the subscriptions that a micro-batch of a stream is to be matched against.

        The first micro-batch that has correlations is where their query begins. That is written down here, before the
        micro-batch is committed.
        """
        with self._state_lock:
            published = self.run.live.current()
            if published.correlations:
                self._begin(published)
            return published

    def seeing(self, stream: str, published: Published) -> Seeing | None:
        """Return what the match stage is to find in the messages of a stream; None if there are no correlations."""
        if not published.correlations:
            return None
        with self._state_lock:
            if self._seen is None or self._seen[0] is not published.correlations:
                folder = self.run.settings.state.snapshots / "seen"
                folder.mkdir(exist_ok=True)
                files = files_of(self.run.spark.sparkContext)
                shipped = Shipped.write(folder, [self._ready(standing_of(published.correlations))], files)
                # When no micro-batch has it any more; while it is being matched, each has.
                weakref.finalize(shipped, files.delete, shipped.files[0])
                self._seen = published.correlations, shipped
            return Seeing(self._seen[1], stream)

    def _ready(self, standing: Sequence[Standing]) -> list[Ready]:
        """Return correlations as they are parsed; those that are known are not parsed again."""
        known = self._parsed
        same = {one.id: known[one.id] for one in standing if one.id in known and known[one.id].digest == one.digest}
        self._parsed = {one.id: same.get(one.id) or Ready.of(one) for one in standing}
        return list(self._parsed.values())

    def _begin(self, published: Published) -> None:
        """Make a checkpoint that begins where the streams are, unless there is one for the correlations already."""
        if self._begun:
            return
        log = self._claimed_log()
        last = {name: stream.log.last for name, stream in self._streams.items()}
        Beginning(log.last + 1, last).begin(self._checkpoint)
        self._keep_after(last)
        write_running(self.run.settings.state.path, standing_of(published.correlations))
        self._begun = True

    def _forget_all(self) -> None:
        """Write down that there are no correlations: nobody needs the state of those that were there."""
        if self._begun:
            write_running(self.run.settings.state.path, ())
            self._begun = False
        self._keep_after(dict.fromkeys(self._streams))

    def _keep_after(self, last: Mapping[str, int | None]) -> None:
        """Have the logs of the streams keep what comes after these batches: it has yet to be read."""
        for name, stream in self._streams.items():
            stream.log.set_correlated(last[name])

    def prepare(self) -> None:
        """Open the state, if there is some, before a stream commits anything."""
        with self._state_lock:
            if not self.run.live.correlations:
                self._forget_all()
            elif self._begun:
                self._open_state()

    def start(self) -> list[StreamingQuery]:
        """Start a query over the correlations that the store has now, if it has any."""
        self._outdated, self._repeats, self.query = False, None, None
        with self._state_lock:
            published = self.run.live.current()
            self._records = dict(published.correlations)
            if not self._records:
                self._forget_all()
                return []
            self._begin(published)
            self._open_state()
        standing = standing_of(self._records)
        self._repeats = self._uncommitted()
        folder = self.run.settings.state.path
        before = None if self._repeats is None else read_running(folder)
        if before is None or before == standing:
            write_running(folder, standing)
        else:
            standing, self._records = before, {}  # until the batch has been repeated; then the store's set follows
        with self._state_lock:
            ready = self._ready(standing)
        writer = self._found(ready).writeStream.foreachBatch(self._batch)
        writer = writer.queryName(f"{CORRELATIONS} {self.run.id}")
        writer = writer.option("checkpointLocation", local_uri(self._checkpoint))
        # The source waits for the next batch of a stream, so that results need not wait for a trigger of their own.
        writer = writer.trigger(processingTime="0 seconds")
        with _one_partition(self.run.spark):
            self.query = writer.start()
        return [self.query]

    def _claimed_log(self) -> Log:
        if self._log is None:
            self._log = self._stack.enter_context(Log(self.run.settings.state.log, CORRELATIONS).claimed())
            self.run._follow()
        return self._log

    def follow(self) -> list[StreamingQuery]:
        """Start a new query if the correlations of the store are not those of the running query."""
        self.run.live.current()
        if self._repeats is not None or self.run.live.correlations == self._records:
            return []
        self.end()
        return self.start()

    def again(self, query: StreamingQuery, error: Exception) -> list[StreamingQuery]:
        """Start a new query in place of one that failed by no fault of its own; else raise the error.

        Before the first micro-batch Spark starts a Python process for a stateful query and gives it ten seconds, which
        cannot be set: too little on a busy machine.
        """
        if query is self.query and self._outdated:
            self.ended.append(query)
            return self.start()
        if query is not self.query or CONNECT not in str(error) or self._starts >= STARTS:
            raise error
        self._starts += 1
        logger.warning("warning: correlations start again: Spark's Python process did not start in time")
        return self.start()

    def end(self) -> None:
        """Stop the query between two micro-batches, so that Spark has committed each one that the log has."""
        query, self.query = self.query, None
        if query is None:
            return
        self._outdated = True
        with self._busy:  # waits for the micro-batch that has begun, and no other can begin
            self.ended.append(query)
        _stop(query, lambda: self._uncommitted() is None)
        self.release()

    def _uncommitted(self) -> int | None:
        """Return the last micro-batch if the log has committed it and Spark has not."""
        last = max(numbers(self._checkpoint / "offsets"), default=-1)
        if last < 0 or last in numbers(self._checkpoint / "commits"):
            return None
        return None if self._claimed_log().committed(self._beginning.first + last) is None else last

    def _found(self, ready: Iterable[Ready]) -> DataFrame:
        from twigcast.spark.correlate import correlate
        from twigcast.spark.sources.seen_source import seen_frame

        settings = self.run.settings
        return correlate(
            seen_frame(self.run.spark, settings.state.log, self._beginning.streams),
            ready,
            stream="stream",
            witness="witness",
            lateness=settings.correlations.lateness,
            max_state_bytes=settings.correlations.max_state,
            limits=settings.limits.limits(),
            everything=True,
            folder=self._query_folder(),
        )

    def _query_folder(self) -> Path:
        """Return an empty folder for the files of a query. No query runs that has files there."""
        folder = self.run.settings.state.snapshots / CORRELATIONS
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _reached(self, before: int = 0) -> dict[str, int]:
        """Return by stream the last batch that Spark has committed, or had ``before`` so many micro-batches."""
        batch = max(numbers(self._checkpoint / "commits"), default=-1) - before
        return {**self._beginning.streams, **(offsets(self._checkpoint, batch)[0] if batch >= 0 else {})}

    def has_read_all(self) -> bool:
        """Return whether the query has read what the streams have committed."""
        reached = self._reached()
        return all(stream.log.last <= reached[name] for name, stream in self._streams.items())

    def release(self) -> None:
        """Let the logs forget what the query has read, once the sinks have passed it.

        The last micro-batch stays: a loss of power may undo Spark's commit, as that does not wait for the disk.
        """
        with self._state_lock:
            reached = self._reached(before=1)
            if not self._begun or reached == self._released:
                return
            self._keep_after(reached)
            self._released = reached
        self.run.runner.forget()

    def _open_state(self) -> None:
        """Check that the state is whole, and that what is yet to be read is there and stays; take over older state."""
        checkpoint, log, streams = self._checkpoint, self._claimed_log(), self._streams
        beginning = Beginning.read(checkpoint, self.run.settings.state.path)
        if beginning is None:
            last = {name: stream.log.last for name, stream in streams.items()}
            beginning = earlier.take_over(checkpoint, self.run.settings, last, self.run.listings)
        elif beginning.earlier:
            beginning = earlier.finish(checkpoint, beginning)
        # A stream that has been added since begins with its log.
        began = {name: beginning.streams.get(name, stream.log.forgotten) for name, stream in streams.items()}
        self._beginning = Beginning(beginning.first, began)
        check_checkpoint(checkpoint, log.last - beginning.first, log.folder)
        reached = self._reached()
        for name, stream in streams.items():
            if stream.log.last < reached[name]:
                raise StateDamaged(
                    stream.log.folder, f"ends before batch {reached[name]}, which correlations have read"
                )
            if stream.log.forgotten > reached[name]:
                missing = f"batches after {reached[name]} are gone, which correlations have not read"
                raise StateDamaged(stream.log.folder / CORRELATED, f"was lost, or {checkpoint} is too old: {missing}")
        self._keep_after(self._reached(before=1))

    def _batch(self, frame: DataFrame, batch: int) -> None:
        with self._busy:
            if self.stopping.is_set() or self._outdated:
                raise InterruptedError("stopped before this micro-batch began; the next query does it")
            log = self._log
            assert log is not None
            number = self._beginning.first + batch
            if log.committed(number) is not None:
                self._repeat(frame)
                return
            began = time.monotonic()
            published = self.run.live.current()
            if published.correlations != self._records and self._interruptions < INTERRUPTIONS:
                self._interruptions += 1
                self._outdated = True
                raise InterruptedError("correlations have changed; the next query does this micro-batch")
            traits = {id: (r.subscriber, r.max_delay) for id, r in self._records.items()}
            task = DeliverFound(LogWriter(str(log.staging), CORRELATIONS), traits, published.shards)
            evicted, frame = _observed(frame)
            reports: list[dict[str, Any]] = [row.asDict() for row in frame.mapInArrow(task, REPORT_SQL).collect()]
            counts = log.commit(number, published.version, reports)
            self._interruptions = 0
            self._warn(evicted.get)
            self.run._follow()
            self.run.told(CORRELATIONS, number, counts, time.monotonic() - began, published)

    def _repeat(self, frame: DataFrame) -> None:
        """Run a micro-batch that the log has only for its state, without which Spark refuses to commit it."""
        frame.write.format("noop").mode("overwrite").save()
        self._repeats = None
        self._outdated = self._records != self.run.live.correlations

    def _warn(self, evicted: Mapping[str, Any]) -> None:
        if evicted["count"]:
            text = (
                "warning: %s messages were forgotten before their time: the state of correlations would take more than"
            )
            text += " %s bytes; %r has the longest window"
            most = self.run.settings.correlations.max_state
            logger.warning(text, f"{evicted['count']:,}", f"{most:,}", evicted["subscription"])


@contextmanager
def _one_partition(spark: SparkSession) -> Iterator[None]:
    """Queries that are started inside have one partition, as there is one bucket."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _observed(frame: DataFrame) -> tuple[Observation, DataFrame]:
    """What workers had to forget, known when the frame has been used."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    evicted = f.col("kind") == EVICTED
    count = f.sum(f.when(evicted, f.col("time"))).alias("count")
    seen = Observation()
    return seen, frame.observe(seen, count, f.max(f.when(evicted, f.col("subscription"))).alias("subscription"))


def _stop(query: StreamingQuery, is_committed: Callable[[], bool]) -> None:
    """Stop a query that begins no further micro-batch, once Spark has committed the last one."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):  # Spark may have ended
        while query.isActive and not is_committed():
            time.sleep(0.02)
        query.stop()
