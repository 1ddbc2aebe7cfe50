"""A Parquet table: ``<root>/date=YYYY-MM-DD/<stream>-<batch>-<state>.parquet``, one file per batch.

A body is in a row group once, whatever the number of its deliveries. The date is the day (UTC) of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from twigcast.delivery.log import Piece
from twigcast.delivery.publication import FileSink
from twigcast.delivery.sinks.base import Batch, contents
from twigcast.delivery.writer import TIME

CONTENT = pa.dictionary(pa.int32(), pa.binary())
MESSAGE = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("delivery", pa.string()),
        ("stream", pa.string()),
        ("message", MESSAGE),
        ("time", TIME),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("subscription", pa.string()),
        ("subscriber", pa.string()),
        ("content", CONTENT),
    ]
)
_DICTIONARY_BYTES = 1 << 30
"""So that bodies stay in the dictionary: beyond Parquet's usual 1 MiB each delivery would have its copy."""


class ParquetSink(FileSink):
    """A sink that writes a file of the table for each batch."""

    def __init__(self, name: str, path: Path, state: str, compression: str) -> None:
        super().__init__(name, path, state)
        self._compression = compression

    def undelivered(self, batch: Batch) -> Iterator[Piece]:
        if not self.publication.published(batch.stream, batch.batch)(self._file(batch)):
            yield from batch.pieces()

    def _file(self, batch: Batch) -> str:
        return f"date={batch.date}/{self.name_of(batch)}.parquet"

    def write(self, batch: Batch, folder: Path) -> None:
        """Write the file of a batch."""
        writer = None
        try:
            for piece in batch.pieces():
                if not len(piece.deliveries):
                    continue
                if writer is None:
                    path = folder / self._file(batch)
                    path.parent.mkdir()
                    writer = pq.ParquetWriter(
                        path,
                        SCHEMA,
                        compression=self._compression,
                        use_dictionary=[name for name in SCHEMA.names if name != "delivery"],
                        dictionary_pagesize_limit=_DICTIONARY_BYTES,
                        write_statistics=["stream", "message", "time", "subscription", "subscriber"],
                        store_schema=False,  # readers shall see plain binary
                    )
                writer.write_table(pa.Table.from_batches([_rows(piece)], SCHEMA), row_group_size=len(piece.deliveries))
        finally:
            if writer is not None:
                writer.close()


def _rows(piece: Piece) -> pa.RecordBatch:
    columns = []
    for name in SCHEMA.names:
        if name == "content":
            columns.append(contents(piece))
        elif name == "message":
            # By row they are a dictionary already: nobody need look for equal ones.
            columns.append(pa.DictionaryArray.from_arrays(piece.rows, piece.messages.column(name)))
        elif name in piece.deliveries.schema.names:
            columns.append(piece.deliveries.column(name))
        else:
            columns.append(piece.of_message(name))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
