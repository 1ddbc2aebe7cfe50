"""The archive: every message that was read and not refused, as Parquet, for ``twigcast replay``.

    <archive>/<stream>/batch-00000007-<state>/0000.parquet     message, time, headers, xml
    <archive>/_staging/<stream>/<state>/<run>/…                where tasks write

The driver moves the parts of a micro-batch into place before the batch is committed, so a batch that was committed is
archived whole; one that a crash has cut off is archived again, in the same place. Batch numbers begin anew with a new
state folder, hence its id in the names: what was archived before stays.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twigcast.spark.sources.messages import MESSAGES

SCHEMA = pa.schema([MESSAGES.field(name) for name in ("message", "time", "headers", "xml")])
SCHEMA_SQL = "message string, time timestamp, headers map<string,string>, xml binary"


@dataclass(frozen=True, slots=True)
class Archive:
    """Names the folders; pickled with each task."""

    folder: str
    stream: str
    state: str
    """An id of the state folder, as for sinks."""
    run: str

    @classmethod
    def of(cls, folder: Path, stream: str, state: str) -> Archive:
        return cls(str(folder), stream, state, uuid.uuid4().hex)

    @property
    def staging(self) -> Path:
        return Path(self.folder, "_staging", self.stream, self.state, self.run)

    def part(self) -> ArchivePart:
        return ArchivePart(self.staging / f"{uuid.uuid4().hex}.parquet")

    def open(self) -> None:
        """Clears away what an earlier run left behind."""
        shutil.rmtree(self.staging.parent, ignore_errors=True)
        self.staging.mkdir(parents=True)

    def commit(self, batch: int, names: Sequence[str | None]) -> None:
        """Move the parts that tasks have reported into place."""
        final = Path(self.folder, self.stream, f"batch-{batch:08d}-{self.state}")
        shutil.rmtree(final, ignore_errors=True)
        found = [name for name in names if name]
        if found:
            final.mkdir(parents=True)
        for number, name in enumerate(found):
            (self.staging / name).replace(final / f"{number:04d}.parquet")
        for stray in self.staging.iterdir():
            stray.unlink(missing_ok=True)


class ArchivePart:
    """A file that exists only if a message is written to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._writer: Any = None

    @property
    def name(self) -> str | None:
        return None if self._writer is None else self._path.name

    def write(self, messages: pa.RecordBatch) -> None:
        """Write the messages that were not refused: a replay must not match those."""
        wanted = pc.and_(messages.column("xml").is_valid(), messages.column("error").is_null())
        kept = messages.select(SCHEMA.names).filter(wanted)
        if len(kept):
            if self._writer is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("xb")
                self._writer = pq.ParquetWriter(self._file, SCHEMA, compression="zstd", use_dictionary=False)
            self._writer.write_batch(kept)

    def __enter__(self) -> ArchivePart:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def archived_streams(folder: Path) -> list[str]:
    """The streams that have an archive."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if re.match(r"[A-Za-z0-9]", path.name))
