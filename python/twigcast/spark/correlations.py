"""The correlations of a pipeline: one query of Spark over the messages of all streams, into a log of its own.

It reads the streams a second time, at its own pace and with its own checkpoint, so that what it is behind with holds up
no filter. When the store has other correlations than the query, it is stopped and goes on with these: its state says
since when each of them is there.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from twigcast import config
from twigcast.delivery import REPORT_SQL, Log, LogWriter
from twigcast.errors import OptionError
from twigcast.spark.sources import event_time_of, source_of
from twigcast.spark.sources.messages import MESSAGES_SQL
from twigcast.spark.stages.correlate import Standing
from twigcast.spark.stages.found import DeliverFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from twigcast.spark.pipeline import Run
    from twigcast.store import SubscriptionRecord

CORRELATIONS = "correlations"
"""The name of the log, and of the checkpoint."""


class CorrelationRun:
    def __init__(self, run: Run, stack: ExitStack) -> None:
        self.run = run
        self.stopping = threading.Event()
        self._stack = stack
        self._busy = threading.Lock()
        self._records: dict[str, SubscriptionRecord] = {}
        self._query: StreamingQuery | None = None
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
            self._query = writer.trigger(availableNow=True).start()
        else:
            interval = max(1, round(self.run.settings.trigger.interval * 1000))
            self._query = writer.trigger(processingTime=f"{interval} milliseconds").start()
        return [self._query]

    def follow(self) -> list[StreamingQuery]:
        """A new query if the store has changed what the running one knows."""
        self.run.live.current()
        if self.run.live.correlations == self._records:
            return []
        if self._query is not None:
            with self._busy:  # a batch that has begun is committed first
                self._query.stop()
            self._query = None
        return self.start()

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
        limits = self.run.settings.limits.limits()
        return correlate(every.where("error is null"), standing, stream="stream", limits=limits, everything=True)

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
            reports: list[dict[str, Any]] = [row.asDict() for row in frame.mapInArrow(task, REPORT_SQL).collect()]
            counts = log.commit(batch, published.version, reports)
            self.run._follow()
            self.run.told(CORRELATIONS, batch, counts, time.monotonic() - began, published)
