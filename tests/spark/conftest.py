"""One Spark session for all of these tests: it takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from twigcast.engine import Engine

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from twigcast.errors import OptionError
from twigcast.spark.java import find_java
from twigcast.spark.session import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))  # with --dist loadgroup: one session, not one per core


@pytest.fixture(scope="session")
def java() -> None:
    try:
        find_java()
    except OptionError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    started = session(app="twigcast-tests", cores=2, quick=True)
    yield started
    started.stop()


@pytest.fixture
def engine() -> Engine:
    built = Engine()
    for query in ("/a", "//b", "/a/b", "//c", "/a/*/c"):
        built.add(query)
    return built
