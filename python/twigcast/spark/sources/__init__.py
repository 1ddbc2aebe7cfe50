"""Where messages come from: one file per source, each gives a :class:`Source`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twigcast import config
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.references import resolve
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.files import files
from twigcast.spark.sources.kafka import kafka
from twigcast.spark.sources.messages import Source as Source
from twigcast.spark.sources.messages import dated
from twigcast.spark.sources.table import table
from twigcast.spark.sources.testing import rate, socket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source_of(spark: SparkSession, stream: config.AnyStream, limits: Limits) -> Source:
    """Return the source that a stream of the configuration names; its rows have a column ``arrival``."""
    return dated(_source_of(spark, stream, limits))


def _source_of(spark: SparkSession, stream: config.AnyStream, limits: Limits) -> Source:
    if isinstance(stream, config.Directory):
        return files(
            spark,
            local_folder(stream),
            kind=stream.messages,
            record=stream.record,
            glob=None if stream.glob == "*" else stream.glob,
            max_files=stream.max_files,
            max_bytes=limits.max_bytes,
            namespaces=stream.namespaces,
        )
    if isinstance(stream, config.Kafka):
        return kafka(
            spark,
            stream.bootstrap_servers,
            stream.topic,
            starting=stream.starting,
            max_offsets=stream.max_offsets,
            options={name: resolve(value, f"the Kafka option {name!r}") for name, value in stream.options.items()},
        )
    if isinstance(stream, config.Table):
        return table(
            spark,
            stream.path,
            format=stream.format,
            max_files=stream.max_files,
            options=stream.options,
            id_column=stream.id_column,
            xml_column=stream.xml_column,
            time_column=stream.time_column,
        )
    if isinstance(stream, config.Socket):
        return socket(spark, stream.host, stream.port)
    return rate(spark, stream.rows_per_second, stream.template)


def event_time_of(stream: config.AnyStream) -> EventTime:
    """Return how the messages of a stream get their time."""
    return EventTime(stream.time, tuple(sorted(stream.namespaces.items())), round(stream.max_ahead * 1_000_000))


def local_folder(stream: config.Directory) -> Path:
    if "://" in stream.path:
        text = f"a directory source reads a folder of this machine, not {stream.path}"
        hint = 'use source = "table" with format = "binaryFile", xml_column = "content", id_column = "path"'
        raise OptionError("bad-source", text, hint=hint)
    return Path(stream.path)
