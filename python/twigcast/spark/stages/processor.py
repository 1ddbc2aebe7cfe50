"""The stateful processor that Spark calls for a bucket of correlations. Importable, so that workers keep its caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from twigcast.spark.stages.correlate import FOUND, Buckets, Incoming, Storage, process

# A frame that goes back to Spark has no more rows, and no more bytes of payloads, but for its last row.
ROWS = 4096
BYTES = 1 << 24


class CorrelateProcessor(StatefulProcessor):
    def __init__(self, task: Buckets, storage: Callable[[Any], Storage]) -> None:
        self._task = task
        self._make = storage

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._storage = self._make(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        incoming = [
            Incoming(stream, message, int(time), _bytes(xml), _bytes(witness))
            for frame in rows
            for stream, message, time, xml, witness in frame[list(Incoming._fields)].itertuples(index=False, name=None)
        ]
        yield from _frames(process(self._task, int(key[0]), incoming, self._storage))

    def close(self) -> None: ...


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _frames(rows: Iterator[dict[str, Any]]) -> Iterator[pd.DataFrame]:
    """Yield the rows in frames of a bounded size."""
    some: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        some.append({name: row.get(name) for name in FOUND.names})  # what is missing would be NaN
        size += len(row.get("payload") or b"")
        if len(some) >= ROWS or size >= BYTES:
            yield pd.DataFrame(some, columns=FOUND.names, dtype=object)
            some, size = [], 0
    if some:
        yield pd.DataFrame(some, columns=FOUND.names, dtype=object)
