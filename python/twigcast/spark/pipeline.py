"""The pipeline: a query per stream, from its source into the delivery log; sinks follow the log.

Streams of folders are read by a thread of our own (``sources/following.py``), others by a streaming query of Spark.
A micro-batch takes one version of the subscriptions, matches, and commits its deliveries to the log by one rename: that
is all that can fail or be repeated. Sinks consume committed batches in threads of their own, at their own pace.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twigcast import config
from twigcast.delivery import Counts, Log, LogWriter
from twigcast.delivery.files import claimed
from twigcast.errors import StateDamaged, TwigcastError
from twigcast.spark.checkpoint import batch_time, check_table
from twigcast.spark.checkpoint import check as check_checkpoint
from twigcast.spark.correlations import CorrelationRun
from twigcast.spark.failures import cause_of, damage_of
from twigcast.spark.jars import kafka_connector, warn_of_connector
from twigcast.spark.live import LiveSet, Published
from twigcast.spark.paths import local_uri
from twigcast.spark.publishers import Publishers
from twigcast.spark.reach import check_kafka
from twigcast.spark.serve import files_of
from twigcast.spark.session import session
from twigcast.spark.sources import Source, event_time_of, listing_options, load_of, local_folder, source_of
from twigcast.spark.sources.directory import check_inbox
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.files import LoadFiles, check_record
from twigcast.spark.sources.following import GOES_ON, Following, clear
from twigcast.spark.sources.listing import Entry, Listing
from twigcast.spark.sources.messages import Load
from twigcast.spark.stages.archive import Archive
from twigcast.spark.stages.deliver import DeliverTask, commit_batch
from twigcast.spark.stages.messages import check_workers
from twigcast.spark.stages.preload import coming
from twigcast.spark.stages.validity import Validity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from twigcast.store import Store

logger = logging.getLogger(__name__)

REDRIVE = "redrive"
"""The folder of messages that were put back, and the end of their logs' names."""
REDRIVE_FILES = 1_000
MANY = 20_000
"""Subscriptions that take about as long to compile as Spark takes to start a daemon for them."""
LOOK_EVERY = 2.0
"""Seconds between two looks for messages that were put back, and for replays."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch that has been committed, and what this run has done so far."""

    stream: str
    batch: int
    counts: Counts
    seconds: float
    version: int
    """Of the store: what the batch was matched against."""
    subscriptions: int
    total: Counts
    """Of this run, all streams."""


@dataclass
class Watch:
    """What a run tells those who look on; each call may come from another thread."""

    on_batch: Callable[[Progress], None] = lambda progress: None
    on_start: Callable[[Run], None] = lambda run: None
    on_end: Callable[[Run], None] = lambda run: None
    """While what the run has can still be asked."""
    on_stage: Callable[[str], None] = lambda stage: None
    """Called when a stage of the start begins, with a few words for people."""


def check(settings: config.Pipeline) -> None:
    """What can be found wrong without starting anything: folders, paths, record names."""
    for name, stream in settings.streams.items():
        try:
            event_time_of(stream).check()
            if stream.publisher is not None:
                Validity((str(settings.publishers[stream.publisher].schema_file),)).check()
            if isinstance(stream, config.Directory):
                check_inbox(local_folder(stream))
                if stream.messages == "records":
                    check_record(stream.record, stream.namespaces)
        except TwigcastError as error:
            error.text = f"stream {name!r}: {error.text}"
            raise


def pipeline_session(
    settings: config.Pipeline,
    *,
    master: str | None = None,
    cores: int | None = None,
    ui: bool = False,
    once: bool = False,
    log: Path | None = None,
) -> SparkSession:
    """A session with what the configuration needs: Spark's own settings, and the connectors of its streams."""
    options = dict(settings.spark.options)
    kafka = any(isinstance(stream, config.Kafka) for stream in settings.streams.values())
    if kafka and not options.keys() & {"spark.jars", "spark.jars.packages"}:
        options["spark.jars"] = ",".join(map(str, kafka_connector()))
    elif kafka:
        import pyspark

        warn_of_connector(pyspark.__version__, options)
    quick = once or settings.trigger.once
    master = master or settings.spark.master
    return session(app="twigcast", master=master, cores=cores, ui=ui, quick=quick, log=log, settings=options)


class Run:
    """One run of a pipeline, from the claim on its state folder to the end of its sinks."""

    def __init__(
        self,
        settings: config.Pipeline,
        *,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
        once: bool | None = None,
        shards: int | None = None,
        watch: Watch | None = None,
        stop: threading.Event | None = None,
        patience: float = 30.0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """``patience``: with ``once``, seconds to wait for a sink that gets nowhere; the next run goes on there.
        ``prepare`` is called when the state folder is this run's alone, before anything in it is opened."""
        self.settings = settings
        self.once = settings.trigger.once if once is None else once
        self.shards = shards or settings.spark.shards
        self.stop = stop or threading.Event()
        self.watch = watch or Watch()
        self.patience = patience
        self.total = Counts()
        self.started = time.time()
        self.id = uuid.uuid4().hex[:8]
        self.lock = threading.Lock()
        self.unmatched = 0
        """Messages of this run that were matched against no subscription at all, for there was no active one."""
        self.drained = True
        """False if, with ``once``, the run ended before all was delivered; ``undelivered`` then counts, per sink."""
        self.undelivered: dict[str, int] = {}
        self._spark = spark
        self._prepare = prepare
        self.streams: dict[str, StreamRun] = {}
        self.listings: dict[str, Listing] = {}

    def __call__(self) -> Counts:
        """Runs until ``stop`` is set, or, with ``once``, until what is there is done; returns what it did."""
        from twigcast.delivery.runner import Runner
        from twigcast.store import Store

        settings, state = self.settings, self.settings.state
        check(settings)
        check_kafka(settings)
        with ExitStack() as stack:
            self._stack = stack
            stack.enter_context(claimed(state.path))
            if self._prepare is not None:
                self._prepare()
            store = stack.enter_context(Store.open(settings.store.url, history=settings.store.history))
            self.paused = PausedSubscriptions(store)
            logs = {name: stack.enter_context(Log(state.log, name).claimed()) for name in settings.streams}
            for name, of in logs.items():
                self._open_state(name, of)
            self.publishers = Publishers(settings, store)
            self.runner = Runner(settings, store, pausing=store)
            self.spark = spark = self._session()
            check_workers(spark.sparkContext)
            self.watch.on_stage("loading subscriptions")
            files = files_of(spark.sparkContext)
            limits = settings.limits.limits()
            sources = self.settings.streams
            self.live = LiveSet(store, state.snapshots, shards=self.shards, limits=limits, files=files, sources=sources)
            with coming(spark, self.live.first_base if len(store) >= MANY else None):
                self.live.current()  # now, so that what is wrong with the store is known before anything runs
            if not self.live.active:
                logger.warning(
                    "warning: no active subscriptions in the store %s: messages are consumed and reach nobody;"
                    " twigcast subscribe adds one",
                    store.name,
                )
            for name, of in logs.items():
                self.streams[name] = self._stream(spark, name, of)
            self.correlations = CorrelationRun(self, stack)
            self.correlations.prepare()
            with self.runner:
                self.watch.on_start(self)
                try:
                    self._queries()
                    if self.once:
                        self.drained = self.runner.drain(self.stop, self.patience)
                        self.undelivered = {} if self.drained else self.runner.undelivered()
                finally:
                    self.watch.on_end(self)
            return self.total

    def busy(self) -> list[str]:
        """Return the streams that a micro-batch is under way for."""
        return [name for name, stream in list(self.streams.items()) if stream.busy.locked()]

    def _session(self) -> SparkSession:
        if self._spark is None:
            return pipeline_session(self.settings, once=self.once)
        return self._spark() if callable(self._spark) else self._spark

    def _open_state(self, name: str, log: Log) -> None:
        """Check, before Spark starts, that a stream's log fits what remembers its place in the source."""
        stream, folder = self.settings.streams[name], self.settings.state.checkpoints / log.stream
        if isinstance(stream, config.Directory):
            root, options = check_inbox(local_folder(stream)), listing_options(stream)
            self._open_listing(log, folder, root, name=f"stream {name!r}", **options)
        else:
            check_checkpoint(folder, log.last, log.folder)
            if isinstance(stream, config.Table):
                check_table(folder, stream.path)

    def _open_listing(self, log: Log, folder: Path, root: Path, **options: Any) -> Listing:
        listing = Listing.opened(folder, root, log.last, log.folder, **options)
        self._stack.callback(listing.close)
        self.listings[log.stream] = listing
        return listing

    def _stream(self, spark: SparkSession, name: str, log: Log) -> StreamRun:
        settings = self.settings
        stream = settings.streams[name]
        limits = settings.limits.limits()
        archive = None
        if settings.archive is not None:
            archive = Archive.of(settings.archive.path, name, self.runner.outbox.state)
            archive.open()
        time = event_time_of(stream)
        if isinstance(stream, config.Directory):
            load, listing = load_of(stream, limits), self.listings[name]
            return FolderRun(self, name, load, time, log, archive, listing, stream.after, stream.move_to)
        source = source_of(spark, stream, limits)
        return SparkRun(self, name, source.load, time, log, archive, source, settings.state.checkpoints / name)

    def _queries(self) -> None:
        queries: list[StreamingQuery | Following] = []
        try:
            self._redrive()
            for stream in list(self.streams.values()):
                queries.append(stream.start())
            queries += self.correlations.start()
            self._wait(queries)
            for stream in self.streams.values():
                stream.tidy()
        finally:
            for stream in self.streams.values():
                stream.stopping.set()
            self.correlations.stopping.set()
            self.correlations.end()
            for query in queries:
                _stop(query)

    def told(self, stream: str, batch: int, counts: Counts, seconds: float, published: Published) -> Progress:
        """A micro-batch has been committed: sinks and onlookers hear of it."""
        self.runner.wake()
        with self.lock:
            self.total.add(counts)
            if not published.subscriptions and not published.correlations:
                self.unmatched += counts.messages
            total = Counts()
            total.add(self.total)
        progress = Progress(stream, batch, counts, seconds, published.version, published.subscriptions, total)
        self.watch.on_batch(progress)
        return progress

    def _redrive(self) -> list[StreamRun]:
        """Return a new run for each stream that messages have been put back for since the last look."""
        new: list[StreamRun] = []
        for name in self.settings.streams:
            folder, log_name = self.settings.state.path / REDRIVE / name, f"{name}.{REDRIVE}"
            if log_name in self.streams or not folder.is_dir():
                continue
            log = self._stack.enter_context(Log(self.settings.state.log, log_name).claimed())
            checkpoint = self.settings.state.checkpoints / log_name
            listing = self._open_listing(log, checkpoint, folder.resolve(), max_files=REDRIVE_FILES)
            limits = self.settings.limits.limits()
            load = LoadFiles(str(listing.root), max_bytes=limits.max_bytes)
            time = event_time_of(self.settings.streams[name])
            run = FolderRun(self, name, load, time, log, None, listing, "delete")
            self.streams[log_name] = run
            new.append(run)
        self._follow()
        return new

    def _follow(self) -> None:
        """Sinks also follow the logs of messages that were put back, and of replays."""
        logs = dict(self.runner.logs)
        for folder in self.settings.state.log.iterdir():
            if folder.name not in logs and (folder.name in self.streams or any(folder.glob("batch-*.json"))):
                logs[folder.name] = Log(self.settings.state.log, folder.name)
        if len(logs) > len(self.runner.logs):
            self.runner.logs = logs  # in one step: threads are looking at it
            self.runner.wake()

    def _wait(self, queries: list[StreamingQuery | Following]) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        hint = GOES_ON
        running = list(queries)
        looked = time.monotonic()
        try:
            # Short waits: a signal handler of Python runs only between them.
            while running and not self.stop.is_set():
                self.runner.check()
                if time.monotonic() - looked > LOOK_EVERY:
                    looked = time.monotonic()
                    self.correlations.release()
                    fresh = [] if self.once else [stream.start() for stream in self._redrive()]
                    fresh += [] if self.once else self.correlations.follow()
                    queries += fresh
                    running = [query for query in running + fresh if query not in self.correlations.ended]
                for query in list(running):
                    try:
                        ended = query.awaitTermination(0.2 / len(running))  # type: ignore[arg-type]
                    except PySparkException as error:
                        if isinstance(query, Following):
                            raise
                        again = self.correlations.again(query, error)
                        queries += again
                        running += again
                        ended = True
                    if ended:
                        running.remove(query)
                # The query over correlations follows the streams, and does not end by itself.
                if self.once and running == [self.correlations.query] and self.correlations.has_read_all():
                    break
        except PySparkException as error:
            if (damage := damage_of(error)) is not None:
                raise damage from error
            if "CANNOT_LOAD_STATE_STORE" in str(error):
                raise StateDamaged(self.settings.state.checkpoints, f"has lost state: {cause_of(error)}") from error
            raise TwigcastError("run-failed", cause_of(error), hint=hint) from error
        except (Py4JError, OSError) as error:
            raise TwigcastError("spark-died", f"Spark has ended: {cause_of(error)}", hint=hint) from error


class PausedSubscriptions:
    """The subscriptions that were paused because they kept failing, read again when the store has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = -1
        self._known: dict[str, str] = {}

    def reasons(self) -> dict[str, str]:
        """Return the reasons by id; those last known while the store cannot be reached."""
        with suppress(TwigcastError):
            version = self._store.version
            if version != self._version:
                self._known, self._version = self._store.paused_failing(), version
        return self._known


@dataclass
class StreamRun(ABC):
    """One stream on its way from the source into its delivery log."""

    run: Run
    name: str
    load: Load
    time: EventTime
    log: Log
    archive: Archive | None
    stopping: threading.Event = field(default_factory=threading.Event, kw_only=True)
    busy: threading.Lock = field(default_factory=threading.Lock, kw_only=True)
    last: Progress | None = field(default=None, kw_only=True)
    at: float = field(default=0.0, kw_only=True)
    """When the last batch was committed."""
    total: Counts = field(default_factory=Counts, kw_only=True)

    @abstractmethod
    def start(self) -> StreamingQuery | Following:
        """Begin to read."""

    def tidy(self) -> None:  # noqa: B027
        """Clear away what has been read, where the stream says so. Only folders can be."""

    def commit(self, frame: DataFrame, batch: int, arrival: int) -> None:
        """Match the rows of a micro-batch, which arrived at this time, and commit what was found."""
        began = time.monotonic()
        correlations = self.run.correlations
        published = correlations.begin_batch()
        # What was put back is not correlated.
        seeing = correlations.seeing(self.name, published) if self.name == self.log.stream else None
        writer = LogWriter(str(self.log.staging), self.name)
        task = DeliverTask(
            self.load,
            replace(self.time, arrival=arrival),
            self.name,
            published.shards[0],
            writer,
            self.archive,
            validity=self.run.publishers.validity(self.name, published.version),
            seeing=seeing,
        )
        counts = commit_batch(frame, task, published, self.log, batch)
        self._tell(batch, counts, time.monotonic() - began, published)

    def _tell(self, batch: int, counts: Counts, seconds: float, published: Published) -> None:
        self.total.add(counts)
        self.at = time.time()
        self.last = self.run.told(self.name, batch, counts, seconds, published)


@dataclass
class SparkRun(StreamRun):
    """A stream that a streaming query of Spark reads; its checkpoint has the place in the source."""

    source: Source
    checkpoint: Path

    def start(self) -> StreamingQuery:
        writer = self.source.frame.writeStream.foreachBatch(self.batch).queryName(f"{self.log.stream} {self.run.id}")
        writer = writer.option("checkpointLocation", local_uri(self.checkpoint))
        if self.run.once:
            return writer.trigger(availableNow=True).start()
        interval = max(1, round(self.run.settings.trigger.interval * 1000))
        return writer.trigger(processingTime=f"{interval} milliseconds").start()

    def batch(self, frame: DataFrame, batch: int) -> None:
        """Commit a micro-batch, unless an earlier run has, which ended before Spark knew."""
        with self.busy:
            if self.stopping.is_set():
                raise InterruptedError("stopped before this micro-batch began; the next run does it")
            if self.log.committed(batch) is None:
                self.commit(frame, batch, batch_time(self.checkpoint, batch))


@dataclass
class FolderRun(StreamRun):
    """A stream of the files of a folder; its listing log has the micro-batches."""

    listing: Listing
    after: str = "keep"
    move_to: Path | None = None
    clearing: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    def start(self) -> Following:
        if self.after != "keep":
            self._keep_unread(self.log.last)  # the last run may have ended right after its commit
        interval = None if self.run.once else self.run.settings.trigger.interval
        return Following(self.listing, self.batch, self._last, interval=interval, tidy=self.tidy).start()

    def _last(self) -> int:
        return self.log.last

    def batch(self, entry: Entry) -> None:
        """Commit a micro-batch of the listing log."""
        with self.busy:
            if self.stopping.is_set():
                raise InterruptedError("stopped before this micro-batch began; the next run does it")
            paths = pa.table({"path": pa.array(entry.paths, pa.string())})
            self.commit(self.run.spark.createDataFrame(paths), entry.number, entry.arrival)
            if self.after != "keep":
                self._keep_unread(entry.number)

    def tidy(self) -> None:
        if self.after == "keep":
            return
        with self.clearing:
            for entry in self.listing.finished(self.log.last):
                clear(self.listing, entry, self.move_to)

    def _keep_unread(self, batch: int) -> None:
        """Keep the files whose content is nowhere else: messages that were refused without being read."""
        unread: set[str] = set()
        for one in self.log.batches(batch - 1):
            for rows in one.dead() if one.batch == batch else ():
                refused = rows.filter(rows.column("original").is_null())
                unread.update(id.partition("#")[0] for id in refused.column("message").to_pylist())
                unread.update(refused.column("message").to_pylist())
        if unread:
            self.listing.keep(unread)


def _stop(query: StreamingQuery | Following) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        query.stop()
