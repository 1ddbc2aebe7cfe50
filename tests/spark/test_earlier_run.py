"""A pipeline that commit f693179 ran goes on: nothing comes twice, and correlations still know their messages."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from twigcast import config
from twigcast.spark.pipeline import Run
from twigcast.spark.sources import listing

EARLIER_RUN = 1_794_962_071
"""When the earlier version ran last, in seconds since 1970."""


def _in_lake(folder: Path) -> Counter[tuple[str, str]]:
    """Return (message, subscription) of every delivery in the Parquet sink, with how often it is there."""
    found: Counter[tuple[str, str]] = Counter()
    for path in (folder / "lake").glob("date=*/*.parquet"):
        table = pq.ParquetFile(path).read(columns=["message", "subscription"])
        found.update(zip(table["message"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    return found


def test_a_pipeline_of_an_earlier_version_goes_on(
    spark: SparkSession, earlier_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The correlation has a window of a day, and messages have the times at which they arrived.
    clock = SimpleNamespace(time_ns=lambda: (EARLIER_RUN + 60) * 10**9, monotonic=time.monotonic)
    monkeypatch.setattr(listing, "time", clock)
    before = _in_lake(earlier_folder)
    assert sum(before.values()) == 11
    (earlier_folder / "inbox" / "4.xml").write_bytes(b'<paid order="2"/>')
    Run(config.load(earlier_folder / "pipeline.toml"), spark=spark, once=True, patience=1.0)()
    new = _in_lake(earlier_folder) - before
    assert _in_lake(earlier_folder) - new == before
    # the payment joins with an order that the earlier version read
    assert {subscription for _, subscription in new} == {"late", "join"} and sum(new.values()) == 2
