"""A folder as a streaming source of Spark, for queries that have a state there.

It is a Python data source over the listing log.

Spark's checkpoint has only the number of the last micro-batch of the listing log, so both can be moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from twigcast.spark.sources.listing import Listing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "twigcast-folder"
COLUMNS = pa.schema([("path", pa.string()), ("arrival", pa.timestamp("us", tz="UTC"))])


def folder_frame(spark: SparkSession, root: Path, state: Path, **options: Any) -> DataFrame:
    """Return the files of a folder, as they appear, as rows of (path, arrival).

    ``state`` has the listing log, and ``options`` are those of the log.
    """
    spark.dataSource.register(FolderSource)
    reader = spark.readStream.format(NAME).option("root", str(root)).option("state", str(state))
    reader = reader.option("slices", str(spark.sparkContext.defaultParallelism))
    return reader.option("listing", json.dumps(options)).load()


class FolderSource(DataSource):
    """Spark's way to a folder."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "path string, arrival timestamp"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return FolderReader(dict(self.options))


class FolderReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lists the folder in a process of its own beside the driver, and gives Spark one micro-batch at a time."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._opened: Listing | None = None
        self._has_all = False
        """With the trigger ``availableNow``: files that come after the start are left to the next run."""

    @property
    def _listing(self) -> Listing:
        # Opened when it is needed first: the reader also goes to workers, where it is not.
        if self._opened is None:
            options = self._options
            more = json.loads(options["listing"])
            self._opened = Listing(Path(options["state"]), Path(options["root"]), **more)
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        return {"entry": -1}

    def prepareForTriggerAvailableNow(self) -> None:
        self._listing.look()
        self._has_all = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        if not self._has_all:
            self._listing.look()
        entry = self._listing.take(start["entry"] + 1)
        return start if entry is None else {"entry": entry.number}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        paths: list[str] = []
        arrivals: list[int] = []
        for number in range(start["entry"] + 1, end["entry"] + 1):
            entry = self._listing.entry(number)
            paths += entry.paths
            arrivals += [entry.arrival] * len(entry.files)
        size = max(1, -(-len(paths) // int(self._options["slices"])))
        return [InputPartition((paths[n : n + size], arrivals[n : n + size])) for n in range(0, len(paths), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        paths, arrivals = partition.value
        columns = [pa.array(paths, pa.string()), pa.array(arrivals, pa.int64()).cast(COLUMNS.field("arrival").type)]
        yield pa.RecordBatch.from_arrays(columns, schema=COLUMNS)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
