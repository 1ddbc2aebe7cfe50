"""Large documents as bytes that arrive: files, plain or compressed, and stdin."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, cast

from twigcast.errors import OptionError, TwigcastError

BLOCK = 1 << 19
_BROKEN = (OSError, EOFError, ValueError, zlib.error)
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class SourceError(TwigcastError):
    """A source that cannot be read (on)."""


def blocks(name: str, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the content of a file, ``-`` for stdin, in blocks; what begins like gzip or Zstandard is decompressed.

    Raises ``SourceError``, where it may be after some blocks."""
    with _reported():
        if name == "-":
            yield from _read(cast("IO[bytes]", sys.stdin.buffer), size)
        else:
            with Path(name).open("rb", buffering=0) as file:
                yield from _read(cast("IO[bytes]", file), size)


def unpacked(data: bytes, most: int) -> bytes:
    """Decompress ``data`` if it is compressed. Stop after ``most`` bytes or a block more, so that the caller can tell
    that it is too large."""
    if not data.startswith((GZIP, ZSTD)):
        return data
    parts: list[bytes] = []
    size = 0
    with _reported():
        for block in _read(BytesIO(data), BLOCK):
            parts.append(block)
            size += len(block)
            if size > most:
                break
    return b"".join(parts)


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise SourceError("unreadable", getattr(error, "strerror", None) or str(error)) from error


def _read(file: IO[bytes], size: int) -> Iterator[bytes]:
    head = b""
    while len(head) < len(ZSTD) and (more := file.read(size)):
        head += more
    if not head.startswith((GZIP, ZSTD)):
        while head:
            yield head
            head = file.read(size)
        return
    rest = cast("IO[bytes]", _Rest(head, file))
    yield from _blocks(_gunzipped(rest, size) if head.startswith(GZIP) else _unzstd(rest, size), size)


def _blocks(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield blocks of about that size; what there is before the pieces break off, too."""
    parts: list[bytes] = []
    held = 0
    try:
        for data in pieces:
            parts.append(data)
            held += len(data)
            if held >= size:
                yield b"".join(parts)
                parts, held = [], 0
    except _BROKEN:
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _gunzipped(stream: IO[bytes], size: int) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=stream, mode="rb") as file:
        while data := file.read1(size):
            yield data


def _unzstd(stream: IO[bytes], size: int) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        hint = "pip install 'twigcast[zstandard]'"
        raise OptionError("no-zstandard", "the package zstandard is needed to read .zst files", hint=hint) from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
            while data := reader.read(size):
                yield data
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


class _Rest:
    """What has been read of a file, and then the rest of it."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if self._head:
            if size < 0:
                size = len(self._head)
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._file.read(size)
