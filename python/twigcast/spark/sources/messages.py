"""What every source gives: messages with an id, a time, headers, and their bytes or the reason why there are none.

A source is a DataFrame and a function that turns its rows into messages. The function runs in the worker, in the pass
that also matches, so that a message that cannot be read is one refused message and never a failed batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.rows import ERROR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME = pa.timestamp("us", tz="UTC")
UNREADABLE_TIME = -(2**63)
"""The time, in microseconds, of a message whose transport tells one that is none. `EventTime` refuses the message."""
HEADERS = pa.map_(pa.string(), pa.string())
MESSAGES = pa.schema(
    [("message", pa.string()), ("time", TIME), ("headers", HEADERS), ("xml", pa.binary()), ("error", ERROR)]
)
"""``time`` is the transport's, null where it has none; an ``error`` set by the source stands.

A column ``arrival`` may follow, which :class:`~twigcast.spark.sources.event_time.EventTime` takes away."""
MESSAGES_SQL = (
    "message string, time timestamp, headers map<string,string>, xml binary,"
    " error struct<code:string,line:long,column:long,offset:long,text:string>"
)

# A text column has been decoded already, so whatever encoding the message declares is no longer true.
_DECLARED_ENCODING = r"""\A(\x{FEFF}?<\?xml[^>]*?)\s+encoding\s*=\s*(?:"[^"]*"|'[^']*')"""

Load = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Source:
    """A streaming (or static) DataFrame, and what makes messages of its rows in a worker."""

    frame: DataFrame
    load: Load


def message_batch(
    ids: pa.Array,
    xml: pa.Array,
    *,
    time: pa.Array | None = None,
    headers: pa.Array | None = None,
    error: pa.Array | None = None,
    arrival: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return the columns as a batch of ``MESSAGES``, with ``arrival`` behind them if it is given."""
    count = len(ids)
    columns = [
        ids,
        pa.nulls(count, TIME) if time is None else time.cast(TIME),
        pa.nulls(count, HEADERS) if headers is None else headers.cast(HEADERS),
        xml.cast(pa.binary()),
        pa.nulls(count, ERROR) if error is None else error,
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
    return batch if arrival is None else batch.append_column("arrival", arrival.cast(TIME))


def dated(source: Source) -> Source:
    """Give the rows of a streaming source the time of their micro-batch, as ``arrival``, unless they have it.

    Spark writes that time to the checkpoint before the micro-batch begins, so a repeated one has the same.
    """
    from pyspark.sql import functions as f

    if "arrival" in source.frame.columns:
        return source
    return replace(source, frame=source.frame.withColumn("arrival", f.current_timestamp()))


def as_bytes(xml: pa.Array) -> pa.Array:
    """A column of messages as bytes."""
    kind = xml.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.any(pc.match_substring_regex(xml, _DECLARED_ENCODING)).as_py():
            xml = pc.replace_substring_regex(xml, _DECLARED_ENCODING, r"\1")
        return xml.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    if pa.types.is_null(kind):
        return xml.cast(pa.binary())
    return xml


def as_text(column: pa.Array) -> pa.Array:
    """Return strings, of which Spark does not check that they are UTF-8, as strings that are; the rest is escaped."""
    data = column.cast(pa.binary())
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([one if one is None else one.decode("utf-8", "backslashreplace") for one in data.to_pylist()])
