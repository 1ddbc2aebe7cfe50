"""A file of several parts that is whole or refused: a mark, a version, a checksum; then the parts, aligned for mmap."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from twigcast.common.arrow import pa
from twigcast.errors import TwigcastError

_HEADER = struct.Struct("<8sIIQ")
_ALIGNMENT = 64
_MAX_PARTS = 64


@dataclass(frozen=True, slots=True)
class Format:
    """What a file holds, as error codes and texts name it."""

    name: str
    magic: bytes
    version: int
    oldest: int | None = None
    """The oldest version that can be read; None if it is this one."""

    def write(self, path: Path, parts: Sequence[bytes | pa.Buffer]) -> None:
        """Under another name first and then renamed, so that a reader sees a whole file or none."""
        lengths = struct.pack(f"<Q{len(parts)}Q", len(parts), *map(len, parts))
        pieces = [lengths + bytes(-(_HEADER.size + len(lengths)) % _ALIGNMENT)]
        for part in parts:
            pieces += [part, bytes(-len(part) % _ALIGNMENT)]
        checksum = 0
        for piece in pieces:
            checksum = zlib.crc32(piece, checksum)
        header = _HEADER.pack(self.magic, self.version, checksum, sum(map(len, pieces)))
        temporary = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                file.writelines([header, *pieces])
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink()
            if isinstance(error, OSError):
                raise TwigcastError(f"{self.name}-unwritable", f"cannot write {path}: {error}") from error
            raise

    def read(self, path: Path) -> list[pa.Buffer]:
        """The parts, mapped into memory."""
        try:
            whole = pa.memory_map(str(path)).read_buffer()
        except OSError as error:
            raise TwigcastError(f"{self.name}-unreadable", f"cannot open {path}: {error}") from error
        if whole.size < _HEADER.size or whole[: len(self.magic)].to_pybytes() != self.magic:
            raise TwigcastError(f"not-a-{self.name}", f"{path} is not a Twigcast {self.name}")
        _, version, checksum, size = _HEADER.unpack(whole[: _HEADER.size])
        if not (self.version if self.oldest is None else self.oldest) <= version <= self.version:
            text = f"{path} has format {version}, this is {self.version}"
            raise TwigcastError(f"{self.name}-version", text, hint="write it again with this version of Twigcast")
        body = whole[_HEADER.size :]
        if body.size != size or zlib.crc32(body) != checksum:
            raise self.damaged(path, "its checksum does not fit")
        parts = _parts(whole)
        if parts is None:
            raise self.damaged(path, "its parts do not fit")
        return parts

    def damaged(self, path: Path, why: object) -> TwigcastError:
        return TwigcastError(f"{self.name}-damaged", f"{path} is damaged: {why}")


def _parts(whole: pa.Buffer) -> list[pa.Buffer] | None:
    at = _HEADER.size + 8
    if whole.size < at:
        return None
    (count,) = struct.unpack("<Q", whole[_HEADER.size : at])
    if count > _MAX_PARTS or whole.size < at + 8 * count:
        return None
    lengths = struct.unpack(f"<{count}Q", whole[at : at + 8 * count])
    at += 8 * count
    parts = []
    for length in lengths:
        at += -at % _ALIGNMENT
        if at + length > whole.size:
            return None
        parts.append(whole[at : at + length])
        at += length
    return parts if at + -at % _ALIGNMENT == whole.size else None
