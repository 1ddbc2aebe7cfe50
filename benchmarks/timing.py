"""The method: thread CPU time, the corpus in chunks, variants in turn on each chunk, the best of N per chunk.

Neighbours on the machine change absolute times by half; what is measured in turn keeps its ratio to about a tenth.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Literal
from xml.parsers import expat

import pyarrow as pa
from lxml import etree

from twigcast import Limits, _kernel


@dataclass(frozen=True)
class Line:
    """One measured number and the bar it must keep."""

    group: str
    name: str
    value: float
    unit: str
    bar: float | None = None
    better: Literal["lower", "higher"] = "lower"
    note: str = ""

    @property
    def passed(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


@dataclass(frozen=True)
class Chunk:
    documents: list[bytes]
    batch: pa.RecordBatch


Variant = Callable[[Chunk], object]


def chunks(documents: Sequence[bytes], size: int = 100) -> list[Chunk]:
    parts = [list(documents[i : i + size]) for i in range(0, len(documents), size)]
    return [Chunk(p, pa.record_batch({"id": range(len(p)), "xml": pa.array(p, pa.binary())})) for p in parts]


def interleaved(
    variants: Mapping[str, Variant], parts: Sequence[Chunk], *, repeat: int, before: Callable[[], object] | None = None
) -> dict[str, float]:
    """Seconds per variant over all chunks. ``before`` is called before each pass, untimed."""
    best = {name: [float("inf")] * len(parts) for name in variants}
    gc.collect()
    gc.disable()
    try:
        order = list(variants.items())
        for _ in range(repeat):
            if before:
                before()
            order.append(order.pop(0))  # none is always the one that finds the caches full of another's data
            for i, part in enumerate(parts):
                for name, run in order:
                    start = thread_time()
                    run(part)
                    best[name][i] = min(best[name][i], thread_time() - start)
    finally:
        gc.enable()
    return {name: sum(times) for name, times in best.items()}


def seconds(run: Callable[[], object]) -> float:
    start = thread_time()
    run()
    return thread_time() - start


def expat_parse(chunk: Chunk) -> None:
    """X, the yardstick: expat without handlers, a parser per message."""
    for document in chunk.documents:
        expat.ParserCreate().Parse(document, True)


def lxml_parse(chunk: Chunk) -> None:
    for document in chunk.documents:
        etree.fromstring(document)


_LIMITS = Limits().as_dict()


def reader(chunk: Chunk) -> None:
    _kernel.parse_only(chunk.documents, _LIMITS)
