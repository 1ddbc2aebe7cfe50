"""``twigcast run`` as a process: exit status, words, Ctrl-C, and a kill in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pipeline_files import Site
from pyspark.sql import SparkSession
from spark_results import pairs, published

from twigcast.delivery.dead import DeadLetters
from twigcast.spark.pipeline import Run

COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()", "run"]
PACKAGE = Path(__file__).parents[2] / "python"

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java")]


def start(*arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=pipe, stderr=pipe, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "subs.txt").write_text("/a\n//b\n/nowhere\n")
    return folder


def wait_for(condition: object, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_killed_in_the_middle_and_restarted(inbox: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number in range(300):
        (inbox / f"{number:03}.xml").write_text("<a><b/></a>" if number % 30 else "<a>")
    arguments = ["--inbox", inbox, "--outbox", out, "-s", tmp_path / "subs.txt", "--once", "--max-files", "20"]
    first = start(*arguments)
    wait_for(lambda: first.poll() is not None or len(published(out / "matches")) >= 4)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    first.communicate()
    before = pairs(out)
    assert before and len(before) < 580

    (inbox / "new.xml").write_text("<b/>")
    with (tmp_path / "subs.txt").open("a") as file:
        file.write("/b\n")
    status, printed, noise = finish(start(*arguments))
    assert status == 2, noise  # there are dead letters
    expected = [(f"{number:03}.xml", query) for number in range(300) if number % 30 for query in "12"]
    assert pairs(out) == [*expected, ("new.xml", "2"), ("new.xml", "4")]
    with closing(DeadLetters(out / "_checkpoint" / "dead.db")) as dead:
        assert sorted(letter.message or "" for letter in dead.letters()) == [f"{n:03}.xml" for n in range(0, 300, 30)]
    assert not printed and "dead letters" in noise
    for word in ("WARN", "INFO", "incubator", "log4j"):
        assert word not in noise + printed


def test_live_until_interrupted(inbox: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (inbox / "1.xml").write_text("<a/>")
    process = start(
        "--inbox", inbox, "--outbox", out, "-s", tmp_path / "subs.txt", "--trigger", "100ms", "--cores", "1"
    )
    wait_for(lambda: process.poll() is not None or published(out / "matches"))
    (inbox / "2.tmp").write_text("<a/>")
    (inbox / "2.tmp").rename(inbox / "2.xml")
    wait_for(lambda: process.poll() is not None or len(pairs(out)) == 2)
    process.send_signal(signal.SIGINT)
    status, _, noise = finish(process)
    assert status == 0, noise
    assert pairs(out) == [("1.xml", "1"), ("2.xml", "1")]
    assert "stopping" in noise and "Traceback" not in noise and "2 messages, 2 deliveries" in noise


def test_a_pipeline_is_stopped_before_all_is_done(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, max_files=1)
    with site.store() as store:
        store.subscribe("/a", id="all")
    for number in range(40):
        site.put(f"{number}.xml", "<a/>")
    process = start(site.file, "--once", "--cores", "1")
    wait_for(lambda: process.poll() is not None or site.in_lake().total() > 2)
    process.send_signal(signal.SIGTERM)
    status, _, noise = finish(process)
    assert status == 143 and "stopping" in noise and "Traceback" not in noise, noise
    assert 2 < site.in_lake().total() < 40 and max(site.in_lake().values()) == 1
    Run(site.settings, spark=spark, once=True)()
    assert site.in_lake().total() == 40 and max(site.in_lake().values()) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--inbox", "absent"), "there is no folder"),
        (("--outbox", "subs.txt"), "must be a folder"),
        (("-s", "absent.txt"), "absent.txt"),
        (("-s", "bad.txt"), "bad.txt"),
        (("--trigger", "soon"), "must be a duration"),
        (("--ns", "nothing"), "prefix=uri"),
        (("--cores", "0"), "x>=1"),
    ],
)
def test_wrong_inputs_end_with_words_and_status_2(
    inbox: Path, tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    (tmp_path / "bad.txt").write_text("/a\n/a[[\n")
    name, value = change
    options = {"--inbox": str(inbox), "--outbox": str(tmp_path / "out"), "-s": str(tmp_path / "subs.txt")}
    options[name] = str(tmp_path / value) if name in options else value
    started = time.monotonic()
    status, _, noise = finish(start(*(part for pair in options.items() for part in pair), "--once"))
    assert status == 2 and words in noise and "Traceback" not in noise, noise
    assert time.monotonic() - started < 20  # no Spark was started for that


def children_of(mark: str) -> list[str]:
    """Processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TEST_MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes()[:100].decode(errors="replace"))
    return found


def interrupt(site: Site, number: signal.Signals, delay: float) -> tuple[int, str, str]:
    mark = uuid.uuid4().hex
    process = start(site.file, "--cores", "1", TEST_MARK=mark)
    assert process.stderr is not None
    heard = ""
    while "starting Spark" not in heard:
        line = process.stderr.readline()
        assert line, heard
        heard += line
    time.sleep(delay)
    process.send_signal(number)
    status, out, noise = finish(process)
    wait_for(lambda: not children_of(mark), 60)
    return status, out, heard + noise


MOMENTS = [(signal.SIGINT, 0.0), (signal.SIGTERM, 2.0)]
MORE = [(number, delay) for number in (signal.SIGINT, signal.SIGTERM) for delay in (0.5, 1.0, 3.0, 4.5, 6.0, 8.0)]


@pytest.mark.parametrize(("number", "delay"), [*MOMENTS, *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE)])
def test_interrupted_while_spark_starts(tmp_path: Path, number: signal.Signals, delay: float) -> None:
    site = Site(tmp_path)
    with site.store() as store:
        store.subscribe("/a", id="all")
    status, out, noise = interrupt(site, number, delay)
    assert "Traceback" not in noise + out and "Exception" not in noise + out, noise
    if "waiting for messages" in noise or "stopping" in noise:  # it was up already
        assert status in (0, 128 + number)
    else:
        assert status == 128 + number
