"""The match stage on DataFrames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import twigcast.spark
from twigcast.engine import Engine
from twigcast.errors import OptionError
from twigcast.spark import workers
from twigcast.spark.stages.match import publish
from twigcast.spark.workers import held_at


def collect(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_matches_and_dead(spark: SparkSession, engine: Engine) -> None:
    rows = [("1", b"<a><b/></a>"), ("2", b"<a><b></a>"), ("3", None), ("4", b"<x/>"), ("4", b"<c/>"), (None, b"<a/>")]
    matched = twigcast.spark.match(spark.createDataFrame(rows, "id string, xml binary"), engine).persist()
    assert collect(matched.matches) == [("1", 1), ("1", 2), ("1", 3), ("4", 4), (None, 1)]
    dead = {row["message"]: row for row in matched.dead.collect()}
    assert set(dead) == {"2", "3"}
    assert bytes(dead["2"]["original"]) == b"<a><b></a>"
    assert dead["2"]["line"] == 1 and dead["2"]["column"] > 1 and dead["2"]["text"]
    assert dead["3"]["reason"] == "no-content" and dead["3"]["original"] is None
    matched.unpersist()


def test_names_and_types_of_columns(spark: SparkSession) -> None:
    engine = Engine()
    engine.add("/a", id="first")
    frame = spark.createDataFrame([(17, "<a/>", "k")], "number int, body string, key string")
    matched = twigcast.spark.match(frame, engine, id="number", xml="body")
    assert matched.matches.dtypes == [("message", "int"), ("subscription", "string")]
    assert collect(matched.matches) == [(17, "first")]
    assert collect(matched.dead) == []


def test_a_snapshot_file_will_do(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    frame = spark.createDataFrame([("m", b"<a/>")], "id string, xml binary")
    matched = twigcast.spark.match(frame, tmp_path / "engine")
    # The file may change or go after the call: the stage has its own copy.
    (tmp_path / "engine").unlink()
    assert collect(matched.matches) == [("m", 1)]


def test_no_subscriptions(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("m", b"<a/>"), ("n", b"<")], "id string, xml binary")
    matched = twigcast.spark.match(frame, Engine())
    assert collect(matched.matches) == []
    assert [row["message"] for row in matched.dead.collect()] == ["n"]


def test_wrong_columns(spark: SparkSession, engine: Engine) -> None:
    frame = spark.createDataFrame([("m", 1)], "id string, xml int")
    with pytest.raises(OptionError, match="'xml' is int"):
        twigcast.spark.match(frame, engine)
    with pytest.raises(OptionError, match="no column 'body'"):
        twigcast.spark.match(frame, engine, xml="body")


def test_a_worker_opens_a_snapshot_once(spark: SparkSession, engine: Engine) -> None:
    engine.add("/of/this/test/alone")  # A worker may have opened the same set for another test, and forgotten it since.
    snapshot = publish(engine)
    matched = twigcast.spark.match(spark.range(50).selectExpr("id", "'<a/>' as xml").repartition(4), snapshot)
    for _ in range(3):
        assert matched.matches.count() == 50

    def witness(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            held_at(snapshot)
        opened = workers.opened.count(snapshot.base.engine.path)
        yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "opened": [opened]})

    seen = spark.range(50).repartition(4).mapInArrow(witness, "process long, opened long").collect()
    assert seen and all(row["process"] != os.getpid() and row["opened"] == 1 for row in seen)


def test_publishing_is_by_content(engine: Engine, tmp_path: Path) -> None:
    first, again = publish(engine, folder=tmp_path), publish(engine, folder=tmp_path)
    assert first == again and [path.name for path in tmp_path.iterdir()] == [Path(first.base.engine.path).name]
    engine.add("/other")
    other = publish(engine, folder=tmp_path)
    assert other != first
    third = Engine()
    third.add("/third")
    for snapshot in (first, other, publish(third, folder=tmp_path)):
        assert held_at(snapshot).engine is held_at(snapshot).engine
    assert len(workers._held) == workers.KEPT


def test_streaming_in_one_pass(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    """The recipe of the documentation: both parts of a stream inside foreachBatch."""
    source = tmp_path / "in"
    spark.createDataFrame([("1", "<a/>"), ("2", "<a"), ("3", "<b/>")], "id string, xml string").write.json(str(source))
    snapshot = publish(engine)
    found: dict[str, list[Any]] = {"matches": [], "dead": []}

    def each(batch: DataFrame, number: int) -> None:
        matched = twigcast.spark.match(batch, snapshot).persist()
        found["matches"] += [tuple(row) for row in matched.matches.collect()]
        found["dead"] += [row["message"] for row in matched.dead.collect()]
        matched.unpersist()

    stream = spark.readStream.schema("id string, xml string").json(str(source))
    query = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    assert sorted(found["matches"]) == [("1", 1), ("3", 2)]
    assert found["dead"] == ["2"]


def test_what_transforms_make_and_filters_select_comes_as_payload(spark: SparkSession) -> None:
    engine = Engine()
    engine.add("<r>{ for $b in //b where $b/@n > 1 return $b }</r>", id="made")
    engine.add("//b", id="whole")
    engine.add("//b/@n", id="selected", result="fragments")
    messages = spark.createDataFrame(
        [("m", bytearray(b"<a><b n='1'/><b n='2'/></a>")), ("bad", bytearray(b"<a>"))], ["id", "xml"]
    )
    matched = twigcast.spark.match(messages, engine)
    assert {row["subscription"]: row["payload"] and bytes(row["payload"]) for row in matched.matches.collect()} == {
        "made": b"<r><b n='2'/></r>",
        "whole": None,
        "selected": b"<results><result>1</result><result>2</result></results>",
    }
    assert [row["message"] for row in matched.dead.collect()] == ["bad"]


def test_wrong_arguments(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "<a/>")], "id long, xml string")
    wrong: list[tuple[object, object, str]] = [
        (frame, ["/a"], "bad-engine"),
        (frame, None, "bad-engine"),
        (frame, tmp_path / "absent.snapshot", "no-such-snapshot"),
        (frame, tmp_path, "no-such-snapshot"),
        ([(1, "<a/>")], engine, "bad-messages"),
        (frame.toPandas(), engine, "bad-messages"),
        (frame.drop("xml"), engine, "no-such-column"),
        (frame.withColumn("xml", frame["id"]), engine, "bad-column"),
    ]
    for messages, subscriptions, code in wrong:
        with pytest.raises(OptionError) as caught:
            twigcast.spark.match(messages, subscriptions)  # type: ignore[arg-type]
        assert caught.value.code == code and caught.value.hint
    with pytest.raises(OptionError, match="a dict of queries"):
        twigcast.spark.correlate(frame.withColumn("time", frame["id"]), ["S/a->x JOIN{x = y, 1} S/a->y"], id="id")  # type: ignore[list-item]
    with pytest.raises(OptionError, match="no column 'message'"):
        twigcast.spark.correlate(frame, {})
