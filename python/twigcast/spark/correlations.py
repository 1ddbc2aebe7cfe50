"""The correlations of a pipeline: one query of Spark over the messages of all streams, into a log of its own.

The query reads the streams a second time, at its own pace and with its own checkpoint, so that filters never wait for
it. Its workers find what correlations see of a message when they read it (``stages/seeing.py``), and the stage with the
state takes that. When the correlations of the store change, the query is stopped between two micro-batches and started
again with the new set. The state says since which micro-batch each correlation has been there. While the store has no
correlations there is no query, and the next one begins where the streams are then (``beginning.py``).

A micro-batch is committed twice: to the delivery log, and then by Spark. A crash in between leaves a batch that the log
has and Spark has not. The next run repeats it for the sake of its state, with the set of correlations that it had the
first time, and drops its results.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast import config
from twigcast.delivery import REPORT_SQL, Log, LogWriter
from twigcast.errors import StateDamaged
from twigcast.spark.beginning import (
    Beginning,
    Place,
    fresh_checkpoint,
    put_in_place,
    read_running,
    standing_of,
    write_running,
)
from twigcast.spark.checkpoint import check as check_checkpoint
from twigcast.spark.checkpoint import numbers, offsets
from twigcast.spark.paths import local_uri
from twigcast.spark.serve import files_of
from twigcast.spark.sources import event_time_of, listing_options, local_folder, source_of
from twigcast.spark.sources.directory import check_inbox
from twigcast.spark.sources.listing import Listing
from twigcast.spark.sources.spark_log import take_over_source
from twigcast.spark.stages.correlate import EVICTED
from twigcast.spark.stages.deliver import DeliverFound
from twigcast.spark.stages.seeing import Seeing
from twigcast.spark.stages.standing import Ready, Shipped, Standing
from twigcast.spark.stages.validity import SEEN_SQL, Reading, SeeTask, Validity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from twigcast.spark.live import Published
    from twigcast.spark.pipeline import Run
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
        self._records: dict[str, SubscriptionRecord] = {}
        self._validity: dict[str, Validity] = {}
        self._query: StreamingQuery | None = None
        self._starts = 1
        self._interruptions = 0
        self._log: Log | None = None
        self._listings: dict[str, Listing] = {}
        self._outdated = False
        """The query must not begin another micro-batch: the next one needs another set of correlations."""
        self._repeats: int | None = None
        """The micro-batch that the log has and Spark has not, until the query has repeated it."""
        self._state_lock = threading.Lock()
        self._before: dict[str, int] = {}
        """By stream: its last micro-batch that was begun without correlations."""
        saved = read_running(run.settings.state.path)
        self._begun = bool(numbers(self._checkpoint / "offsets")) if saved is None else bool(saved)
        """Whether the checkpoint is that of the correlations which the store has."""
        stack.callback(self._close_listings)

    @property
    def _checkpoint(self) -> Path:
        return self.run.settings.state.checkpoints / CORRELATIONS

    @property
    def is_running(self) -> bool:
        """Whether there is a query: the store has correlations, or had them a moment ago."""
        return self._query is not None

    def begin_batch(self, stream: str, batch: int) -> Published:
        """Return the subscriptions that a micro-batch of a stream is to be matched against.

        The first micro-batch that has correlations is where their query begins. That is written down here, before the
        micro-batch is committed.
        """
        with self._state_lock:
            published = self.run.live.current()
            if published.correlations:
                self._begin(published)
            else:
                self._before[stream] = batch
            return published

    def _begin(self, published: Published) -> None:
        """Make a checkpoint that begins where the streams are, unless there is one for the correlations already."""
        if self._begun:
            return
        log = self._claimed_log()
        self._close_listings()
        fresh = fresh_checkpoint(self._checkpoint)
        places: dict[str, Place] = {}
        for name, stream in list(self.run.streams.items()):
            if name in self.run.settings.streams:
                batch = max(stream.log.last, self._before.get(name, -1)) + 1
                places[name] = stream.place(batch)
                if name in self.run.listings:
                    with closing(self._open_listing(name, fresh)) as listing:
                        listing.pass_over(self.run.listings[name].taken(batch))
        Beginning(log.last + 1, places).write(fresh)
        put_in_place(fresh, self._checkpoint)
        write_running(self.run.settings.state.path, standing_of(published.correlations))
        self._begun = True

    def _forget_all(self) -> None:
        """Write down that there are no correlations: nobody needs the state of those that were there."""
        if self._begun:
            write_running(self.run.settings.state.path, ())
            self._begun = False

    def start(self) -> list[StreamingQuery]:
        """Start a query over the correlations that the store has now, if it has any."""
        self._outdated, self._repeats, self._query = False, None, None
        self._validity = self._validities()
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
        earlier = None if self._repeats is None else read_running(folder)
        if earlier is None or earlier == standing:
            write_running(folder, standing)
        else:
            standing, self._records = earlier, {}  # until the batch has been repeated; then the store's set follows
        writer = self._found(standing).writeStream.foreachBatch(self._batch)
        writer = writer.queryName(f"{CORRELATIONS} {self.run.id}")
        writer = writer.option("checkpointLocation", local_uri(self._checkpoint))
        if self.run.once:
            writer = writer.trigger(availableNow=True)
        else:
            interval = max(1, round(self.run.settings.trigger.interval * 1000))
            writer = writer.trigger(processingTime=f"{interval} milliseconds")
        with _one_partition(self.run.spark):
            self._query = writer.start()
        return [self._query]

    def _claimed_log(self) -> Log:
        if self._log is None:
            self._log = self._stack.enter_context(Log(self.run.settings.state.log, CORRELATIONS).claimed())
            self.run._follow()
        return self._log

    def follow(self) -> list[StreamingQuery]:
        """Start a new query if the correlations of the store are not those of the running query."""
        self.run.live.current()
        if self._repeats is not None:
            return []
        if self.run.live.correlations == self._records and self._validities() == self._validity:
            return []
        self.end()
        return self.start()

    def again(self, query: StreamingQuery, error: Exception) -> list[StreamingQuery]:
        """Start a new query in place of one that failed by no fault of its own; else raise the error.

        Before the first micro-batch Spark starts a Python process for a stateful query and gives it ten seconds, which
        cannot be set: too little on a busy machine.
        """
        if query is self._query and self._outdated:
            self.ended.append(query)
            return self.start()
        if query is not self._query or CONNECT not in str(error) or self._starts >= STARTS:
            raise error
        self._starts += 1
        logger.warning("warning: correlations start again: Spark's Python process did not start in time")
        return self.start()

    def end(self) -> None:
        """Stop the query between two micro-batches, so that Spark has committed each one that the log has."""
        query, self._query = self._query, None
        if query is None:
            return
        self._outdated = True
        with self._busy:  # waits for the micro-batch that has begun, and no other can begin
            self.ended.append(query)
        _stop(query, lambda: self._uncommitted() is None)

    def _uncommitted(self) -> int | None:
        """Return the last micro-batch if the log has committed it and Spark has not."""
        last = max(numbers(self._checkpoint / "offsets"), default=-1)
        if last < 0 or last in numbers(self._checkpoint / "commits"):
            return None
        return None if self._claimed_log().committed(self._beginning.first + last) is None else last

    def _validities(self) -> dict[str, Validity]:
        """Return by stream what its messages must be valid by, as the store has it now."""
        version = self.run.live.current().version
        return {name: self.run.publishers.validity(name, version) for name in self.run.settings.streams}

    def _found(self, standing: Iterable[Standing]) -> DataFrame:
        from pyspark.sql import functions as f

        from twigcast.spark.correlate import correlate

        standing, folder = list(standing), self._query_folder()
        ready = [Ready(one.id, one.digest, one.parsed()) for one in standing]
        shipped = Shipped.write(folder, [ready], files_of(self.run.spark.sparkContext))
        every: DataFrame | None = None
        for name, stream in self.run.settings.streams.items():
            some = self._messages(name, stream, shipped).withColumn("stream", f.lit(name))
            every = some if every is None else every.unionByName(some)
        assert every is not None
        own = self.run.settings.correlations
        return correlate(
            every.where("error is null"),
            standing,
            stream="stream",
            witness="witness",
            lateness=own.lateness,
            max_state_bytes=own.max_state,
            limits=self.run.settings.limits.limits(),
            everything=True,
            folder=folder,
        )

    def _query_folder(self) -> Path:
        """Return an empty folder for the files of a query. No query runs that has files there."""
        folder = self.run.settings.state.snapshots / CORRELATIONS
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def has_read(self, name: str, paths: Sequence[str]) -> bool:
        """Return whether the query has read these files of a stream. Without correlations nobody has to."""
        if not self.run.live.correlations:
            return True
        with self._state_lock:
            listing = self._listings.get(name)
            return listing is not None and listing.has_read(paths, self._reached(name))

    def forget(self, name: str, paths: Sequence[str]) -> None:
        """Forget the names of files that were cleared away: later files under these names are new messages."""
        with self._state_lock:
            if name in self._listings:
                self._listings[name].forget(paths)

    def _reached(self, name: str) -> int:
        """Return the last entry of a stream's listing log that Spark has committed."""
        checkpoint = self._checkpoint
        batch = max(numbers(checkpoint / "commits"), default=-1)
        ends = offsets(checkpoint, batch) if batch >= 0 else []
        place = list(self.run.settings.streams).index(name)
        return int(ends[place].get("entry", -1)) if place < len(ends) else -1

    def _open_state(self) -> None:
        """Check that the state is whole, and open the listing logs of directories; these take over older state."""
        checkpoint, log = self._checkpoint, self._claimed_log()
        self._beginning = Beginning.read(checkpoint, self.run.settings.state.path)
        check_checkpoint(checkpoint, log.last - self._beginning.first, log.folder)
        for place, (name, stream) in enumerate(self.run.settings.streams.items()):
            if isinstance(stream, config.Directory) and name not in self._listings:
                listing = self._open_listing(name, checkpoint)
                self._listings[name] = listing
                take_over_source(listing, checkpoint, place)
                batch = max(numbers(checkpoint / "offsets"), default=-1)
                ends = offsets(checkpoint, batch) if batch >= 0 else []
                if place < len(ends) and ends[place].get("entry", -1) >= listing.next:
                    raise StateDamaged(listing.path, "has lost files that have been read")
                if batch >= 0 and batch not in numbers(checkpoint / "commits"):
                    self._check_repeated(listing, batch, place)

    def _check_repeated(self, listing: Listing, batch: int, place: int) -> None:
        """Check that the files of a micro-batch are there, which Spark has not committed and will repeat.

        Files are cleared away only after the commit, so if they have been, the commit has been lost.
        """
        ends = [offsets(self._checkpoint, number) if number >= 0 else [] for number in (batch - 1, batch)]
        before, last = (int(of[place].get("entry", -1)) if place < len(of) else -1 for of in ends)
        for number in range(before + 1, last + 1):
            if not listing.entry(number).files:
                path = self._checkpoint / "commits" / str(batch)
                raise StateDamaged(path, "is missing, but the files of this micro-batch have been cleared away")

    def _open_listing(self, name: str, checkpoint: Path) -> Listing:
        stream = self.run.settings.streams[name]
        assert isinstance(stream, config.Directory)
        root, folder = check_inbox(local_folder(stream)), _listing_folder(checkpoint, name)
        return Listing(folder, root, name=f"stream {name!r}", **listing_options(stream))

    def _close_listings(self) -> None:
        while self._listings:
            self._listings.popitem()[1].close()

    def _messages(self, name: str, stream: config.AnyStream, correlations: Shipped) -> DataFrame:
        """Return the messages of a stream, with what correlations see of them; those that it refuses have an error."""
        limits = self.run.settings.limits.limits()
        place = self._beginning.streams.get(name, Place(0))
        table = isinstance(stream, config.Table)
        source = source_of(
            self.run.spark,
            stream,
            limits,
            _listing_folder(self._checkpoint, name),
            starting=place.kafka_offsets() if isinstance(stream, config.Kafka) else None,
            without=place.table_files(self.run.settings.state.checkpoints / name) if table else (),
        )
        reading = Reading(source.load, event_time_of(stream), self._validity[name])
        return source.frame.mapInArrow(SeeTask(reading, Seeing(correlations, name), limits), SEEN_SQL)

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


def _listing_folder(checkpoint: Path, name: str) -> Path:
    return checkpoint / "folders" / name


def _stop(query: StreamingQuery, is_committed: Callable[[], bool]) -> None:
    """Stop a query that begins no further micro-batch, once Spark has committed the last one."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):  # Spark may have ended
        while query.isActive and not is_committed():
            time.sleep(0.02)
        query.stop()
