"""A compiled set of subscriptions in one file: a header with version and checksum, then Arrow IPC.

Written under another name and renamed, so that a reader sees a whole file or none; read through mmap.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.errors import TwigcastError
from twigcast.limits import Limits

if TYPE_CHECKING:
    from twigcast.engine import Engine

MAGIC = b"TWIGCAST"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")


def save(engine: Engine, path: Path) -> None:
    numbers = [n for n, id in enumerate(engine.ids.to_pylist()) if id is not None]
    codes, path_ends, sub_ends = (array("I", bytes(b)) for b in engine.kernel.steps(numbers))
    flat = pa.ListArray.from_arrays(_offsets(path_ends), pa.array(codes, pa.uint32()))
    table = pa.table(
        {
            "id": engine.ids.take(pa.array(numbers, pa.int64())),
            "paths": pa.ListArray.from_arrays(_offsets(sub_ends), flat),
        },
        metadata={
            "symbols": json.dumps(engine.kernel.symbols()),
            "namespaces": json.dumps(engine.namespaces),
            "limits": json.dumps(engine.limits.as_dict()),
            "mode": engine.mode,
        },
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_HEADER.pack(MAGIC, VERSION, zlib.crc32(body), body.size))
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> Engine:
    from twigcast.engine import Engine

    try:
        source = pa.memory_map(str(path))
    except OSError as error:
        raise TwigcastError("snapshot-unreadable", f"cannot open {path}: {error}") from error
    whole = source.read_buffer()
    if whole.size < _HEADER.size or whole[: len(MAGIC)].to_pybytes() != MAGIC:
        raise TwigcastError("not-a-snapshot", f"{path} is not a Twigcast snapshot")
    _, version, checksum, size = _HEADER.unpack(whole[: _HEADER.size].to_pybytes())
    if version != VERSION:
        hint = "write it again with this version of Twigcast"
        raise TwigcastError("snapshot-version", f"{path} has format {version}, this is {VERSION}", hint=hint)
    body = whole[_HEADER.size :]
    if body.size != size or zlib.crc32(body) != checksum:
        raise TwigcastError("snapshot-damaged", f"{path} is damaged: its checksum does not fit")
    table = pa.ipc.open_file(body).read_all().combine_chunks()
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
        engine._enter(table.column("id").to_pylist(), numbers)
    return engine


def _offsets(ends: array[int]) -> pa.Array:
    return pa.array(array("i", [0, *ends]), pa.int32())


def _raw(numbers: pa.Array) -> bytes:
    """The bytes of an array of 32-bit numbers."""
    data = numbers.buffers()[1]
    width = 4
    return data[numbers.offset * width : (numbers.offset + len(numbers)) * width].to_pybytes() if data else b""
