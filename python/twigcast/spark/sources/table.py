"""Any DataFrame with a column of messages: a table of the catalog, Parquet, JSON Lines, whatever Spark reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.errors import OptionError
from twigcast.spark.paths import local_uri
from twigcast.spark.sources.messages import UNREADABLE_TIME, Source, as_bytes, as_text, message_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_FILES = 100


def table(
    spark: SparkSession,
    path: str,
    *,
    format: str = "parquet",
    max_files: int = MAX_FILES,
    options: Mapping[str, str] | None = None,
    **columns: str | None,
) -> Source:
    """Return the rows of the files of a folder, as they appear.

    For ``columns`` see :func:`frame_source`.
    """
    from pyspark.errors import PySparkException

    place = local_uri(path)
    # By default a file a week older than the newest one is passed over in silence.
    settings = {"maxFileAge": "36500d", "maxFilesPerTrigger": str(max_files), **(options or {})}
    try:
        schema = settings.pop("schema", None) or spark.read.options(**settings).format(format).load(place).schema
        frame = spark.readStream.options(**settings).format(format).schema(schema).load(place)
    except PySparkException as error:
        text = f"cannot read {path} as {format}: {(str(error).splitlines() or [''])[0]}"
        hint = 'put a file there, or set options.schema = "id string, xml string"'
        raise OptionError("bad-source", text, hint=hint) from error
    return frame_source(frame, files=True, rows=format == "parquet", **columns)


def frame_source(
    frame: DataFrame,
    *,
    id_column: str | None = None,
    xml_column: str | None = "xml",
    time_column: str | None = None,
    headers_column: str | None = None,
    files: bool = False,
    rows: bool = False,
) -> Source:
    """A DataFrame, streaming or static.

    Without an ``id_column`` an id is made of the file's name and the row's number where those are known (Parquet), else
    of a hash of the row, so that equal rows of a file are one message.
    """
    from pyspark.sql import functions as F

    xml_column = xml_column or "xml"
    for name in filter(None, (id_column, xml_column, time_column, headers_column)):
        if name not in frame.columns:
            have = ", ".join(frame.columns)
            raise OptionError("no-such-column", f"the messages have no column {name!r}", hint=f"they have: {have}")
    kind = frame.schema[xml_column].dataType.simpleString()
    if kind not in ("binary", "string"):
        raise OptionError("bad-column", f"column {xml_column!r} is {kind}", hint="messages are binary or string")
    if id_column is not None:
        id = frame[id_column].cast("string")
    elif rows:
        id = F.concat_ws("#", F.col("_metadata.file_name"), F.col("_metadata.row_index"))
    else:
        row = [F.coalesce(F.base64(frame[xml_column].cast("binary")), F.lit(""))]
        id = F.sha2(F.concat_ws("#", F.col("_metadata.file_name"), *row) if files else F.concat(*row), 256)
    columns = [id.alias("message"), frame[xml_column].alias("xml")]
    # Columns of nulls are not free: they made Spark's own part of a pass a third longer.
    if time_column is not None:
        time = frame[time_column].try_cast("timestamp")
        unreadable = frame[time_column].isNotNull() & time.isNull()
        columns.append(F.when(unreadable, F.timestamp_micros(F.lit(UNREADABLE_TIME))).otherwise(time).alias("time"))
    if headers_column is not None:
        columns.append(frame[headers_column].cast("map<string,string>").alias("headers"))
    return Source(frame.select(columns), load)


def load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn the columns into messages; runs in a worker."""
    for batch in batches:
        more = {name: batch.column(name) for name in ("time", "headers", "arrival") if name in batch.schema.names}
        yield message_batch(as_text(batch.column("message")).fill_null(""), as_bytes(batch.column("xml")), **more)
