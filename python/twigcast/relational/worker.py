"""What runs elsewhere than where the tables are: shredding, and BrPred, the natural join over branch points.

A worker knows the linear paths, and names tag paths by their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twigcast import _kernel
from twigcast.plan.encode import StepCodes
from twigcast.relational.paths import steps_of
from twigcast.relational.state import points_of
from twigcast.rows import REFUSED, refused_columns

if TYPE_CHECKING:
    from twigcast.relational.engine import RelationalEngine

TYPES = (pa.int64(), pa.string(), pa.list_(pa.int32()), pa.string(), pa.float64(), *REFUSED.values())
NAMES = ("event_id", "tagpath", "idpath", "value", "number", *REFUSED)


@dataclass(frozen=True)
class Shredding:
    """Linear paths with whether their values matter, branches, and limits; small enough to go with each task."""

    paths: tuple[tuple[int, str, bool], ...]
    branches: tuple[tuple[int, int, str], ...]
    limits: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, engine: RelationalEngine) -> Shredding:
        rows = engine.database.rows
        return cls(
            tuple(rows("SELECT id, linear_path, valued FROM query_linear_path ORDER BY id")),
            tuple(rows("SELECT br_info_id, linear_path_id, br_info FROM linear_path_br_info ORDER BY br_info_id")),
            tuple(engine.limits.as_dict().items()),
        )

    def rows(self, events: pa.Array, xml: pa.Array) -> Iterator[pa.RecordBatch]:
        shredder = _shredder(self)
        start = 0
        while start < len(xml):
            data, errors, end = shredder.shred(xml, start, dict(self.limits))
            shreds = pa.array(data)
            texts = _texts(shredder, shreds.field("tagpath"))
            nothing = [pa.nulls(len(shreds), kind) for kind in REFUSED.values()]
            columns = [events.take(shreds.field("event_id")), texts, shreds.field("idpath"), shreds.field("value")]
            number = pc.add(shreds.field("number"), 0.0)  # -0 is 0
            yield _batch([*columns, number, *nothing])
            refused = pa.array(errors)
            wrong = pc.indices_nonzero(refused.is_valid())
            if len(wrong):
                yield _refused(events.slice(start, end - start).take(wrong), refused.take(wrong))
            start = end


def _refused(events: pa.Array, errors: pa.StructArray) -> pa.RecordBatch:
    empty = [pa.nulls(len(events), kind) for kind in (pa.string(), pa.list_(pa.int32()), pa.string(), pa.float64())]
    return _batch([events, *empty, *refused_columns(errors).values()])


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    """All batches have the same types, to the last nullability: Spark writes them into one stream."""
    return pa.RecordBatch.from_arrays([c.cast(t) for c, t in zip(columns, TYPES, strict=True)], list(NAMES))


def _texts(shredder: _kernel.Shredder, tag_paths: pa.Array) -> Any:
    coded = tag_paths.dictionary_encode()
    texts = pa.array([shredder.tag_path(number) for number in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


@lru_cache(maxsize=4)
def _shredder(shredding: Shredding) -> _kernel.Shredder:
    """Kept from one task of a worker to the next."""
    shredder = _kernel.Shredder()
    codes = StepCodes(shredder)
    for number, text, valued in shredding.paths:
        shredder.add_path(number, [codes[step] for step in steps_of(text)], valued)
    for number, path, info in shredding.branches:
        shredder.add_branch(number, path, [step - 1 for _, step in points_of(info)])
    return shredder


def br_pred(branches: pa.Array, points: pa.Array, nodes: pa.Array) -> pa.Array:
    """Return for each row whether its branches share the nodes at their branch points (relational §3.5.2)."""
    columns = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in (branches, points, nodes)]
    return pa.array(_kernel.branches_meet(*columns))
