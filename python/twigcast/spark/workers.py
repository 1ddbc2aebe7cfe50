"""The engines that a worker process keeps between tasks.

The driver publishes a set of subscriptions as files: a base, and small deltas while the set changes. A task carries
their names only. A worker keeps the engine that it has and applies the deltas that it lacks, so a change costs what it
changes. Every task of a micro-batch names the same snapshot, and gets exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.spark.stages.preload import preloaded
from twigcast.spark.stages.shared import SharedFile, keep, open_shared

KEPT = 2
"""Engines that a worker keeps: two streams may be at two versions for the length of a micro-batch."""

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
    """The published files of a base or a delta: the engine's part, and the traits of a store's subscriptions."""

    engine: SharedFile
    traits: SharedFile | None = None
    version: int = 0
    """The engine's version that it leads to."""

    @property
    def every(self) -> tuple[SharedFile, ...]:
        return (self.engine,) if self.traits is None else (self.engine, self.traits)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """A published set of subscriptions, or one state of a shard of them: all that travels to a task.

    The driver keeps the files of a shard's state as long as its object exists there.
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


@dataclass(eq=False)
class Held:
    """An engine that a worker has, and the files it was made of."""

    engine: Engine
    traits: Traits
    """Empty for a set that is not a store's."""
    base: File
    version: int


# In an importable module: what is pickled with a task starts empty each time.
_held: list[Held] = []
"""Those that were asked for last at the end."""
opened: list[str] = []
"""The bases this process has opened, in order: one entry each, or the cache does not do its work."""
applied: list[str] = []
"""The deltas this process has applied, likewise."""


def held_at(snapshot: Snapshot) -> Held:
    """Return the engine of exactly this snapshot, from this process's cache if it can be brought there."""
    versions = [file.version for file in snapshot.files]
    fitting = [held for held in _held if held.base == snapshot.base and held.version in versions]
    held = max(fitting, key=lambda held: held.version, default=None)
    if held is None:
        # Another shard's engine is let go first: a worker has the memory for one.
        shard = snapshot.base.traits is not None
        _held[:] = [one for one in _held if one.base == snapshot.base or not (shard and one.base.traits)]
        held = _open(snapshot.base)
    else:
        _held.remove(held)  # and if it comes to a stop half-way between two versions, nobody gets it again
    for file in snapshot.files:
        for shared in file.every:
            keep(shared)
    for delta in snapshot.files[versions.index(held.version) + 1 :]:
        open_shared(delta.engine, held.engine.apply)
        held.traits.change(_read(delta.traits))
        held.version = delta.version
        applied.append(delta.engine.path)
    _held.append(held)
    del _held[:-KEPT]
    return held


def _open(base: File) -> Held:
    engine = preloaded(base.engine) or open_shared(base.engine, Engine.open)
    opened.append(base.engine.path)
    return Held(engine, Traits(_read(base.traits)), base, base.version)


def _read(file: SharedFile | None) -> pa.Table:
    return TRAITS.empty_table() if file is None else open_shared(file, _mapped)


def _mapped(path: str) -> pa.Table:
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
