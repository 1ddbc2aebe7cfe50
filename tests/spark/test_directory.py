"""A folder in, a folder out."""

from __future__ import annotations

import base64
import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark_results import pairs, read_lines

from twigcast.engine import Engine
from twigcast.errors import OptionError, StateDamaged, TwigcastError
from twigcast.spark.inbox import Progress, run_directory
from twigcast.spark.sinks.outbox import Counts, Outbox


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def put(inbox: Path, name: str, content: str | bytes) -> None:
    path = inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


ODD_NAMES = [
    "b c.xml",
    "d%20e.xml",
    "ü.xml",
    "h#i.xml",
    "q?.xml",
    "[1].xml",
    "*.xml",
    "{x,y}.xml",
    "10:00:00.xml",
    'q".xml',
]


def test_names_kinds_and_rejects(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    inbox = tmp_path / "in [1] *"  # Spark reads patterns into this unless told otherwise
    inbox.mkdir()
    for name in [*ODD_NAMES, "sub/deep/z.xml", "no-extension"]:
        put(inbox, name, "<a/>")
    put(inbox, "packed.xml.gz", gzip.compress(b"<a/>") + gzip.compress(b"<!-- a second member -->"))
    for hidden in [".hidden.xml", "_hidden.xml", "part.xml.tmp", "_dir/x.xml", ".dir/x.xml", "_k=v.xml"]:
        put(inbox, hidden, "<a/>")
    put(inbox, "cut.xml", "<a>\n <b>")
    put(inbox, "empty.xml", b"")  # Spark drops this one in silence
    put(inbox, "empty.tmp", b"")
    put(inbox, "latin.xml", b"<a>\xe9</a>")
    put(inbox, "bomb.gz", gzip.compress(b" " * 3_000_000))
    put(inbox, "torn.gz", gzip.compress(b"<a/>" * 1000)[:-9])
    put(inbox, "large.xml", b"<a>" + b"x" * 2_000_000 + b"</a>")
    os.mkfifo(inbox / "pipe.xml")  # nothing to wait for
    old = inbox / "sub/deep/z.xml"
    os.utime(old, (1e9, 1e9))

    seen: list[Progress] = []
    total = run_directory(
        inbox, tmp_path / "out", engine, once=True, spark=spark, max_bytes=1_000_000, on_batch=seen.append
    )
    good = sorted([*ODD_NAMES, "sub/deep/z.xml", "no-extension", "packed.xml.gz"])
    assert pairs(tmp_path / "out") == [(name, 1) for name in good]
    dead = {line["message"]: line for line in read_lines(tmp_path / "out" / "dead")}
    assert set(dead) == {"cut.xml", "empty.xml", "latin.xml", "bomb.gz", "torn.gz", "large.xml", "pipe.xml"}
    assert dead["cut.xml"]["original"] == "<a>\n <b>" and dead["cut.xml"]["line"] == 2
    assert base64.b64decode(dead["latin.xml"]["original"]) == b"<a>\xe9</a>"
    assert dead["latin.xml"]["encoding"] == "base64"
    assert dead["bomb.gz"]["reason"] == dead["large.xml"]["reason"] == "limit-size"
    assert dead["large.xml"]["original"] is None
    assert dead["torn.gz"]["reason"] == "bad-gzip"
    assert (total.messages, total.matches, total.rejects) == (len(good) + 7, len(good), 7)
    assert seen[-1].total == total


def test_restart_takes_what_is_new_and_the_subscriptions_of_the_day(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for number in range(5):
        put(inbox, f"{number}.xml", "<a/>" if number else "")
    batches: list[Progress] = []
    run_directory(inbox, out, engine, once=True, spark=spark, max_files=2, on_batch=batches.append)
    assert [progress.counts.messages for progress in batches] == [2, 2, 1]
    assert pairs(out) == [(f"{number}.xml", 1) for number in range(1, 5)]
    other = Engine()
    other.add("/a", id=99)
    put(inbox, "late.xml", "<a/>")
    os.utime(inbox / "late.xml", (1e9, 1e9))  # moved in with its old date: still new to us
    put(inbox, "0.xml", "<changed/>")
    total = run_directory(inbox, out, other, once=True, spark=spark)
    assert total.messages == 1
    assert pairs(out) == [*((f"{number}.xml", 1) for number in range(1, 5)), ("late.xml", 99)]
    assert [line["message"] for line in read_lines(out / "dead")] == ["0.xml"]
    assert run_directory(inbox, out, other, once=True, spark=spark) == Counts()
    assert len(list((out / "_checkpoint" / "snapshots").iterdir())) == 1


@pytest.mark.parametrize("moment", ["before-ledger", "after-ledger", "half-moved"])
def test_a_batch_cut_short_is_neither_lost_nor_doubled(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    out = tmp_path / "out"
    for number in range(40):
        put(inbox, f"{number:02}.xml", "<a><b/></a>" if number % 4 else "<a>")

    def die(*_: Any) -> None:
        raise RuntimeError("power cut")

    def move_one(self: Outbox, ledger: dict[str, Any]) -> None:
        staged, final = ledger["moves"][0]
        (self.folder / staged).replace(self.folder / final)
        die()

    with monkeypatch.context() as patch:
        if moment == "before-ledger":
            patch.setattr(Outbox, "commit", die)
        else:
            patch.setattr(Outbox, "_move", die if moment == "after-ledger" else move_one)
        with pytest.raises(TwigcastError, match="power cut"):
            run_directory(inbox, out, engine, once=True, spark=spark)
    seen: list[Progress] = []
    run_directory(inbox, out, engine, once=True, spark=spark, on_batch=seen.append)
    assert len(seen) == (moment == "before-ledger")
    assert pairs(out) == [(f"{n:02}.xml", query) for n in range(40) if n % 4 for query in (1, 2, 3)]
    assert sorted(line["message"] for line in read_lines(out / "dead")) == [f"{n:02}.xml" for n in range(0, 40, 4)]
    assert not list((out / "_checkpoint" / "staging").glob("*/*"))


def test_live_run_sees_files_as_they_appear_and_stops_when_told(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path
) -> None:
    out, stop, seen = tmp_path / "out", threading.Event(), threading.Event()
    put(inbox, "1.xml", "<a/>")

    def on_batch(progress: Progress) -> None:
        if progress.total.messages == 1 and not (inbox / "2.xml").exists():
            put(inbox, "2.xml.tmp", "<a/>")
            (inbox / "2.xml.tmp").rename(inbox / "2.xml")
        if progress.total.messages == 2:
            seen.set()

    def stop_when_seen() -> None:
        seen.wait(60)
        stop.set()

    threading.Thread(target=stop_when_seen).start()
    total = run_directory(inbox, out, engine, interval=0.1, spark=spark, on_batch=on_batch, stop=stop)
    assert total.messages == 2
    assert pairs(out) == [("1.xml", 1), ("2.xml", 1)]


def test_stopped_between_batches_that_follow_each_other_at_once(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path
) -> None:
    for number in range(12):
        put(inbox, f"{number:02}.xml", "<a/>")
    out, stop = tmp_path / "out", threading.Event()
    first = run_directory(
        inbox, out, engine, once=True, max_files=1, spark=spark, on_batch=lambda _: stop.set(), stop=stop
    )
    assert 1 <= first.messages < 12 and len(pairs(out)) == first.messages
    rest = run_directory(inbox, out, engine, once=True, spark=spark)
    assert first.messages + rest.messages == 12
    assert pairs(out) == [(f"{number:02}.xml", 1) for number in range(12)]


def test_a_failing_batch_is_reported_in_words(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(inbox, "1.xml", "<a/>")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "commit", full)
        with pytest.raises(TwigcastError, match="No space left on device") as caught:
            run_directory(inbox, tmp_path / "out", engine, once=True, spark=spark)
    assert "Traceback" not in str(caught.value) and caught.value.hint
    assert run_directory(inbox, tmp_path / "out", engine, once=True, spark=spark).matches == 1


def test_a_jvm_that_dies_is_reported_in_words(
    spark: SparkSession, engine: Engine, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.protocol import Py4JNetworkError

    def gone(*_: Any) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    put(inbox, "1.xml", "<a/>")
    monkeypatch.setattr(SparkSession, "createDataFrame", gone)
    with pytest.raises(TwigcastError, match="Answer from Java side is empty") as caught:
        run_directory(inbox, tmp_path / "out", engine, once=True, spark=spark)
    assert caught.value.code == "spark-died"


# Wrong inputs are refused before Spark starts.


def refused(inbox: Path, outbox: Path, **options: Any) -> OptionError:
    with pytest.raises(OptionError) as caught:
        run_directory(inbox, outbox, Engine(), once=True, **options)
    assert caught.value.hint
    return caught.value


def test_wrong_folders(inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused(tmp_path / "absent", tmp_path / "out").code == "no-inbox"
    assert refused(tmp_path / "file", tmp_path / "out").code == "no-inbox"
    assert refused(inbox, tmp_path / "file").code == "bad-outbox"
    assert refused(inbox, tmp_path / "file" / "out").code == "bad-outbox"
    assert refused(inbox, inbox / "out").code == "outbox-in-inbox"
    assert refused(inbox, inbox).code == "outbox-in-inbox"
    assert refused(inbox, tmp_path / "out", max_files=0).code == "bad-max-files"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_outbox_without_permission(inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    assert refused(inbox, tmp_path / "out").code == "bad-outbox"


def test_one_run_per_outbox(inbox: Path, tmp_path: Path) -> None:
    with Outbox(tmp_path / "out").claimed(inbox):
        assert refused(inbox, tmp_path / "out").code == "outbox-in-use"


def test_one_inbox_per_outbox(inbox: Path, tmp_path: Path) -> None:
    with Outbox(tmp_path / "out").claimed(inbox):
        pass
    (tmp_path / "other").mkdir()
    assert refused(tmp_path / "other", tmp_path / "out").code == "other-inbox"


def test_results_without_their_state(inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "matches").mkdir(parents=True)
    (tmp_path / "out" / "matches" / "batch-00000000-0000.jsonl").touch()
    assert refused(inbox, tmp_path / "out").code == "outbox-damaged"
    state = tmp_path / "out" / "_checkpoint"
    (state / "batch.json").write_text(json.dumps({"batch": 3, "counts": {}, "moves": []}))
    with pytest.raises(StateDamaged, match=r"listing\.db is missing"):
        run_directory(inbox, tmp_path / "out", Engine(), once=True)
    (state / "batch.json").write_bytes(b"")
    with pytest.raises(StateDamaged, match=r"batch\.json cannot be read"):
        run_directory(inbox, tmp_path / "out", Engine(), once=True)


def test_inbox_and_outbox_move_together(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    site = tmp_path / "site"
    put(site / "in", "1.xml", "<a/>")
    assert run_directory(site / "in", site / "out", engine, once=True, spark=spark).messages == 1
    moved = site.rename(tmp_path / "elsewhere")
    put(moved / "in", "2.xml", "<a/>")
    assert run_directory(moved / "in", moved / "out", engine, once=True, spark=spark).messages == 1
    assert pairs(moved / "out") == [("1.xml", 1), ("2.xml", 1)]
