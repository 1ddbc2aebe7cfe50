"""What correlations see of messages, found when a worker matches them: the stage that joins them reads none.

The blocks of the correlations are put into the engine that matches, so that one reading of a message serves both.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from twigcast.correlate.default import Default
from twigcast.engine import Engine
from twigcast.spark.stages.standing import Shipped
from twigcast.spark.workers import Held

MANY = 1_000
"""Blocks from which on it is worth it to have Spark's garbage collection after each task pass them over."""


@dataclass(frozen=True, slots=True)
class Seeing:
    """The correlations that a worker looks for. Pickled with each task: they are in a file."""

    correlations: Shipped
    """In one bucket."""
    stream: str

    def streams(self, held: Held) -> list[int]:
        """Let the engine look for the correlations; return its numbers for the stream of the messages."""
        if held not in _of:
            _of[held] = _Blocks(held.engine)
        blocks = _of[held]
        blocks.follow(self.correlations)
        return blocks.backend.blocks.streams(self.stream, False)


@dataclass(eq=False)
class _Blocks:
    """The blocks of correlations in an engine."""

    engine: Engine
    backend: Default = field(init=False)
    known: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By the id of a correlation its digest and its number."""
    shipped: Shipped | None = None
    next: int = 0

    def __post_init__(self) -> None:
        self.backend = Default(engine=self.engine, portable=True)

    def follow(self, shipped: Shipped) -> None:
        """Remove the correlations that are not among these, and add those that are new."""
        if shipped == self.shipped:
            return
        self.shipped = None  # until all has succeeded
        wanted = {one.id: one for one in shipped[0]}
        for id in [id for id, (digest, _) in self.known.items() if id not in wanted or wanted[id].digest != digest]:
            self.backend.remove(self.known.pop(id)[1])
        new = [one for id, one in wanted.items() if id not in self.known]
        for one in new:
            self.backend.add(self.next, one.parsed())
            self.known[one.id] = one.digest, self.next
            self.next += 1
        self.shipped = shipped
        if len(new) >= MANY:
            gc.collect()
            gc.freeze()


# In an importable module: what is pickled with a task starts empty each time.
_of: WeakKeyDictionary[Held, _Blocks] = WeakKeyDictionary()
"""By the engine that a worker has."""
