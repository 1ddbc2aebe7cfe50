"""Files as messages: one each, one per line, or one per record under a root element. ``.gz`` files are unpacked.

The id of a message is the file's path relative to the folder, and behind a ``#`` its number in the file, from 1.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.limits import Limits
from twigcast.spark.sources.directory import (
    LARGEST,
    check_inbox,
    listing,
    local_path,
    passed_over,
    read_file,
    refusal,
    unpack,
    without_waiting,
)
from twigcast.spark.sources.messages import TIME, Source, message_batch
from twigcast.spark.stages.outcome import ERROR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["file", "lines", "records"]
LARGEST_FILE = 1 << 30
"""A file of records is read whole, since it is one XML document; each record then has the limit of a message."""
MESSAGES_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20


def files(
    spark: SparkSession,
    folder: Path,
    *,
    kind: Kind = "file",
    record: str | None = None,
    glob: str | None = None,
    max_files: int | None = None,
    max_bytes: int = LARGEST,
    namespaces: dict[str, str] | None = None,
    clean: bool = False,
) -> Source:
    """The messages in the files of a folder and below, as they appear.

    ``record`` names the children of the root that are messages. With ``clean`` files are deleted once they are done.
    """
    folder = check_inbox(folder)
    if kind == "records":
        check_record(record, namespaces or {})
    load = LoadFiles(str(folder), kind, record, max_bytes, tuple(sorted((namespaces or {}).items())))
    return Source(listing(spark, folder, glob=glob, max_files=max_files, clean=clean), load, with_empty_files)


def with_empty_files(found: DataFrame, checkpoint: Path, batch: int) -> DataFrame:
    """Also the files that Spark marks as handed out and drops in silence."""
    found = found.select("path", "length")
    dropped = [(path, 0) for path in passed_over(checkpoint, batch)]
    return found.union(found.sparkSession.createDataFrame(dropped, found.schema)) if dropped else found


def check_record(record: str | None, namespaces: dict[str, str]) -> None:
    try:
        _splitter(record, tuple(sorted(namespaces.items())))
    except QueryError as error:
        text = f"{record!r} does not name the elements that are messages"
        raise OptionError("bad-record", text, hint='write a name, such as "order" or "o:order"') from error


@lru_cache(maxsize=8)
def _splitter(record: str | None, namespaces: tuple[tuple[str, str], ...]) -> Engine:
    """An engine that selects the records of a file: the kernel's own reader, and its fragments stand on their own."""
    huge = 2**32 - 1
    limits = Limits(max_bytes=LARGEST_FILE, max_result_nodes=huge, max_result_bytes=huge)
    engine = Engine(namespaces=dict(namespaces), limits=limits)
    engine.add(f"/*/{record or '*'}", id="record", result="fragments")
    return engine


@dataclass
class _Pile:
    """Messages on their way into a batch."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    arrival: Any = None
    """The time of the micro-batch, a scalar; None if the listing does not have it."""

    def add(self, message: str, modified: int | None, xml: bytes | None, error: MessageError | None = None) -> None:
        self.size += len(xml or b"")
        self.rows.append({"message": message, "time": modified, "xml": xml, "error": _row(error)})

    @property
    def full(self) -> bool:
        return self.size >= BYTES_AT_ONCE or len(self.rows) >= MESSAGES_AT_ONCE

    def batch(self) -> pa.RecordBatch:
        rows, self.rows, self.size = self.rows, [], 0
        return message_batch(
            pa.array([row["message"] for row in rows], pa.string()),
            pa.array([row["xml"] for row in rows], pa.binary()),
            time=pa.array([row["time"] for row in rows], TIME),
            error=pa.array([row["error"] for row in rows], ERROR),
            arrival=None if self.arrival is None else pa.repeat(self.arrival, len(rows)),
        )


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """From the listing to the messages; runs in a worker."""

    folder: str
    kind: Kind = "file"
    record: str | None = None
    max_bytes: int = LARGEST
    namespaces: tuple[tuple[str, str], ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pile = _Pile()
        for batch in batches:
            if "arrival" in batch.schema.names and len(batch):
                pile.arrival = batch.column("arrival")[0]
            for listed in batch.column("path").to_pylist():
                path = local_path(listed)
                name = os.path.relpath(path, self.folder)
                modified = _modified(path)
                for message, xml, error in self._messages(name, path):
                    pile.add(message, modified, xml, error)
                    if pile.full:
                        yield pile.batch()
        if pile.rows:
            yield pile.batch()

    def _messages(self, name: str, path: str) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        if self.kind == "lines":
            yield from self._lines(name, path)
            return
        limit = self.max_bytes if self.kind == "file" else LARGEST_FILE
        content: bytes | None = None
        try:
            content = read_file(path, limit)
            if path.endswith(".gz"):
                content = unpack(content, limit)
        except MessageError as error:
            yield name, content, error
            return
        if self.kind == "file":
            yield name, content, None
        else:
            yield from self._records(name, content)

    def _records(self, name: str, content: bytes) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        try:
            found = _splitter(self.record, self.namespaces).select(content)
        except MessageError as error:
            yield name, content, error
            return
        for number, xml in enumerate((found[0].fragments or ()) if found else (), start=1):
            yield self._bounded(f"{name}#{number}", xml)

    def _lines(self, name: str, path: str) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        number = 0
        try:
            with open(path, "rb", opener=without_waiting) as raw:
                file: Any = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
                while line := file.readline(self.max_bytes + 2):
                    number += 1
                    whole = line.endswith(b"\n")
                    if not whole and len(line) > self.max_bytes:
                        _skip_line(file)
                        text = f"the line has more than {self.max_bytes} bytes; it stays in the file"
                        yield f"{name}#{number}", None, refusal("limit-size", text)
                    elif line := line.strip(b"\r\n"):  # an empty line is none
                        yield self._bounded(f"{name}#{number}", line)
        except (OSError, EOFError, zlib.error) as error:
            code = "bad-gzip" if path.endswith(".gz") else "unreadable"
            yield f"{name}#{number + 1}", None, refusal(code, f"the file cannot be read further: {error}")

    def _bounded(self, message: str, xml: bytes) -> tuple[str, bytes | None, MessageError | None]:
        if len(xml) <= self.max_bytes:
            return message, xml, None
        return message, xml, refusal("limit-size", f"the message has {len(xml)} bytes, the limit is {self.max_bytes}")


def _skip_line(file: Any) -> None:
    while (piece := file.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass


def _modified(path: str) -> int | None:
    with suppress(OSError):
        return Path(path).stat().st_mtime_ns // 1000
    return None


def _row(error: MessageError | None) -> dict[str, object] | None:
    if error is None:
        return None
    place: dict[str, int | None] = {"line": error.line, "column": error.column, "offset": error.offset}
    if not error.line:  # the file as a whole is at fault
        place = dict.fromkeys(place)
    return {"code": error.code, **place, "text": error.text}
