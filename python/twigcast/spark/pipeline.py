"""The pipeline: one Structured Streaming query per stream, from its source into the delivery log; sinks follow the log.

A micro-batch takes one version of the subscriptions, matches, and commits its deliveries to the log by one rename: that
is all that can fail or be repeated. Sinks consume committed batches in threads of their own, at their own pace.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast import config
from twigcast.delivery import Counts, Log, LogWriter
from twigcast.delivery.files import claimed
from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.checkpoint import batch_time
from twigcast.spark.correlations import CorrelationRun
from twigcast.spark.failures import cause
from twigcast.spark.jars import kafka_connector, warn_of_connector
from twigcast.spark.live import LiveSet, Published
from twigcast.spark.publishers import Publishers
from twigcast.spark.reach import check_kafka
from twigcast.spark.serve import files_of
from twigcast.spark.session import session
from twigcast.spark.sources import Source, event_time_of, local_folder, source_of
from twigcast.spark.sources.directory import check_inbox, listed_by_the_driver, unnameable
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.files import check_record, files
from twigcast.spark.stages.archive import Archive
from twigcast.spark.stages.commit import commit_batch
from twigcast.spark.stages.deliver import DeliverTask
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


def warn(settings: config.Pipeline) -> None:
    """What would else go wrong in silence."""
    for name, stream in settings.streams.items():
        skipped = unnameable(local_folder(stream)) if isinstance(stream, config.Directory) else 0
        if skipped:
            text = "warning: stream %r: %s file names are not UTF-8; Spark does not see such files"
            logger.warning(text, name, skipped)


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
    ) -> None:
        """``patience``: with ``once``, seconds to wait for a sink that gets nowhere; the next run goes on there."""
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
        self.streams: dict[str, StreamRun] = {}

    def __call__(self) -> Counts:
        """Runs until ``stop`` is set, or, with ``once``, until what is there is done; returns what it did."""
        from twigcast.delivery.runner import Runner
        from twigcast.store import Store

        settings, state = self.settings, self.settings.state
        check(settings)
        warn(settings)
        check_kafka(settings)
        with ExitStack() as stack:
            stack.enter_context(claimed(state.path))
            store = stack.enter_context(Store.open(settings.store.url, history=settings.store.history))
            self.paused = PausedSubscriptions(store)
            logs = {name: stack.enter_context(Log(state.log, name).claimed()) for name in settings.streams}
            for name, of in logs.items():
                _check_state(of, state.checkpoints / name)
            self.publishers = Publishers(settings, store)
            self.runner = Runner(settings, store, pausing=store)
            self._stack = stack
            self.spark = spark = self._session()
            check_workers(spark.sparkContext)
            self.watch.on_stage("loading subscriptions")
            files = files_of(spark.sparkContext)
            limits = settings.limits.limits()
            self.live = LiveSet(store, state.snapshots, shards=self.shards, limits=limits, files=files)
            with coming(spark, self.live.first_base if len(store) >= MANY else None):
                self.live.current()  # now, so that what is wrong with the store is known before anything runs
            if not self.live.active:
                logger.warning(
                    "warning: no active subscriptions in the store %s: messages are consumed and reach nobody;"
                    " twigcast subscribe adds one",
                    store.name,
                )
            most = max((s.max_files for s in settings.streams.values() if isinstance(s, config.Directory)), default=32)
            stack.enter_context(listed_by_the_driver(spark, most))
            for name, of in logs.items():
                self.streams[name] = self._stream(spark, name, of)
            self.correlations = CorrelationRun(self, stack)
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

    def _stream(self, spark: SparkSession, name: str, log: Log) -> StreamRun:
        settings = self.settings
        stream = settings.streams[name]
        source = source_of(spark, stream, settings.limits.limits())
        archive = None
        if settings.archive is not None:
            archive = Archive.of(settings.archive.path, name, self.runner.outbox.state)
            archive.open()
        return StreamRun(self, name, source, event_time_of(stream), log, settings.state.checkpoints / name, archive)

    def _queries(self) -> None:
        queries: list[StreamingQuery] = []
        try:
            self._redrive()
            for stream in list(self.streams.values()):
                queries.append(stream.start())
            queries += self.correlations.start()
            self._wait(queries)
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
            if not published.subscriptions and not self.live.correlations:
                self.unmatched += counts.messages
            total = Counts()
            total.add(self.total)
        progress = Progress(stream, batch, counts, seconds, published.version, published.subscriptions, total)
        self.watch.on_batch(progress)
        return progress

    def _redrive(self) -> list[StreamRun]:
        """A query for each stream that refused messages have been put back for, once there are some."""
        new = []
        for name in self.settings.streams:
            folder, log_name = self.settings.state.path / REDRIVE / name, f"{name}.{REDRIVE}"
            if log_name in self.streams or not folder.is_dir():
                continue
            of = self._stack.enter_context(Log(self.settings.state.log, log_name).claimed())
            checkpoint = self.settings.state.checkpoints / log_name
            _check_state(of, checkpoint)
            limits = self.settings.limits.limits()
            source = files(self.spark, folder, max_bytes=limits.max_bytes, max_files=REDRIVE_FILES, clean=True)
            run = StreamRun(self, name, source, event_time_of(self.settings.streams[name]), of, checkpoint, None)
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

    def _wait(self, queries: list[StreamingQuery]) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        hint = "nothing is lost: a restart goes on here"
        running = list(queries)
        looked = time.monotonic()
        try:
            # Short waits: a signal handler of Python runs only between them.
            while running and not self.stop.is_set():
                self.runner.check()
                if not self.once and time.monotonic() - looked > LOOK_EVERY:
                    looked = time.monotonic()
                    fresh = [stream.start() for stream in self._redrive()] + self.correlations.follow()
                    queries += fresh
                    running = [query for query in running + fresh if query not in self.correlations.ended]
                for query in list(running):
                    try:
                        ended = query.awaitTermination(0.2 / len(running))  # type: ignore[arg-type]
                    except PySparkException as error:
                        fresh = self.correlations.again(query, error)
                        queries += fresh
                        running += fresh
                        ended = True
                    if ended:
                        running.remove(query)
        except PySparkException as error:
            raise TwigcastError("run-failed", cause(str(error)), hint=hint) from error
        except (Py4JError, OSError) as error:
            raise TwigcastError("spark-died", f"Spark has ended: {error}", hint=hint) from error


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
class StreamRun:
    """One stream's query."""

    run: Run
    name: str
    source: Source
    time: EventTime
    log: Log
    checkpoint: Path
    archive: Archive | None
    stopping: threading.Event = field(default_factory=threading.Event)
    busy: threading.Lock = field(default_factory=threading.Lock)
    last: Progress | None = None
    at: float = 0.0
    """When the last batch was committed."""
    total: Counts = field(default_factory=Counts)

    def start(self) -> StreamingQuery:
        writer = self.source.frame.writeStream.foreachBatch(self.batch).queryName(f"{self.log.stream} {self.run.id}")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        if self.run.once:
            return writer.trigger(availableNow=True).start()
        interval = max(1, round(self.run.settings.trigger.interval * 1000))
        return writer.trigger(processingTime=f"{interval} milliseconds").start()

    def batch(self, frame: DataFrame, batch: int) -> None:
        with self.busy:
            if self.stopping.is_set():
                raise InterruptedError("stopped before this micro-batch began; the next run does it")
            if self.log.committed(batch) is not None:
                return  # by an earlier run, which ended before Spark knew
            began = time.monotonic()
            published = self.run.live.current()
            if self.source.complete is not None:
                frame = self.source.complete(frame, self.checkpoint, batch)
            # Known from the checkpoint: a column of one value would only make rows longer.
            frame = frame.drop("arrival")
            writer = LogWriter(str(self.log.staging), self.name)
            task = DeliverTask(
                self.source.load,
                replace(self.time, arrival=batch_time(self.checkpoint, batch)),
                self.name,
                published.shards[0],
                writer,
                self.archive,
                validity=self.run.publishers.validity(self.name, published.version),
            )
            counts = commit_batch(frame, task, published, self.log, batch)
            self._tell(batch, counts, time.monotonic() - began, published)

    def _tell(self, batch: int, counts: Counts, seconds: float, published: Published) -> None:
        self.total.add(counts)
        self.at = time.time()
        self.last = self.run.told(self.name, batch, counts, seconds, published)


def _check_state(log: Log, checkpoint: Path) -> None:
    """Log and checkpoint number batches together: with one of them lost, messages would be skipped or repeated."""
    committed = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    begun = (checkpoint / "offsets").is_dir()
    if (log.last >= 0 and not begun) or max(committed, default=-1) > log.last:
        raise OptionError(
            "state-damaged",
            f"{checkpoint.parent.parent} has only a part of what the stream {log.stream!r} needs to go on",
            hint="restore the state folder as a whole, or give an empty one to start from nothing",
        )


def _stop(query: StreamingQuery) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        query.stop()
