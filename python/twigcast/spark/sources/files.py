"""Files as messages: one each, one per line, or one per record under a root element. ``.gz`` files are unpacked.

The id of a message is the file's path relative to the folder, and behind a ``#`` its number in the file, from 1.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.limits import Limits
from twigcast.rows import ERROR, row_of_error
from twigcast.spark.sources.directory import LARGEST, Folder, modified, read_file, refusal, unpack
from twigcast.spark.sources.messages import TIME, message_batch

Kind = Literal["file", "lines", "records"]
LARGEST_FILE = 1 << 30
"""A file of records is read whole, since it is one XML document; each record then has the limit of a message."""
_Message = tuple[str, int | None, bytes | None, MessageError | None]
MESSAGES_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20


def check_record(record: str | None, namespaces: dict[str, str]) -> None:
    """Raise an OptionError if ``record`` does not name the elements that are messages."""
    try:
        _splitter(record, tuple(sorted(namespaces.items())))
    except QueryError as error:
        text = f"{record!r} does not name the elements that are messages"
        raise OptionError("bad-record", text, hint='write a name, such as "order" or "o:order"') from error


@lru_cache(maxsize=8)
def _splitter(record: str | None, namespaces: tuple[tuple[str, str], ...]) -> Engine:
    """Return an engine that selects the records of a file, as fragments that stand on their own."""
    engine = Engine(namespaces=dict(namespaces), limits=Limits(max_bytes=LARGEST_FILE).with_all_results())
    engine.add(f"/*/{record or '*'}", id="record", result="fragments")
    return engine


@dataclass
class _Pile:
    """Messages on their way into a batch."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0

    def add(
        self, message: str, modified: int | None, xml: bytes | None, error: MessageError | None, arrival: Any
    ) -> None:
        self.size += len(xml or b"")
        row = {"message": message, "time": modified, "xml": xml, "arrival": arrival}
        self.rows.append({**row, "error": None if error is None else row_of_error(error)})

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
            arrival=None if rows[0]["arrival"] is None else pa.array([row["arrival"] for row in rows], TIME),
        )


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """Reads files of a folder into messages; runs in a worker.

    Its rows have a ``path`` below the folder and, where the time of arrival is not known otherwise, an ``arrival``.
    """

    folder: str
    kind: Kind = "file"
    record: str | None = None
    max_bytes: int = LARGEST
    namespaces: tuple[tuple[str, str], ...] = ()
    follow_links: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pile = _Pile()
        folder = Folder(self.folder, follow_links=self.follow_links)
        try:
            for batch in batches:
                paths = batch.column("path").to_pylist()
                dated = "arrival" in batch.schema.names
                arrivals = batch.column("arrival").to_pylist() if dated else [None] * len(paths)
                for path, arrival in zip(paths, arrivals, strict=True):
                    for message, modified, xml, error in self._messages(folder, path):
                        pile.add(message, modified, xml, error, arrival)
                        if pile.full:
                            yield pile.batch()
            if pile.rows:
                yield pile.batch()
        finally:
            folder.close()

    def _messages(self, folder: Folder, path: str) -> Iterator[_Message]:
        """Yield the id, the date of the file, the content and the error of each message of a file."""
        try:
            file = folder.open(path)
        except MessageError as error:
            yield path, None, None, error
            return
        with file:
            date = modified(file)
            if self.kind == "lines":
                yield from ((id, date, xml, error) for id, xml, error in self._lines(path, file))
            else:
                yield from ((id, date, xml, error) for id, xml, error in self._whole(path, file))

    def _whole(self, path: str, file: BinaryIO) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        limit = self.max_bytes if self.kind == "file" else LARGEST_FILE
        content: bytes | None = None
        try:
            content = read_file(file, limit)
            if path.endswith(".gz"):
                content = unpack(content, limit)
        except MessageError as error:
            yield path, content, error
            return
        if self.kind == "file":
            yield path, content, None
        else:
            yield from self._records(path, content)

    def _records(self, name: str, content: bytes) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        try:
            found = _splitter(self.record, self.namespaces).select(content)
        except MessageError as error:
            yield name, content, error
            return
        for number, xml in enumerate((found[0].fragments or ()) if found else (), start=1):
            yield self._bounded(f"{name}#{number}", xml)

    def _lines(self, name: str, raw: BinaryIO) -> Iterator[tuple[str, bytes | None, MessageError | None]]:
        number = 0
        packed = name.endswith(".gz")
        try:
            if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                raise OSError(0, "not a regular file")
            file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
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
            code = "bad-gzip" if packed else "unreadable"
            yield f"{name}#{number + 1}", None, refusal(code, f"the file cannot be read further: {error}")

    def _bounded(self, message: str, xml: bytes) -> tuple[str, bytes | None, MessageError | None]:
        if len(xml) <= self.max_bytes:
            return message, xml, None
        return message, xml, refusal("limit-size", f"the message has {len(xml)} bytes, the limit is {self.max_bytes}")


def _skip_line(file: Any) -> None:
    while (piece := file.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass
