"""Where the query over correlations begins, as it is written down. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twigcast.errors import StateDamaged
from twigcast.spark.beginning import Beginning, Place, fresh_checkpoint, put_in_place, read_running, write_running
from twigcast.spark.stages.standing import Standing

STANDING = [Standing("a", "S/a->x JOIN{x = y, 1 h} S/a->y")]


def checkpoint_of(folder: Path, *ends: dict[str, Any] | None) -> Path:
    """Make the offsets of a query over one source: where each of its micro-batches ends."""
    (folder / "offsets").mkdir(parents=True)
    for batch, end in enumerate(ends):
        lines = ["v1", '{"batchTimestampMs":1}', "-" if end is None else json.dumps(end)]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    return folder


def test_a_place_in_kafka_names_every_partition(tmp_path: Path) -> None:
    ends = ({"t": {"0": 3}}, {"t": {"0": 5, "1": 2}}, {"t": {"0": 7, "1": 2, "2": 1}, "u": {"0": 4}})
    checkpoint = checkpoint_of(tmp_path, *ends)
    assert Place.of(checkpoint, 0).kafka_offsets() is None, "from the start of the stream, as it is configured"
    place = Place.of(checkpoint, 2)
    assert json.loads(place.kafka_offsets() or "") == {"t": {"0": 5, "1": 2, "2": -2}, "u": {"0": -2}}


def test_a_place_in_a_table_knows_the_files_before_it(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, None, {"logOffset": 0}, {"logOffset": 2})
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    for look in range(3):
        (log / str(look)).write_text(f'v1\n{{"path":"file:///t/{look}.json","timestamp":1,"batchId":{look}}}')
    files = [Place.of(checkpoint, batch).table_files(checkpoint) for batch in (0, 1, 2, 3)]
    assert [len(some) for some in files] == [0, 0, 1, 3] and files[2] == ["file:///t/0.json"]


def test_the_beginning_is_written_with_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path / "checkpoints" / "correlations", {"entry": 4})
    beginning = Beginning(7, {"in": Place(3), "bus": Place(2, {"t": {"0": 5}})})
    fresh = fresh_checkpoint(checkpoint)
    beginning.write(fresh)
    put_in_place(fresh, checkpoint)
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
def test_an_earlier_version_began_at_the_start(tmp_path: Path, running: dict[str, Any] | None) -> None:
    checkpoint = checkpoint_of(tmp_path / "checkpoints" / "correlations", {"entry": 4})
    if running is not None:
        (tmp_path / "correlations.json").write_text(json.dumps(running))
    assert read_running(tmp_path) == (None if running is None else STANDING)
    assert Beginning.read(checkpoint, tmp_path) == Beginning()
    write_running(tmp_path, STANDING)
    assert Beginning.read(checkpoint, tmp_path) == Beginning()
