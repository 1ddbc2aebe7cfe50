"""The parts of a pipeline for a Spark job of one's own: DataFrames in, DataFrames or a delivery log out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from twigcast import config
from twigcast.delivery import Counts, Log, LogWriter
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.spark.live import LiveSet
from twigcast.spark.pipeline import Run, Watch
from twigcast.spark.sources import event_time_of, source_of
from twigcast.spark.sources.event_time import TRANSPORT, EventTime
from twigcast.spark.sources.messages import MESSAGES_SQL, dated
from twigcast.spark.sources.table import frame_source
from twigcast.spark.stages.deliver import DeliverTask, commit_batch
from twigcast.spark.stages.messages import check_messages, check_workers
from twigcast.spark.stages.validity import ReadTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    stream: config.AnyStream | Mapping[str, Any],
    *,
    limits: Limits | None = None,
    state: str | Path | None = None,
) -> DataFrame:
    """Return a stream of the configuration as a streaming DataFrame.

    Its columns are ``message``, ``time``, ``headers``, ``xml`` and ``error``. ``stream`` may be a dict, as the file has
    it: ``{"source": "directory", "path": "in", "messages": "lines"}``. A directory needs a folder ``state`` for its
    listing log: one for each checkpoint, and to be kept as long. Where ``time`` is a path, messages are read for it,
    and those that cannot be read have an ``error``; else they have one only when they are matched.
    """
    check_workers(spark.sparkContext)
    if isinstance(stream, Mapping):
        stream = stream_of(stream)
    limits = limits or Limits()
    source = dated(source_of(spark, stream, limits, None if state is None else Path(state)))
    time = event_time_of(stream)
    time.check()
    return source.frame.mapInArrow(ReadTask(source.load, time, limits), MESSAGES_SQL)


def stream_of(values: Mapping[str, Any]) -> config.AnyStream:
    """A stream from a dict, checked as one from a file is."""
    from pydantic import ValidationError

    try:
        adapter: TypeAdapter[config.AnyStream] = TypeAdapter(config.AnyStream)
        return adapter.validate_python(dict(values), context={"folder": Path.cwd()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "source"
        raise OptionError("bad-stream", f"{place}: {first['msg']}", hint="see docs/configuration.md") from None


def deliver(
    messages: DataFrame, subscriptions: LiveSet, log: Log, batch: int, *, id: str = "message", xml: str = "xml"
) -> Counts:
    """Match a static DataFrame (in a stream: inside ``foreachBatch``) and commit its deliveries to a claimed log.

    Called again for a batch that has been committed, it does nothing. Columns ``time`` and ``headers`` are taken along
    if there are some. Sinks (``twigcast.delivery``) follow the log.
    """
    check_messages(messages, id, xml)
    if not isinstance(subscriptions, LiveSet):
        text = f"subscriptions must be a LiveSet, not {type(subscriptions).__name__}"
        raise OptionError("bad-subscriptions", text, hint="LiveSet(store, folder) follows a store")
    done = log.committed(batch)
    if done is not None:
        return done
    has = messages.columns
    source = frame_source(
        messages,
        id_column=id,
        xml_column=xml,
        time_column="time" if "time" in has else None,
        headers_column="headers" if "headers" in has else None,
    )
    published = subscriptions.current()
    writer = LogWriter(str(log.staging), log.stream)
    task = DeliverTask(source.load, EventTime(TRANSPORT), log.stream, published.shards[0], writer)
    return commit_batch(source.frame, task, published, log, batch)


def pipeline(
    settings: config.Pipeline | str | Path,
    *,
    spark: SparkSession | None = None,
    once: bool | None = None,
    watch: Watch | None = None,
) -> Counts:
    """Run a whole configuration, as ``twigcast run`` does; returns what went through."""
    if not isinstance(settings, config.Pipeline):
        settings = config.load(settings)
    return Run(settings, spark=spark, once=once, watch=watch)()


__all__ = ["deliver", "pipeline", "read", "stream_of"]
