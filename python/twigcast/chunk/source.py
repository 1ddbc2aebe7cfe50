"""Large documents as bytes that arrive: files, plain or compressed, and stdin."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import IO, cast

from twigcast.errors import OptionError, TwigcastError

BLOCK = 1 << 19
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class SourceError(TwigcastError):
    """A source that cannot be read (on)."""


def blocks(name: str, size: int = BLOCK) -> Iterator[bytes]:
    """The content of a file, ``-`` for stdin, in blocks; what begins like gzip or Zstandard is decompressed.

    Raises ``SourceError``, where it may be after some blocks."""
    try:
        if name == "-":
            yield from _read(cast("IO[bytes]", sys.stdin.buffer), size)
        else:
            with Path(name).open("rb", buffering=0) as file:
                yield from _read(cast("IO[bytes]", file), size)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise SourceError("unreadable", text) from error


def unpacked(data: bytes, most: int) -> bytes:
    """The same of bytes that are there already; of more than ``most``, enough to see that it is more."""
    if not data.startswith((GZIP, ZSTD)):
        return data
    parts: list[bytes] = []
    size = 0
    try:
        for block in _read(cast("IO[bytes]", BytesIO(data)), BLOCK):
            parts.append(block)
            size += len(block)
            if size > most:
                break
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise SourceError("unreadable", str(error)) from error
    return b"".join(parts)


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
    unpacked = gzip.GzipFile(fileobj=rest, mode="rb") if head.startswith(GZIP) else _zstd(rest)
    with closing(unpacked):
        yield from _blocks(unpacked.read1 if isinstance(unpacked, gzip.GzipFile) else unpacked.read, size)


def _blocks(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """In blocks of about that size; what there is before it breaks off, too."""
    parts: list[bytes] = []
    held = 0
    try:
        while data := read(size):
            parts.append(data)
            held += len(data)
            if held >= size:
                yield b"".join(parts)
                parts, held = [], 0
    except (OSError, EOFError, ValueError, zlib.error):
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _zstd(stream: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        hint = "pip install 'twigcast[zstandard]'"
        raise OptionError("no-zstandard", "the package zstandard is needed to read .zst files", hint=hint) from None
    try:
        return cast("IO[bytes]", _Zstd(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


class _Zstd:
    """Its errors as ours; the library has a class of its own."""

    def __init__(self, reader: IO[bytes]) -> None:
        self._reader = reader

    def read(self, size: int) -> bytes:
        import zstandard

        try:
            return self._reader.read(size)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error

    def close(self) -> None:
        self._reader.close()


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
