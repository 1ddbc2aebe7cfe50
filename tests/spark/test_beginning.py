"""Where the query over correlations begins, as it is written down. Without Spark."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twigcast.config import load
from twigcast.delivery.files import write_record
from twigcast.errors import StateDamaged
from twigcast.spark.beginning import Beginning, read_running, write_running
from twigcast.spark.correlations import CorrelationRun
from twigcast.spark.stages.standing import Standing

STANDING = [Standing("a", "S/a->x JOIN{x = y, 1 h} S/a->y")]


def checkpoint_of(folder: Path) -> Path:
    """Make the checkpoint of a query that has done a micro-batch."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "0").write_text('v1\n{"batchTimestampMs":1}\n{"in": 4}')
    return folder


def test_the_beginning_is_written_with_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path / "checkpoints" / "correlations")
    beginning = Beginning(7, {"in": 3, "bus": -1})
    beginning.begin(checkpoint)
    write_running(tmp_path, STANDING)
    assert [path.name for path in checkpoint.iterdir()] == ["beginning.json"], "nothing of the old state is left"
    assert Beginning.read(checkpoint, tmp_path) == beginning
    (checkpoint / "beginning.json").write_text("{")
    with pytest.raises(StateDamaged, match=r"beginning\.json cannot be read"):
        Beginning.read(checkpoint, tmp_path)
    (checkpoint / "beginning.json").unlink()
    with pytest.raises(StateDamaged, match=r"beginning\.json is missing"):
        Beginning.read(checkpoint, tmp_path)


@pytest.mark.parametrize("running", [None, {"format": 1, "correlations": [STANDING[0]._asdict()]}])
def test_an_earlier_version_began_elsewhere(tmp_path: Path, running: dict[str, Any] | None) -> None:
    checkpoint = checkpoint_of(tmp_path / "checkpoints" / "correlations")
    if running is not None:
        (tmp_path / "correlations.json").write_text(json.dumps(running))
    assert read_running(tmp_path) == (None if running is None else STANDING)
    assert Beginning.read(checkpoint, tmp_path) is None
    write_record(checkpoint / "beginning.json", {"format": 1, "first": 0, "streams": {"in": {"batch": 3}}})
    assert Beginning.read(checkpoint, tmp_path) is None


def test_a_query_that_has_begun_does_not_begin_anew(tmp_path: Path) -> None:
    """Its correlations may be deleted, as a refusal advises, before its first micro-batch: what waits for it counts."""
    (tmp_path / "pipeline.toml").write_text('[streams.in]\nsource = "socket"\nport = 1\n[sinks.out]\nkind = "stdout"\n')
    settings = load(tmp_path / "pipeline.toml")
    run: Any = SimpleNamespace(settings=settings)
    assert not CorrelationRun(run, ExitStack())._begun
    Beginning(0, {"in": 3}).begin(settings.state.checkpoints / "correlations")
    assert CorrelationRun(run, ExitStack())._begun
    write_running(settings.state.path, STANDING)
    assert CorrelationRun(run, ExitStack())._begun
    write_running(settings.state.path, ())
    assert not CorrelationRun(run, ExitStack())._begun, "nobody needs its state any more"
