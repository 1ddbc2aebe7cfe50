"""YFilter's own release tests (100 documents) through Spark: simple paths, and the mixed queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark_results import pairs, run_inbox

import twigcast.spark
from twigcast.engine.files import compile_file, read_subscriptions

NAMES = ["simple_paths", "mixed_queries"]


@pytest.fixture
def tests(shared_data: Path) -> Path:
    return shared_data / "yfilter-nitf" / "tests"


def expected(tests: Path, name: str) -> list[tuple[str, Any]]:
    found = json.loads((tests / "expected_matches.json").read_text())[f"test_{name}"]
    return sorted((name, number) for name, numbers in found.items() for number in numbers)


@pytest.mark.parametrize("name", NAMES)
def test_as_a_dataframe(spark: SparkSession, tests: Path, name: str) -> None:
    engine = compile_file(read_subscriptions(tests / f"test_{name}" / "queries.txt"))
    frame = spark.read.format("binaryFile").load(str(tests / "xmldocs"))
    frame = frame.selectExpr("substring_index(path, '/', -1) as name", "content")
    matched = twigcast.spark.match(frame, engine, id="name", xml="content").persist()
    assert sorted(tuple(row) for row in matched.matches.collect()) == expected(tests, name)
    assert matched.dead.count() == 0
    matched.unpersist()


@pytest.mark.parametrize("name", NAMES)
def test_as_a_folder(spark: SparkSession, tests: Path, name: str, tmp_path: Path) -> None:
    ran = run_inbox(tests / "xmldocs", tmp_path / "out", tests / f"test_{name}" / "queries.txt", "--max-files", 50)
    assert ran.exit_code == 0, ran.output
    assert sorted((message, int(id)) for message, id in pairs(tmp_path / "out")) == expected(tests, name)
