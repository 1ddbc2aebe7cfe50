"""Shredding in a worker: rows of nodes and of refused messages, in batches of one schema."""

from __future__ import annotations

import pyarrow as pa

from twigcast.relational import RelationalEngine
from twigcast.relational.worker import Shredding


def test_rows_and_refusals() -> None:
    engine = RelationalEngine()
    engine.add("//a[b = 1 and c]", id=1)
    xml = pa.array([b"<a><b>1</b><c/></a>", b"<a>", None], pa.binary())
    batches = list(Shredding.of(engine).rows(pa.array([10, 20, 30], pa.int64()), xml))
    assert len({str(batch.schema) for batch in batches}) == 1
    rows = pa.Table.from_batches(batches).to_pylist()
    assert [(r["event_id"], r["tagpath"], r["value"]) for r in rows if r["reason"] is None] == [
        (10, "/a/b", "1"),
        (10, "/a/c", None),
    ]
    assert [r["event_id"] for r in rows if r["reason"] is not None] == [20, 30]
