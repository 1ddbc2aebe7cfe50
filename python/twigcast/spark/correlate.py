"""Correlations as a stage: messages in, results out, a DataFrame each. Their state is Spark's (RocksDB)."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from twigcast.correlate.default import MAX_BYTES
from twigcast.correlate.streams import check_streams
from twigcast.errors import OptionError
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.spark.serve import files_of
from twigcast.spark.stages.correlate import (
    FOUND,
    FOUND_SQL,
    LATE,
    RESULT,
    Blob,
    Buckets,
    Incoming,
    Storage,
    Stored,
    process,
)
from twigcast.spark.stages.messages import check_messages
from twigcast.spark.stages.preload import workers_with
from twigcast.spark.stages.standing import Ready, Shipped, Standing, spread
from twigcast.units import ENDLESS, duration_option, size_option

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def correlate(
    messages: DataFrame,
    subscriptions: Mapping[str, str | Correlation] | Iterable[Standing | Ready],
    *,
    stream: str | Column | None = None,
    id: str = "message",
    time: str = "time",
    xml: str = "xml",
    witness: str | None = None,
    buckets: int = 1,
    lateness: float | str | None = None,
    max_state_bytes: int | str = MAX_BYTES,
    limits: Limits | None = None,
    everything: bool = False,
    folder: Path | None = None,
) -> DataFrame:
    """What messages complete: columns ``subscription``, ``messages`` (their ids), ``time`` and ``payload``.

    ``messages`` is a streaming DataFrame or a static one. ``stream`` names the column that has the stream of a message
    (or is a column itself; none: they are on the one stream that queries name), ``time`` a timestamp or whole
    microseconds. ``witness`` names the column with what ``twigcast.spark.stages.seeing`` has found in messages for the
    same subscriptions: they are not read again. ``lateness`` is how much older than the newest message one may be, as
    `Broker` takes it: seconds, or a
    text such as ``"5 min"``; by default as much as the longest window. The queries are spread over ``buckets``, which
    all see every message: one is quickest, unless they are too many for the memory of a worker.
    (``spark.sql.shuffle.partitions`` should be no more than that when the query is started: to a task without a bucket,
    too, Spark gives a Python worker, which then has to take the state up when it gets the bucket.) With ``everything``,
    messages that correlations publish and those that came too late are rows too: see
    ``twigcast.spark.stages.correlate.FOUND``. Workers read the queries from files in ``folder``, which is a temporary
    one unless given; machines that do not see it fetch them from the driver.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    check_messages(messages, *([stream] if isinstance(stream, str) else []), id, time, xml)
    spark = messages.sparkSession
    if isinstance(subscriptions, Mapping):
        subscriptions = [Standing(id, query) for id, query in subscriptions.items()]
    subscriptions = list(subscriptions)
    for one in subscriptions:
        if not isinstance(one, Standing | Ready):
            text = f"subscriptions must be a dict of queries by id, not a list of {type(one).__name__}"
            raise OptionError("bad-subscriptions", text, hint='correlate(messages, {"id": "S/a->x JOIN{…} S/b->y"})')
    standing = [Ready.of(one) for one in subscriptions]
    check_streams({one.id: one.parsed() for one in standing})
    if buckets < 1:
        raise OptionError("bad-buckets", f"the number of buckets is {buckets}", hint="give 1 or more")
    by_bucket = spread(standing, buckets)
    used = [number for number, some in enumerate(by_bucket) if some] or [0]
    if lateness is None:  # the same for all buckets, whatever their windows
        late = max((_span(one.parsed()) for one in standing), default=0)
    else:
        late = duration_option("lateness", lateness, ENDLESS)
    most = size_option("max_state_bytes", max_state_bytes)
    shipped = _shipped(spark, by_bucket, folder)
    task = Buckets(shipped, late, most, limits or Limits(), used[0], seen=witness is not None)
    name = f.lit("") if stream is None else f.col(stream) if isinstance(stream, str) else stream
    when = f.col(time)
    if isinstance(messages.schema[time].dataType, TimestampType):
        when = f.unix_micros(when)
    rows = messages.select(
        name.alias("stream"),
        f.col(id).cast("string").alias("message"),
        when.alias("time"),
        f.col(xml).alias("xml"),
        (f.lit(None).cast("binary") if witness is None else f.col(witness)).alias("witness"),
    ).where("time is not null")
    if witness is None:
        rows = rows.where("xml is not null")
    rows = rows.withColumn("bucket", f.explode(f.array(*(f.lit(number) for number in used))))
    grouped = rows.groupBy("bucket")
    if messages.isStreaming:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        # Workers that no other stage gets: they keep what takes long to make.
        with workers_with(spark.sparkContext, "TWIGCAST_CORRELATIONS", task.run):
            found = grouped.transformWithStateInPandas(_processor(task), FOUND_SQL, "append", "None")
    else:
        found = grouped.applyInArrow(lambda key, table: _whole(task, key, table), FOUND_SQL)
    if everything:
        return found
    results = found.where(f.col("kind") == RESULT)
    return results.select("subscription", "messages", f.timestamp_micros("time").alias("time"), "payload")


def _span(correlation: Correlation) -> int:
    """How far apart the messages of a result can be."""
    windows = [link.window for link in correlation.links]
    return min(ENDLESS, sum(ENDLESS if window is None else window for window in windows))


def _shipped(spark: SparkSession, buckets: Sequence[Sequence[Standing | Ready]], folder: Path | None) -> Shipped:
    """Write the queries to files: Spark broadcasts a task of more than 1 MB, which stateful processors cannot read."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Shipped.write(folder, buckets, files_of(spark.sparkContext))


def late(found: DataFrame) -> DataFrame:
    """Of what ``correlate`` gives with ``everything``, the messages that came too late: stream, message, time."""
    from pyspark.sql import functions as f

    return found.where(f.col("kind") == LATE).select("stream", "message", f.timestamp_micros("time").alias("time"))


def _whole(task: Buckets, key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
    """All messages of a static DataFrame, in one go."""
    columns = [table.column(name).to_pylist() for name in Incoming._fields]
    incoming = [Incoming(*row) for row in zip(*columns, strict=True)]
    task = replace(task, run=uuid4().hex)  # nothing of it may be found by another attempt
    return pa.Table.from_pylist(list(process(task, key[0].as_py(), incoming, Storage())), FOUND)


class _Spark(Storage):
    """The state of a bucket in Spark's state store."""

    def __init__(self, handle: Any) -> None:
        self._stored = handle.getValueState("stored", "token string, first long, last long, newest long")
        self._since = handle.getValueState("since", "text string")
        self._blobs = handle.getMapState("blobs", "number long", "token string, latest long, data binary")

    def stored(self) -> Stored | None:
        return Stored(*self._stored.get()) if self._stored.exists() else None

    def store(self, stored: Stored) -> None:
        self._stored.update(tuple(stored))

    def blob(self, number: int) -> Blob | None:
        if not self._blobs.containsKey((number,)):
            return None
        token, latest, data = self._blobs.getValue((number,))
        return Blob(token, latest, bytes(data))

    def put(self, number: int, blob: Blob) -> None:
        self._blobs.updateValue((number,), tuple(blob))

    def drop(self, number: int) -> None:
        self._blobs.removeKey((number,))

    def since(self) -> str | None:
        return self._since.get()[0] if self._since.exists() else None

    def set_since(self, text: str) -> None:
        self._since.update((text,))


def _processor(task: Buckets) -> Any:
    from twigcast.spark.stages.processor import CorrelateProcessor

    return CorrelateProcessor(task, _Spark)
