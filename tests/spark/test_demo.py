"""The demo, on a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from spark_results import pairs, read_lines

from twigcast.cli.demo import MARK, demo
from twigcast.errors import OptionError


def test_demo(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    (out / "outbox").mkdir(parents=True)
    (out / MARK).touch()  # an earlier demo, to be cleared away
    (out / "outbox" / "old").touch()
    arguments = ["--out", str(out), "--messages", "62", "--subscriptions", "100"]
    ended = CliRunner().invoke(demo, arguments, catch_exceptions=False)
    assert ended.exit_code == 0 and not (out / "outbox" / "old").exists()
    for word in ("messages", "subscriptions", "matches", "rejects", "throughput", "Dead letters", str(out)):
        assert word in ended.stdout
    assert pairs(out / "outbox")
    assert len(read_lines(out / "outbox" / "dead")) == 62 // 7
    assert len((out / "subscriptions.jsonl").read_text().splitlines()) == 100


def test_demo_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(OptionError, match="not a demo"):
        CliRunner().invoke(demo, ["--out", str(tmp_path)], catch_exceptions=False)
    assert (tmp_path / "precious").exists()
