"""The correlations of a pipeline: one query of Spark over the messages of all streams, into a log of its own.

It reads the streams a second time, at its own pace and with its own checkpoint, so that what it is behind with holds up
no filter. When the store has other correlations than the query, it is stopped and goes on with these: its state says
since when each of them is there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from twigcast import config
from twigcast.correlation import SECOND
from twigcast.delivery import REPORT_SQL, Log, LogWriter
from twigcast.errors import OptionError
from twigcast.spark.sources import event_time_of, source_of
from twigcast.spark.sources.messages import MESSAGES_SQL
from twigcast.spark.stages.correlate import EVICTED
from twigcast.spark.stages.found import DeliverFound
from twigcast.spark.stages.standing import Standing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from twigcast.spark.pipeline import Run
    from twigcast.store import SubscriptionRecord

logger = logging.getLogger(__name__)

CORRELATIONS = "correlations"
"""The name of the log, and of the checkpoint."""


CONNECT = "failed to connect back"
STARTS = 5


class CorrelationRun:
    def __init__(self, run: Run, stack: ExitStack) -> None:
        self.run = run
        self.stopping = threading.Event()
        self.ended: list[StreamingQuery] = []
        """Queries that others have taken the place of; how they ended is of no interest."""
        self._stack = stack
        self._busy = threading.Lock()
        self._records: dict[str, SubscriptionRecord] = {}
        self._query: StreamingQuery | None = None
        self._starts = 1
        self._log: Log | None = None

    def start(self) -> list[StreamingQuery]:
        """Of the correlations that the store has now, if there are any."""
        self._records = dict(self.run.live.correlations)
        if not self._records:
            return []
        if CORRELATIONS in self.run.settings.streams:
            raise OptionError(
                "bad-stream", f"no stream can be named {CORRELATIONS!r}: their results are", hint="rename it"
            )
        state = self.run.settings.state
        if self._log is None:
            self._log = self._stack.enter_context(Log(state.log, CORRELATIONS).claimed())
            self.run._follow()
        writer = self._found().writeStream.foreachBatch(self._batch).queryName(f"{CORRELATIONS} {self.run.id}")
        writer = writer.option("checkpointLocation", str(state.checkpoints / CORRELATIONS))
        if self.run.once:
            writer = writer.trigger(availableNow=True)
        else:
            interval = max(1, round(self.run.settings.trigger.interval * 1000))
            writer = writer.trigger(processingTime=f"{interval} milliseconds")
        with _one_partition(self.run.spark):
            self._query = writer.start()
        return [self._query]

    def follow(self) -> list[StreamingQuery]:
        """A new query if the store has changed what the running one knows."""
        self.run.live.current()
        if self.run.live.correlations == self._records:
            return []
        if self._query is not None:
            self._end(self._query)
            self._query = None
        return self.start()

    def again(self, query: StreamingQuery, error: Exception) -> list[StreamingQuery]:
        """A new query if that one failed by no fault of its own; else raises the error.

        To begin with, Spark starts a Python process of its own for a stateful query and gives it ten seconds, which is
        no setting: too little where a machine has much else to do. No batch has begun then."""
        if query is not self._query or CONNECT not in str(error) or self._starts >= STARTS:
            raise error
        self._starts += 1
        logger.warning("warning: correlations start again: Spark's Python process did not start in time")
        self._query = None
        return self.start()

    def _end(self, query: StreamingQuery) -> None:
        self.stopping.set()
        with self._busy:  # a batch that has begun is committed first; not held on, for the next one may wait for it
            self.ended.append(query)
        _stop(query)
        self.stopping.clear()

    def _found(self) -> DataFrame:
        from pyspark.sql import functions as f

        from twigcast.spark.correlate import correlate

        every: DataFrame | None = None
        for name, stream in self.run.settings.streams.items():
            some = self._messages(stream).withColumn("stream", f.lit(name))
            every = some if every is None else every.unionByName(some)
        assert every is not None
        standing = [
            Standing(r.id, r.query, tuple(sorted((r.namespaces or {}).items())), r.default_namespace)
            for r in self._records.values()
        ]
        own = self.run.settings.correlations
        return correlate(
            every.where("error is null"),
            standing,
            stream="stream",
            lateness=None if own.lateness is None else round(own.lateness * SECOND),
            max_state_bytes=own.max_state,
            limits=self.run.settings.limits.limits(),
            everything=True,
        )

    def _messages(self, stream: config.AnyStream) -> DataFrame:
        from twigcast.spark.api import _Read

        source = source_of(self.run.spark, stream, self.run.settings.limits.limits())
        return source.frame.mapInArrow(_Read(source.load, event_time_of(stream)), MESSAGES_SQL)

    def _batch(self, frame: DataFrame, batch: int) -> None:
        with self._busy:
            if self.stopping.is_set():
                raise InterruptedError("stopped before this micro-batch began; the next run does it")
            log = self._log
            assert log is not None
            if log.committed(batch) is not None:
                return  # by an earlier run, which ended before Spark knew
            began = time.monotonic()
            published = self.run.live.current()
            traits = {id: (r.subscriber, r.max_delay) for id, r in self._records.items()}
            task = DeliverFound(LogWriter(str(log.staging), CORRELATIONS), traits, published.shards)
            evicted, frame = _observed(frame)
            reports: list[dict[str, Any]] = [row.asDict() for row in frame.mapInArrow(task, REPORT_SQL).collect()]
            counts = log.commit(batch, published.version, reports)
            self._warn(evicted.get)
            self.run._follow()
            self.run.told(CORRELATIONS, batch, counts, time.monotonic() - began, published)

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


def _stop(query: StreamingQuery) -> None:
    from pyspark.errors import PySparkException

    with suppress(PySparkException):
        query.stop()
