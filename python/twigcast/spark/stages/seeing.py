"""What correlations see of messages, found in a worker when it reads them: the stage that joins them need not."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from twigcast.correlate.default import Blocks, Default
from twigcast.engine import Engine
from twigcast.limits import Limits
from twigcast.spark.stages.standing import Shipped


@dataclass(frozen=True, slots=True)
class Seeing:
    """The correlations that a worker looks for. Pickled with each task: they are in a file."""

    correlations: Shipped
    """In one bucket."""
    stream: str

    def engine(self, limits: Limits) -> tuple[Engine, list[int]]:
        """Return the engine with the blocks of the correlations, and its numbers for the stream of the messages."""
        engine, blocks = _engine_of(self.correlations, limits)
        return engine, blocks.streams(self.stream, False)


# In an importable module: what is pickled with a task starts empty each time.
_held: dict[tuple[Shipped, Limits], tuple[Engine, Blocks]] = {}
"""The engine of the query that runs."""


def _engine_of(correlations: Shipped, limits: Limits) -> tuple[Engine, Blocks]:
    key = correlations, limits
    if key not in _held:
        _held.clear()
        engine = Engine(limits=limits)
        backend = Default(engine=engine, portable=True)
        for number, one in enumerate(correlations[0]):
            backend.add(number, one.parsed())
        _held[key] = engine, backend.blocks
        # Spark looks for garbage after each task, and would go through all blocks each time.
        gc.collect()
        gc.freeze()
    return _held[key]
