"""A set of subscriptions that changes while it is in use: a base and small deltas, as files.

The driver publishes; a task carries the names only. A worker keeps the engine that it has and applies the deltas that
it lacks, so a change costs what it changes. Every task of a micro-batch names the same version, and gets exactly that.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.spark.stages.preload import preloaded
from twigcast.spark.stages.shared import SharedFile, keep, open_shared

KEPT = 2
"""Engines of one shard that a worker keeps: two streams may be at two versions for the length of a micro-batch."""

TRAITS = pa.schema(
    [
        ("subscription", pa.string()),
        ("key", pa.string()),
        ("subscriber", pa.string()),
        ("max_delay", pa.int64()),
        ("stream", pa.string()),
    ]
)
"""What a delivery needs to know of a subscription beside its query; by number."""
CHANGED_TRAITS = pa.schema([("number", pa.uint32()), *TRAITS])


class File(NamedTuple):
    """A published pair of files: the engine's part and the traits."""

    engine: SharedFile
    traits: SharedFile
    version: int
    """The engine's version that it leads to."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Version:
    """One state of a shard's subscriptions: all that travels to a task.

    The driver keeps the files of a version as long as its object exists there.
    """

    base: File
    deltas: tuple[File, ...] = ()
    selects: bool = False
    """Some subscription asks for more than the match itself."""

    @property
    def files(self) -> tuple[File, ...]:
        return (self.base, *self.deltas)


class Traits:
    """The traits of subscriptions by number: those of the base, mapped from its file, and the few changed since."""

    def __init__(self, base: pa.Table) -> None:
        self._base = base.combine_chunks()
        self._changed: dict[int, dict[str, object]] = {}
        self._few = self._numbers = None

    def change(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self._changed[row.pop("number")] = row
        self._few = pa.Table.from_pylist(list(self._changed.values()), TRAITS).combine_chunks()
        self._numbers = pa.array(self._changed, pa.uint32())

    def take(self, name: str, numbers: pa.Array) -> pa.Array:
        """A column's values for subscription numbers."""
        base = _only_chunk(self._base.column(name))
        if self._few is None:
            return base.take(numbers)
        place = pc.index_in(numbers, value_set=self._numbers)
        unchanged = pc.if_else(place.is_null(), numbers, pa.scalar(None, numbers.type))
        if not len(base):
            return _only_chunk(self._few.column(name)).take(place)
        picked = _only_chunk(self._few.column(name)).take(place)
        return pc.if_else(place.is_null(), base.take(unchanged), picked)


@dataclass
class Held:
    """An engine that a worker has, and the files it was made of."""

    engine: Engine
    traits: Traits
    base: File
    version: int


_held: OrderedDict[int, Held] = OrderedDict()
_next = 0
opened: list[str] = []
"""The bases this process has opened, in order: one entry each, or the cache does not do its work."""
applied: list[str] = []
"""The deltas this process has applied, likewise."""


def held_at(version: Version) -> Held:
    """The engine at exactly this version, from this process's cache if it can be brought there.

    The cache must live in an importable module: what is pickled with a task starts empty each time.
    """
    global _next
    best = None
    for key in list(_held):
        held = _held[key]
        if held.base != version.base:
            continue
        reachable = [file.version for file in version.files]
        if held.version in reachable and (best is None or held.version > _held[best].version):
            best = key
    if best is None:
        # Another shard's engine is let go first: a worker has the memory for one.
        for key in [key for key, held in _held.items() if held.base != version.base]:
            del _held[key]
        held = _open(version.base)
        best, _next = _next, _next + 1
        _held[best] = held
        while len(_held) > KEPT:
            _held.popitem(last=False)
    _held.move_to_end(best)
    held = _held[best]
    for file in version.files:
        keep(file.engine)
        keep(file.traits)
    try:
        _advance(held, version)
    except BaseException:
        del _held[best]  # half-way between two versions
        raise
    return held


def _open(base: File) -> Held:
    engine = preloaded(base.engine) or open_shared(base.engine, Engine.open)
    opened.append(base.engine.path)
    return Held(engine, Traits(_read(base.traits)), base, base.version)


def _advance(held: Held, version: Version) -> None:
    done = [file.version for file in version.files].index(held.version)
    for delta in version.files[done + 1 :]:
        open_shared(delta.engine, held.engine.apply)
        held.traits.change(_read(delta.traits))
        held.version = delta.version
        applied.append(delta.engine.path)


def _read(file: SharedFile) -> pa.Table:
    return open_shared(file, _mapped)


def _mapped(path: str) -> pa.Table:
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
