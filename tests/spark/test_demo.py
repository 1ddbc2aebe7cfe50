"""The demo, on a small scale."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from twigcast import config
from twigcast.cli.demo import MARK, demo
from twigcast.delivery.dead import DeadLetters
from twigcast.errors import OptionError


def test_demo(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / MARK).touch()  # an earlier demo, to be cleared away
    (out / "old").touch()
    arguments = ["--out", str(out), "--messages", "62", "--subscriptions", "100"]
    ended = CliRunner().invoke(demo, arguments, catch_exceptions=False)
    assert ended.exit_code == 0 and not (out / "old").exists()
    for word in ("messages", "subscriptions", "deliveries", "dead letters", "throughput", "Dead letters", str(out)):
        assert word in ended.stdout
    assert "a transform: a new message" in ended.stdout and "<headlines>" in ended.stdout
    letters = DeadLetters(config.load(out / "pipeline.toml").state.dead)
    assert letters.count() == 62 // 7
    letters.close()
    assert len((out / "subscriptions.jsonl").read_text().splitlines()) == 100
    rows = [
        row for path in (out / "deliveries").glob("date=*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()
    ]
    headlines = {row["message"] for row in rows if row["subscription"] == "ann-headlines"}
    numbers = {int(message[-10:-4]) for message in headlines}
    assert numbers and min(numbers) >= 21 and max(numbers) < 42  # it was there for the second of three lots only
    assert any((out / "outbox" / "ann").rglob("*.xml"))


def test_demo_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(OptionError, match="not a demo"):
        CliRunner().invoke(demo, ["--out", str(tmp_path)], catch_exceptions=False)
    assert (tmp_path / "precious").exists()
