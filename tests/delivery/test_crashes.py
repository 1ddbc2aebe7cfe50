"""Killed, and started again: each delivery is there exactly once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from batches import SINKS, commit, expected, in_files, in_lake, in_lines, pipeline, some
from crashing import dies, dying_at
from driver import SIZE
from hooks import serving
from lxml import etree

import twigcast.delivery
from twigcast import config
from twigcast.delivery import Log
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.publication import Publication
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks import SinkError


def publish_and_take(root: Path, step: int | None) -> None:
    """Two batches into a tree, from which somebody takes each file as soon as it is there."""
    publication = Publication(root / "tree", "sink", "state")
    for batch in range(2):

        def write(folder: Path, batch: int = batch) -> None:
            for number in range(3):
                (folder / "a").mkdir(exist_ok=True)
                (folder / "a" / f"{batch}-{number}").write_text("x")

        with dying_at(step if batch == 1 else None, "delivery/publication.py", "delivery/files.py"):
            publication.publish("s", batch, write)
        take(root)


def take(root: Path) -> None:
    for path in (root / "tree" / "a").glob("*"):
        with (root / "taken").open("a") as file:
            file.write(path.name + "\n")
        path.unlink()


def test_publication_killed_at_every_step(quick_path: Path) -> None:
    for step in count():
        root = quick_path / str(step)
        root.mkdir()
        died = dies(lambda: publish_and_take(root, step))  # noqa: B023
        if (root / "tree" / "a").exists():
            take(root)  # the reader is there meanwhile
        publish_and_take(root, None)
        publish_and_take(root, None)
        taken = Counter((root / "taken").read_text().split())
        assert taken == Counter(f"{batch}-{number}" for batch in range(2) for number in range(3)), step
        shutil.rmtree(root)
        if not died:
            break
    assert step > 50


def test_an_interrupted_publication_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Earlier versions named the file with the number of the batch `batch`."""
    ready = tmp_path / "tree" / ".twigcast" / "sink-state" / "s.ready"
    (ready / "a").mkdir(parents=True)
    (ready / "a" / "0-1").write_text("x")
    (ready / "batch").write_text("0")
    publication = Publication(tmp_path / "tree", "sink", "state")
    assert [publication.published("s", 0)(f"a/0-{n}") for n in range(2)] == [True, False]
    publication.publish("s", 0, lambda folder: pytest.fail("the batch was written before"))
    assert [path.name for path in (tmp_path / "tree" / "a").iterdir()] == ["0-1"]
    assert not ready.exists()


def by_hand(settings: config.Pipeline, step: int | None = None) -> None:
    """All sinks do what there is to do, in this thread, so that it can die at any line of it."""
    runner = Runner(settings)
    runner.forget()
    with dying_at(step, *(f"delivery/{name}.py" for name in ("worker", "outbox", "held", "publication", "dead"))):
        for worker in runner._workers:
            worker.passed = runner.forget
            while worker.work():
                pass
    runner.outbox.close()
    runner.dead.close()


@pytest.mark.parametrize("stride", [97, pytest.param(11, marks=pytest.mark.slow)])
def test_sinks_killed_at_many_steps(quick_path: Path, stride: int) -> None:
    sinks = {**SINKS, "hook": {"kind": "webhook", "url": "http://localhost:1"}}
    step, tried = 0, 0
    while True:
        folder = quick_path / str(step)
        settings = pipeline(folder, sinks)
        commit(settings, 0, some(0, 3), dead=[("bad", b"<")])
        log = commit(settings, 1, some(1, 4), delay=1)
        ids = expected([log])
        time.sleep(0.002)
        died = dies(lambda: by_hand(settings, step))  # noqa: B023
        by_hand(settings)
        assert log.forgotten == 1
        single, held = ids_of(ids, some(0, 3), settings), 4
        for found in (
            [id for _, id in in_files(folder / "files")],
            [line["delivery"] for line in in_lines(folder / "lines")],
            [row["delivery"] for row in in_lake(folder / "lake")],
        ):
            assert single < set(found), step
            assert len(found) == len(set(found)), step
        entries = [
            entry.get("delivery")
            for line in in_lines(folder / "lines")
            if line["message"].startswith("digest-")
            for entry in etree.fromstring(line["content"])
        ]
        assert len(entries) == held and sorted([*single, *entries]) == ids, step
        outbox = Outbox(settings.state.outbox)
        queued = [row["delivery"] for row in outbox.database.rows("SELECT delivery FROM queue")]
        assert single < set(queued) and len(queued) == 3 + 3
        assert outbox.database.value("SELECT count(*) FROM held") == 0
        assert outbox.database.value("SELECT count(*) FROM bodies") == 3 + 3
        outbox.close()
        dead = DeadLetters(settings.state.dead)
        assert [letter.message for letter in dead.letters()] == ["bad"], step
        dead.close()
        shutil.rmtree(folder)
        if not died:
            break
        tried += 1
        step += stride
    assert tried > 500 / stride


def ids_of(ids: list[str], rows: list[Any], settings: config.Pipeline) -> set[str]:
    import pyarrow as pa

    from twigcast.delivery.ids import message_keys

    keys = set(message_keys("s", pa.array([message for message, _, _ in rows])).to_pylist())
    return {id for id in ids if id[:24] in keys}


def killed_runs(folder: Path, url: str, batches: int, kills: int, seed: int, digests: bool = False) -> None:
    raw = {
        "state": {"path": "state"},
        "streams": {"s": {"source": "rate"}},
        "sinks": {
            **SINKS,
            "hook": {
                "kind": "webhook", "url": url, "allow": ["127.0.0.1/32"], "backoff": 0.01, "max_backoff": 0.1,
                "breaker_pause": 0.1, "max_attempts": 1000, "concurrency": 8,
            },
        },
    }  # fmt: skip
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(Path(twigcast.delivery.__file__).parents[2])}
    kind = "digests" if digests else ""
    command = [sys.executable, str(here / "driver.py"), json.dumps(raw), str(folder), str(batches), kind]
    chance = random.Random(seed)
    for _ in range(kills):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.6))
            child.send_signal(signal.SIGKILL)
    subprocess.run(command, env=environment, check=True, timeout=240, stdout=subprocess.DEVNULL)


def check_all(folder: Path, accepted: list[str], batches: int) -> None:
    names = [f"m{batch}-{number}" for batch in range(batches) for number in range(SIZE)]
    wanted = Counter((name, id) for name in names for id in ("q0", "q1"))
    assert Counter((line["message"], line["subscription"]) for line in in_lines(folder / "lines")) == wanted
    assert Counter((row["message"], row["subscription"]) for row in in_lake(folder / "lake")) == wanted
    files = [id for _, id in in_files(folder / "files")]
    ids = sorted(line["delivery"] for line in in_lines(folder / "lines"))
    assert sorted(files) == ids == accepted
    dead = DeadLetters(folder / "state" / "dead.db")
    assert sorted(letter.message or "" for letter in dead.letters()) == sorted(
        f"bad{batch}" for batch in range(batches)
    )
    dead.close()
    assert Log(folder / "state" / "log", "s").forgotten == batches - 1


@pytest.mark.parametrize("refusing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_kill_9(tmp_path: Path, refusing: bool) -> None:
    with serving(lambda request: 500 if refusing and request.number % 2 else 200) as hooks:
        killed_runs(tmp_path, hooks.url, batches=3, kills=4, seed=1)
    check_all(tmp_path, hooks.ids, 3)


@pytest.mark.slow
@pytest.mark.parametrize("refusing", [False, True])
def test_kill_9_at_length(tmp_path: Path, refusing: bool) -> None:
    with serving(lambda request: 500 if refusing and request.number % 2 else 200) as hooks:
        killed_runs(tmp_path, hooks.url, batches=20, kills=12, seed=2)
    check_all(tmp_path, hooks.ids, 20)


@pytest.mark.slow
def test_kill_9_with_digests(tmp_path: Path) -> None:
    with serving() as hooks:
        killed_runs(tmp_path, hooks.url, batches=5, kills=8, seed=3, digests=True)
    names = [f"m{batch}-{number}" for batch in range(5) for number in range(SIZE)]
    for contents in (
        [(line["subscription"], line["content"].encode()) for line in in_lines(tmp_path / "lines")],
        [(row["subscription"], row["content"]) for row in in_lake(tmp_path / "lake")],
    ):
        digests = [etree.fromstring(content) for id, content in contents if id == "q1"]
        assert sorted(entry.get("message") for digest in digests for entry in digest) == sorted(names)
        assert sum(id == "q0" for id, _ in contents) == len(names)


def give_up(settings: config.Pipeline, step: int | None) -> None:
    """Sinks try until they have delivered or given up everything, in this thread, which may die at any line."""
    runner = Runner(settings)
    names = ("worker", "outbox", "publication", "dead", "sinks/directory")
    with dying_at(step, *(f"delivery/{name}.py" for name in names)):
        for worker in runner._workers:
            for _ in range(10):
                try:
                    while worker.work():
                        pass
                    break
                except SinkError:
                    worker._attempts += 1
    runner.outbox.close()
    runner.dead.close()


@pytest.mark.parametrize("stride", [53, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", ["files", "jsonl"])
def test_a_batch_that_is_given_up_is_final(quick_path: Path, layout: str, stride: int) -> None:
    """What a later run publishes and what is a dead letter are never the same, and together they are everything."""
    step, in_time = 0, 0
    while True:
        folder = quick_path / str(step)
        sinks = {"files": {"kind": "directory", "path": "out", "layout": layout, "max_age": 0.001}}
        settings = pipeline(folder, sinks)
        ids = expected([commit(settings, 0, some(0, 12))])
        obstacle = folder / "out" / "bob"
        obstacle.parent.mkdir()
        obstacle.write_text("a file where a folder should be")
        time.sleep(0.002)
        died = dies(lambda: give_up(settings, step))  # noqa: B023
        obstacle.unlink()
        log = commit(settings, 1, some(1, 12))
        ids = sorted({*ids, *expected([log])})
        give_up(settings, None)
        if layout == "files":
            published = [id for _, id in in_files(folder / "out")]
        else:
            published = [line["delivery"] for line in in_lines(folder / "out")]
        dead = DeadLetters(settings.state.dead)
        letters = [str(letter.delivery) for letter in dead.letters()]
        dead.close()
        assert sorted([*published, *letters]) == ids, step
        in_time += not letters
        shutil.rmtree(folder)
        if not died:
            assert len(letters) == 4, "bob's of the batch that was given up; the others were published before"
            break
        step += stride
    assert in_time > 0, "a run that dies before it gives up is followed by one that delivers"


def test_the_first_opening_of_a_state_folder_killed_at_many_steps(quick_path: Path) -> None:
    """Whatever was made of a new folder before the kill, the next run opens it, and the folder keeps one id."""

    def first(settings: config.Pipeline, step: int | None) -> None:
        with dying_at(step, *(f"delivery/{name}.py" for name in ("state", "files", "database", "outbox"))):
            runner = Runner(settings)
        runner.outbox.close()
        runner.dead.close()

    for step in count(0, 7):
        settings = pipeline(quick_path / str(step), {"lines": SINKS["lines"]})
        ids = expected([commit(settings, 0, some(0, 3))])
        died = dies(lambda: first(settings, step))  # noqa: B023
        with Runner(settings) as runner:
            assert runner.drain()
        with Runner(settings) as runner:
            assert runner.drain()
        assert sorted(line["delivery"] for line in in_lines(quick_path / str(step) / "lines")) == ids, step
        if not died:
            break
    assert step > 50
