"""A tree of files: ``<root>/<subscriber>/<date>/…``, a file per delivery or a JSON Lines file per batch.

The date is the day (UTC) on which the batch was committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.delivery.jsonl import joined, lines
from twigcast.delivery.log import Piece
from twigcast.delivery.publication import FileSink
from twigcast.delivery.sinks.base import Batch, contents

_PLAIN = re.compile(r"[A-Za-z0-9@+=-][A-Za-z0-9@+=._-]*")
_LONGEST = 120


class DirectorySink(FileSink):
    """A sink that writes files: one per delivery (``layout="files"``) or per batch (``"jsonl"``, ``"matches"``)."""

    def __init__(self, name: str, path: Path, state: str, layout: str = "files") -> None:
        super().__init__(name, path, state)
        self._layout = layout

    def undelivered(self, batch: Batch) -> Iterator[Piece]:
        published = self.publication.published(batch.stream, batch.batch)
        for piece in batch.pieces():
            columns = (piece.deliveries.column(name).to_pylist() for name in ("delivery", "subscription", "subscriber"))
            left = [
                not published(f"{folder_name(subscriber)}/{batch.date}/{self._file(batch, delivery, subscription)}")
                for delivery, subscription, subscriber in zip(*columns, strict=True)
            ]
            yield piece.filter(pa.array(left, pa.bool_()))

    def _file(self, batch: Batch, delivery: str, subscription: str) -> str:
        """Return the name of the file that a delivery is in."""
        if self._layout != "files":
            return f"{self.name_of(batch)}.jsonl"
        return f"{folder_name(subscription)}.{delivery}.xml"

    def write(self, batch: Batch, folder: Path) -> None:
        """Write the files of a batch."""
        made: set[Path] = set()
        for piece in batch.pieces():
            if self._layout != "files":
                self._write_lines(batch, piece, folder, made)
            else:
                self._write_files(batch, piece, folder, made)

    def _write_files(self, batch: Batch, piece: Piece, folder: Path, made: set[Path]) -> None:
        # Plain strings and file descriptors: Path objects would cost more than the files themselves.
        encoded = contents(piece)
        bodies = encoded.dictionary
        places: dict[str | None, Path] = {}
        columns = (piece.deliveries.column(name).to_pylist() for name in ("delivery", "subscription", "subscriber"))
        for delivery, subscription, subscriber, body in zip(*columns, encoded.indices.to_pylist(), strict=True):
            if subscriber not in places:
                places[subscriber] = _folder(folder / folder_name(subscriber) / batch.date, made)
            path = f"{places[subscriber]}/{self._file(batch, delivery, subscription)}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                _write_all(file, memoryview(bodies[body].as_buffer()))
            finally:
                os.close(file)

    def _write_lines(self, batch: Batch, piece: Piece, folder: Path, made: set[Path]) -> None:
        # Appending: the deliveries of a subscriber may be in several pieces.
        for rows, text in lines(piece, messages=self._layout == "jsonl"):
            for subscriber, chosen in _by_subscriber(piece.deliveries.column("subscriber").take(rows)):
                place = _folder(folder / folder_name(subscriber) / batch.date, made)
                with (place / self._file(batch, "", "")).open("ab", buffering=0) as file:
                    _write_all(file.fileno(), joined(text if chosen is None else text.take(chosen)))


def folder_name(name: str | None) -> str:
    """Return a name that is safe in a file system, unchanged if it is; different names stay different."""
    if name is None:
        return "_"
    if len(name) <= _LONGEST and _PLAIN.fullmatch(name):
        return name
    safe = "".join(
        c if c in "@+=-" or (c.isascii() and c.isalnum()) or (c in "._" and place) else f"%{ord(c):02X}"
        for place, c in enumerate(name)
    )
    if len(safe) <= _LONGEST and "%" in safe and name.isascii():
        return safe
    return f"{safe[:_LONGEST]}%{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def _by_subscriber(subscribers: pa.Array) -> Iterator[tuple[str | None, pa.Array | None]]:
    """Each subscriber and the places of its rows; None for the places if they are all."""
    encoded = subscribers.dictionary_encode(null_encoding="encode")
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], None
        return
    order = pc.sort_indices(encoded.indices)  # stable
    runs = pc.run_end_encode(encoded.indices.take(order))
    start = 0
    for number, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield names[number], order.slice(start, stop - start)
        start = stop


def _folder(folder: Path, made: set[Path]) -> Path:
    if folder not in made:
        folder.mkdir(parents=True, exist_ok=True)
        made.add(folder)
    return folder


def _write_all(file: int, data: memoryview) -> None:
    # One write takes at most 2 GiB.
    written = 0
    while written < len(data):
        written += os.write(file, data[written:])
