"""What several of these tests use. The Spark session is in `servers/spark_session.py`."""

from __future__ import annotations

import pytest

from twigcast.engine import Engine

pytest.importorskip("pyspark")


@pytest.fixture
def engine() -> Engine:
    built = Engine()
    for query in ("/a", "//b", "/a/b", "//c", "/a/*/c"):
        built.add(query)
    return built
