"""The archive: every message that was read and not refused, as Parquet, for ``twigcast replay``.

    <archive>/<stream>/batch-00000007-<state>/0000.parquet     message, time, headers, xml
    <archive>/_staging/<stream>/<state>/<run>/…                where tasks write

The driver moves the parts of a micro-batch into place before the batch is committed, so a batch that was committed is
archived whole; one that a crash has cut off is archived again, in the same place. Batch numbers begin anew with a new
state folder, hence its id in the names: what was archived before stays.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.delivery.writer import Part
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


class ArchivePart(Part):
    """What one task attempt archives."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SCHEMA, compression="zstd", use_dictionary=False)

    def keep(self, messages: pa.RecordBatch) -> None:
        """Write the messages that were not refused: a replay must not match those."""
        wanted = pc.and_(messages.column("xml").is_valid(), messages.column("error").is_null())
        kept = messages.select(SCHEMA.names).filter(wanted)
        if len(kept):
            self.write([kept])

    def __enter__(self) -> ArchivePart:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(durable=kind is None)


def archived_streams(folder: Path) -> list[str]:
    """The streams that have an archive."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if re.match(r"[A-Za-z0-9]", path.name))
