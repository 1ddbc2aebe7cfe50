"""A compiled set of subscriptions in one file: a header with version and checksum, then Arrow IPC.

Written under another name and renamed, so that a reader sees a whole file or none; read through mmap.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from array import array
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from twigcast.errors import TwigcastError
from twigcast.limits import Limits

if TYPE_CHECKING:
    from twigcast.engine import Engine

MAGIC = b"TWIGCAST"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")


def save(engine: Engine, path: Path) -> None:
    with engine._lock:
        ids = {number: id for number, id in enumerate(engine._ids) if id is not None}
        codes, path_ends, sub_ends = (array("I", bytes(b)) for b in engine.kernel.steps(list(ids)))
        symbols = engine.kernel.symbols()
    flat = pa.ListArray.from_arrays(_offsets(path_ends), pa.array(codes, pa.uint32()))
    table = pa.table(
        {
            "id": pa.array(map(str, ids.values()), pa.string()),
            "is_number": pa.array((isinstance(id, int) for id in ids.values()), pa.bool_()),
            "paths": pa.ListArray.from_arrays(_offsets(sub_ends), flat),
        },
        metadata={
            "symbols": json.dumps(symbols),
            "namespaces": json.dumps(engine.namespaces),
            "limits": json.dumps(engine.limits.as_dict()),
            "mode": engine.mode,
        },
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue()
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(_HEADER.pack(MAGIC, VERSION, zlib.crc32(body), body.size))
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise TwigcastError("snapshot-unwritable", f"cannot write {path}: {error}") from error
        raise


def load(path: Path) -> Engine:
    try:
        whole = pa.memory_map(str(path)).read_buffer()
    except OSError as error:
        raise TwigcastError("snapshot-unreadable", f"cannot open {path}: {error}") from error
    if whole.size < _HEADER.size or whole[: len(MAGIC)].to_pybytes() != MAGIC:
        raise TwigcastError("not-a-snapshot", f"{path} is not a Twigcast snapshot")
    _, version, checksum, size = _HEADER.unpack(whole[: _HEADER.size].to_pybytes())
    if version != VERSION:
        hint = "write it again with this version of Twigcast"
        raise TwigcastError("snapshot-version", f"{path} has format {version}, this is {VERSION}", hint=hint)
    body = whole[_HEADER.size :]
    if body.size != size or zlib.crc32(body) != checksum:
        raise TwigcastError("snapshot-damaged", f"{path} is damaged: its checksum does not fit")
    try:
        return _engine(pa.ipc.open_file(body).read_all().combine_chunks())
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise TwigcastError("snapshot-damaged", f"{path} does not hold what a snapshot does: {error}") from error


def _engine(table: Any) -> Engine:
    from twigcast.engine import Engine

    meta = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    engine = Engine(
        namespaces=json.loads(meta["namespaces"]), limits=Limits(**json.loads(meta["limits"])), mode=meta["mode"]
    )
    for attribute, uri, local in json.loads(meta["symbols"]):
        engine.kernel.symbol(attribute, uri, local)
    if table.num_rows:
        paths = table.column("paths").combine_chunks()
        flat = paths.flatten()
        numbers = engine.kernel.add(_raw(flat.flatten()), _raw(flat.offsets)[4:], _raw(paths.offsets)[4:])
        ids = zip(table.column("id").to_pylist(), table.column("is_number").to_pylist(), strict=True)
        engine._enter([int(id) if is_number else id for id, is_number in ids], numbers)
    return engine


def _offsets(ends: array[int]) -> pa.Array:
    return pa.array(array("i", [0, *ends]), pa.int32())


def _raw(numbers: pa.Array) -> bytes:
    """The bytes of an array of 32-bit numbers."""
    data = numbers.buffers()[1]
    width = 4
    return data[numbers.offset * width : (numbers.offset + len(numbers)) * width].to_pybytes() if data else b""
