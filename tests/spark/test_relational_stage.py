"""The relational engine on Spark SQL: as a database, and as a stage on DataFrames."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from twigcast import Engine, Subscription
from twigcast.relational import PLANS, RelationalEngine
from twigcast.spark import match_relational
from twigcast.spark.relational import SparkSQL

sys.path.append(str(Path(__file__).parents[1] / "lang"))

from lang_documents import document

QUERIES = [
    "/a//b[.//c and d = '1']/@a",
    "//a[b = 1 and c != '2']",
    "//a[b > 0 and .//c <= 2 or d]",
    "//*[a and b and c]",
    "//b[@a != 1][c]",
    "//a/text() = 'x'",
    "//a[b[c]/d and .//d = 2]",
    "//c[. = '' or . = '1.0']",
    "//node()[. = 2]",
]
SUBSCRIPTIONS = [Subscription(f"q{i}", query) for i, query in enumerate(QUERIES)]
MESSAGES = [document(random.Random(seed)) for seed in range(40)]


def expected() -> list[list[Any]]:
    automaton = Engine()
    automaton.add_many(SUBSCRIPTIONS)
    return [automaton.match(xml) for xml in MESSAGES]


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_as_a_database(spark: SparkSession, plan: str) -> None:
    small: dict[str, Any] = {"unroll": {"unroll": 2}, "share-bucket": {"buckets": 1}}
    engine = RelationalEngine(SparkSQL(spark), plan=plan, **small.get(plan, {}))
    engine.add_many(SUBSCRIPTIONS)
    batch = pa.record_batch({"id": range(len(MESSAGES)), "xml": pa.array(MESSAGES, pa.binary())})
    assert engine.match_batch(batch).column("matches").to_pylist() == expected()
    engine.remove("q2")
    assert "q2" not in engine.match(MESSAGES[0])


def test_as_a_stage(spark: SparkSession) -> None:
    engine = RelationalEngine(plan="unroll", unroll=2)
    engine.add_many(SUBSCRIPTIONS)
    rows = [(f"m{i}", bytearray(xml)) for i, xml in enumerate(MESSAGES)]
    frame = spark.createDataFrame([*rows, ("bad", bytearray(b"<a>"))], "key string, body binary")
    matched = match_relational(frame, engine, id="key", xml="body")
    found = {(row.message, row.subscription) for row in matched.matches.collect()}
    assert found == {(f"m{i}", id) for i, ids in enumerate(expected()) for id in ids}
    ((dead),) = matched.dead.collect()
    assert (dead.message, dead.reason, bytes(dead.original)) == ("bad", "unclosed-element", b"<a>")
    # a subscription that is new, and a message with tag paths that are
    engine.add("//z", id="new")
    again = match_relational(spark.createDataFrame([("z", "<y><z/></y>")], "id string, xml string"), engine)
    assert [(row.message, row.subscription) for row in again.matches.collect()] == [("z", "new")]


@pytest.mark.slow
def test_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    engine = RelationalEngine(plan="share")
    engine.add("/a[b = 1]", id=7)
    spark.createDataFrame([(1, "<a><b>1</b></a>"), (2, "<a/>")], "id int, xml string").write.parquet(
        str(tmp_path / "in")
    )
    found: list[tuple[int, int]] = []

    def each(batch: Any, number: int) -> None:
        found.extend((row.message, row.subscription) for row in match_relational(batch, engine).matches.collect())

    stream = spark.readStream.schema("id int, xml string").parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    assert found == [(1, 7)]
