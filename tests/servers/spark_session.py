"""One Spark session for all tests that need one: it takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from twigcast.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    pytest.importorskip("pyspark")
    from twigcast.spark.java import find_java

    try:
        find_java()
    except OptionError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    from twigcast.spark.session import session

    started = session(app="twigcast-tests", cores=2, quick=True)
    yield started
    started.stop()
