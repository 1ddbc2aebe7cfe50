"""Kafka as a source, through Spark's own connector. A message's id is topic/partition/offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.spark.sources.messages import HEADERS, Source, message_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_OFFSETS = 20_000
"""Messages per micro-batch unless configured: seconds of work, and a restart after a crash repeats no more."""


def kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    starting: str = "earliest",
    max_offsets: int = MAX_OFFSETS,
    options: Mapping[str, str] | None = None,
) -> Source:
    """The values of one or several (comma-separated) topics. ``options`` are the connector's, ``kafka.…`` included."""
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", max_offsets)
        .option("startingOffsets", starting)  # of a first run; later ones go on at the checkpoint
        # What a transaction has not committed is no message.
        .option("kafka.isolation.level", "read_committed")
    )
    for name, value in (options or {}).items():
        reader = reader.option(name, value)
    frame = reader.load().selectExpr(
        "concat_ws('/', topic, partition, offset) as message",
        "timestamp as time",
        "headers",
        "key",
        "value as xml",
    )
    return Source(frame, load)


def load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From the connector's columns to messages; runs in a worker. The key is the header ``kafka.key``."""
    for batch in batches:
        headers = [
            _headers(key, pairs)
            for key, pairs in zip(batch.column("key").to_pylist(), batch.column("headers").to_pylist(), strict=True)
        ]
        yield message_batch(
            batch.column("message"),
            batch.column("xml"),
            time=batch.column("time"),
            headers=pa.array(headers, HEADERS),
            arrival=batch.column("arrival") if "arrival" in batch.schema.names else None,
        )


def _headers(key: bytes | None, pairs: list[dict[str, bytes | str]] | None) -> list[tuple[str, str | None]] | None:
    # A map has each name once; the last value stands, as with most clients.
    found: dict[str, str | None] = {} if key is None else {"kafka.key": _text(key)}
    for pair in pairs or ():
        name, value = pair["key"], pair["value"]
        found[str(name)] = _text(value) if isinstance(value, bytes) else value
    return list(found.items()) or None


def _text(data: bytes) -> str:
    """Return the text of a key or a header. They may be any bytes: what is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")
