"""Messages into the delivery log: who gets what, whatever the number of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_store import FakeStore
from pyspark.sql import SparkSession

from twigcast.delivery import Log
from twigcast.spark import LiveSet, deliver
from twigcast.spark.stages.outcome import of_fragments, of_nodes

MESSAGES = [
    ("1", "<a><b>x</b><b>y</b></a>"),
    ("2", "<a><b>x</b></a>"),
    ("3", "<a>"),
    ("4", None),
    ("5", "<c/>"),
    ("6", "<nothing/>"),
]


@pytest.fixture(scope="module")
def store() -> FakeStore:
    store = FakeStore()
    store.put("whole", "/a", subscriber="ann")
    store.put("parts", "/a/b", subscriber="bob", result="fragments", max_delay=60_000)
    store.put("texts", "/a/b/text()", result="fragments")
    store.put("places", "//b", result="nodes")
    store.put("here", "//c", stream="orders")
    store.put("elsewhere", "//c", stream="news")
    return store


@pytest.mark.parametrize("shards", [1, 3])
def test_deliveries(spark: SparkSession, tmp_path: Path, store: FakeStore, shards: int) -> None:
    frame = spark.createDataFrame(MESSAGES, "message string, xml string")
    alive = LiveSet(store, tmp_path / "snapshots", shards=shards)
    with Log(tmp_path / "log", "orders").claimed() as log:
        counts = deliver(frame, alive, log, 0)
        assert deliver(frame, alive, log, 0) == counts  # again is nothing
        (batch,) = log.batches()
    rows = [row for part in batch.deliveries() for row in part.to_pylist()]
    assert (counts.messages, counts.rejects, counts.deliveries) == (6, 2, len(rows)) and batch.version == 6
    found = {(row["message"], row["subscription"]): row for row in rows}
    assert sorted(found) == [
        ("1", "parts"), ("1", "places"), ("1", "texts"), ("1", "whole"),
        ("2", "parts"), ("2", "places"), ("2", "texts"), ("2", "whole"),
        ("5", "here"),
    ]  # fmt: skip
    assert len({row["delivery"] for row in rows}) == len(rows)
    whole = found["1", "whole"]
    assert (whole["subscriber"], whole["payload"], whole["xml"]) == ("ann", None, b"<a><b>x</b><b>y</b></a>")
    parts = found["1", "parts"]
    assert (parts["subscriber"], parts["max_delay"]) == ("bob", 60_000)
    assert parts["payload"] == b"<results><result><b>x</b></result><result><b>y</b></result></results>"
    assert found["2", "parts"]["payload"] == b"<b>x</b>"
    assert found["2", "texts"]["payload"] == b"<results><result>x</result></results>"
    assert found["2", "places"]["payload"] == b"<nodes>2</nodes>"
    dead = {row["message"]: row for part in batch.dead() for row in part.to_pylist()}
    assert (dead["3"]["line"], dead["3"]["original"], dead["4"]["reason"]) == (1, b"<a>", "no-content")


def test_ids_are_the_same_however_often(spark: SparkSession, tmp_path: Path, store: FakeStore) -> None:
    frame = spark.createDataFrame(MESSAGES, "message string, xml string")
    ids: list[set[Any]] = []
    for run in range(2):
        alive = LiveSet(store, tmp_path / f"snapshots{run}", shards=1 + run)
        with Log(tmp_path / f"log{run}", "orders").claimed() as log:
            deliver(frame, alive, log, 7 + run)
            ids.append({id for b in log.batches() for part in b.deliveries() for id in part["delivery"].to_pylist()})
    assert ids[0] == ids[1] and ids[0]


def test_payloads() -> None:
    assert of_fragments([b"<a/>"]) == b"<a/>"
    assert of_fragments([b"<!--c-->"]) == b"<results><result><!--c--></result></results>"
    assert of_fragments([b"<a/>"], False) == b'<results complete="false"><result><a/></result></results>'
    assert of_fragments([]) == b"<results></results>"
    assert of_nodes([1, 20], False) == b'<nodes complete="false">1 20</nodes>'
