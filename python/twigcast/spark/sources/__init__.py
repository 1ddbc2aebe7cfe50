"""Where messages come from: one file per source, each gives a :class:`Source`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast import config
from twigcast.common.references import resolve
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.spark.sources.directory import check_inbox
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.files import LoadFiles, check_record
from twigcast.spark.sources.kafka import kafka
from twigcast.spark.sources.messages import Source as Source
from twigcast.spark.sources.table import table
from twigcast.spark.sources.testing import rate, socket
from twigcast.units import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source_of(
    spark: SparkSession,
    stream: config.AnyStream,
    limits: Limits,
    state: Path | None = None,
) -> Source:
    """Return the source that a stream of the configuration names.

    ``state`` is the folder for the listing log of a directory. It belongs to the checkpoint of the query.
    """
    if isinstance(stream, config.Directory):
        if state is None:
            text = "to read a directory needs a folder to remember in which files have been read"
            raise OptionError("no-state", text, hint="give it as state=…, one for each checkpoint of a query")
        from twigcast.spark.sources.folder_source import folder_frame

        load = load_of(stream, limits)
        return Source(folder_frame(spark, Path(load.folder), state, **listing_options(stream)), load)
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


def load_of(stream: config.Directory, limits: Limits) -> LoadFiles:
    """Return what makes messages of the files of a directory."""
    if stream.messages == "records":
        check_record(stream.record, stream.namespaces)
    folder = str(check_inbox(local_folder(stream)))
    names = tuple(sorted(stream.namespaces.items()))
    return LoadFiles(folder, stream.messages, stream.record, limits.max_bytes, names, stream.follow_links)


def listing_options(stream: config.Directory) -> dict[str, Any]:
    """Return the options of a listing log, as the stream has them."""
    glob = None if stream.glob == "*" else stream.glob
    return {"glob": glob, "max_files": stream.max_files, "follow_links": stream.follow_links}


def event_time_of(stream: config.AnyStream) -> EventTime:
    """Return how the messages of a stream get their time."""
    namespaces = tuple(sorted(stream.namespaces.items()))
    return EventTime(stream.time, namespaces, round(stream.max_ahead * SECOND))


def local_folder(stream: config.Directory) -> Path:
    """Return the folder of a stream, or raise an OptionError if it is not one of this machine."""
    if "://" in stream.path:
        text = f"a directory source reads a folder of this machine, not {stream.path}"
        hint = 'use source = "table" with format = "binaryFile", xml_column = "content", id_column = "path"'
        raise OptionError("bad-source", text, hint=hint)
    return Path(stream.path)
