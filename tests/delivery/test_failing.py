"""One sink in trouble, the others not; and what becomes of what waits too long."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batches import SINKS, commit, expected, in_files, in_lake, in_lines, pipeline, some

from twigcast.delivery.dead import Cause, DeadLetters
from twigcast.delivery.runner import Runner
from twigcast.delivery.status import read_status


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_holds_back_nobody_else(tmp_path: Path, small_disk: Path) -> None:
    sinks = {
        **SINKS,
        "lake": {"kind": "parquet", "path": "small/lake"},
        "files": {"kind": "directory", "path": "small/f"},
    }
    settings = pipeline(tmp_path, sinks)
    log = commit(settings, 0, some(0, 5))
    with Runner(settings) as runner:
        assert runner.drain()
        hog = small_disk / "hog"
        with hog.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(os.urandom(1 << 16))
        for number in (1, 2):
            log = commit(settings, number, some(number, 5))
        ids = expected([log])
        runner.wake()
        assert not runner.drain(patience=1)
        assert len(in_lines(tmp_path / "lines")) == 15
        status = {each.sink: each for each in runner.status()}
        assert status["lines"].error is None and status["lines"].lag == 0
        for name in ("lake", "files"):
            assert status[name].lag == 2 and "No space left on device" in str(status[name].error), status[name]
        assert [(each.sink, each.lag) for each in read_status(settings)] == [("files", 2), ("lines", 0), ("lake", 2)]
        assert log.forgotten == 0  # the failing ones still need the rest
        hog.unlink()
        assert runner.drain()
        assert [each.error for each in runner.status()] == [None] * 3
    assert log.forgotten == 2
    assert len(in_lake(small_disk / "lake")) == 15 == len(in_files(small_disk / "f"))
    assert sorted(row["delivery"] for row in in_lake(small_disk / "lake") if not row["message"].startswith("m0")) == ids


def test_a_full_disk_under_the_state(tmp_path: Path, small_disk: Path) -> None:
    """The log, outbox and dead letter themselves have no room: nothing is lost, all goes on when there is."""
    settings = pipeline(tmp_path)
    settings = settings.model_copy(update={"state": settings.state.model_copy(update={"path": small_disk})})
    commit(settings, 0, some(0, 5))
    log = commit(settings, 1, some(1, 300), delay=10, dead=[("bad", b"<" * 1000)])
    with Runner(settings) as runner:
        hog = small_disk / "hog"
        with hog.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(os.urandom(1 << 12))
        time.sleep(0.5)
        hog.unlink()
        assert runner.drain()
    assert log.forgotten == 1
    entries = sum(line["content"].count("<entry ") for line in in_lines(tmp_path / "lines"))
    assert entries == 300
    dead = DeadLetters(settings.state.dead)
    assert [letter.message for letter in dead.letters()] == ["bad"]
    dead.close()


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where a folder should be")
    settings = pipeline(tmp_path)
    commit(settings, 0, some(0))
    with Runner(settings) as runner:
        assert not runner.drain(patience=1)
        status = {each.sink: each for each in runner.status()}
        assert str(tmp_path / "lake") in str(status["lake"].error) and status["lake"].attempts > 1
        assert len(in_lines(tmp_path / "lines")) == 10 == len(in_files(tmp_path / "files"))
    # the next run knows how long it has been failing
    since = status["lake"].failing_since
    with Runner(settings) as runner:
        time.sleep(0.5)
        assert {each.sink: each for each in runner.status()}["lake"].failing_since == since
        (tmp_path / "lake").unlink()
        assert runner.drain()
    assert len(in_lake(tmp_path / "lake")) == 10


def test_what_fails_for_too_long_goes_to_the_dead_letter_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where a folder should be")
    settings = pipeline(tmp_path, {"lake": {**SINKS["lake"], "max_age": 0.2}})
    log = commit(settings, 0, some(0))
    ids = expected([log])
    with Runner(settings) as runner:
        assert runner.drain()
        letters = runner.dead.letters()
        assert sorted(str(letter.delivery) for letter in letters) == ids
        assert {(letter.reason, letter.sink, letter.kind, letter.attempts > 2) for letter in letters} == {
            ("sink-age", "lake", "delivery", True)
        }
        assert runner.dead.counts() == runner.dead.added.counts() == {Cause("delivery", "sink-age", "s", "lake"): 10}
        # tried in vain: all ten, each time
        failed = {each.sink: each.failed for each in runner.status()}
        assert failed == {"lake": 10 * letters[0].attempts}
        assert str(tmp_path / "lake") in str(letters[0].text)
        (tmp_path / "lake").unlink()
        for letter in letters:
            runner.dead.redrive(letter, runner.outbox, settings.state.path / "redrive")
        until = time.time() + 20
        while len(in_lake(tmp_path / "lake")) < 10 and time.time() < until:
            time.sleep(0.05)
        assert runner.dead.count() == 0
    assert sorted(row["delivery"] for row in in_lake(tmp_path / "lake")) == ids
    assert sorted(row["subscriber"] or "" for row in in_lake(tmp_path / "lake")) == sorted(
        s or "" for _, _, s in some(0)
    )


def test_what_was_put_back_and_fails_again_is_a_dead_letter_again(tmp_path: Path) -> None:
    """Held deliveries are given up like others; they do not hold back what comes after them for ever."""
    (tmp_path / "lake").write_text("a file where a folder should be")
    settings = pipeline(tmp_path, {"lake": {**SINKS["lake"], "max_age": 0.2}})
    ids = expected([commit(settings, 0, some(0))])
    with Runner(settings) as runner:
        assert runner.drain()
        letters = runner.dead.letters()
        for letter in letters:
            runner.dead.redrive(letter, runner.outbox, settings.state.path / "redrive")
        assert runner.drain()
        again = runner.dead.letters()
        assert sorted(str(letter.delivery) for letter in again) == ids
        assert all(letter.attempts > before.attempts for letter, before in zip(again, letters, strict=True))
        (tmp_path / "lake").unlink()
        log = commit(settings, 1, some(1))
        later = expected([log])
        assert runner.drain()
    assert sorted(row["delivery"] for row in in_lake(tmp_path / "lake")) == later
