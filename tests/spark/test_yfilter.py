"""YFilter's own release tests (100 documents) through Spark: simple paths, and the mixed queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark_results import pairs

import twigcast.spark
from twigcast.engine import Engine, Subscription


@pytest.fixture(
    scope="module",
    params=["simple_paths", "mixed_queries"],
)
def suite(request: pytest.FixtureRequest, shared_data: Path) -> tuple[Path, Engine, list[tuple[str, Any]]]:
    name = request.param
    tests = shared_data / "yfilter-nitf" / "tests"
    engine = Engine()
    queries = (tests / f"test_{name}" / "queries.txt").read_text().splitlines()
    engine.add_many(Subscription(number, query) for number, query in enumerate(queries, 1) if query.strip())
    expected = json.loads((tests / "expected_matches.json").read_text())[f"test_{name}"]
    return tests / "xmldocs", engine, sorted((name, number) for name, found in expected.items() for number in found)


def test_as_a_dataframe(spark: SparkSession, suite: tuple[Path, Engine, list[tuple[str, Any]]]) -> None:
    documents, engine, expected = suite
    frame = spark.read.format("binaryFile").load(str(documents))
    frame = frame.selectExpr("substring_index(path, '/', -1) as name", "content")
    matched = twigcast.spark.match(frame, engine, id="name", xml="content").persist()
    assert sorted(tuple(row) for row in matched.matches.collect()) == expected
    assert matched.dead.count() == 0
    matched.unpersist()


def test_as_a_folder(spark: SparkSession, suite: tuple[Path, Engine, list[tuple[str, Any]]], tmp_path: Path) -> None:
    documents, engine, expected = suite
    counts = twigcast.spark.run_directory(documents, tmp_path / "out", engine, once=True, spark=spark, max_files=30)
    assert pairs(tmp_path / "out") == expected
    assert (counts.messages, counts.matches, counts.rejects) == (100, len(expected), 0)
