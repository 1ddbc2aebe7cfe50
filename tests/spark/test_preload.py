"""Workers that share the memory of a snapshot: forked from a daemon that has opened it."""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from fake_store import FakeStore
from pyspark.sql import DataFrame, SparkSession

from twigcast.engine import Engine
from twigcast.spark.live import LiveSet
from twigcast.spark.stages import preload
from twigcast.spark.stages.match import match, publish
from twigcast.spark.stages.preload import preloading, workers_with
from twigcast.spark.stages.shared import SharedFile
from twigcast.spark.workers import Snapshot, held_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has workers share a snapshot")


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "WORTH", 0)


def asking(version: Snapshot) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Tells per task whether the worker had the base from its daemon, and what matches ``<a/>``."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from twigcast.spark.stages import preload  # the worker's, not what is pickled

        had = version.base.engine.path in preload._here
        found = held_at(version).engine.match(b"<a/>")
        yield pa.RecordBatch.from_pylist([{"pid": os.getpid(), "had": had, "found": ",".join(map(str, found))}])

    return stage


def asked(spark: SparkSession, version: Snapshot, file: SharedFile | None = None) -> DataFrame:
    with preloading(spark.sparkContext, file or version.base.engine):
        return spark.range(8, numPartitions=8).mapInArrow(asking(version), "pid long, had boolean, found string")


def test_workers_have_what_their_daemon_opened_and_change_their_own(spark: SparkSession, tmp_path: Path) -> None:
    store = FakeStore()
    for number in range(100):
        store.put(f"s{number}", f"/{'ab'[number % 2]}")
    alive = LiveSet(store, tmp_path / "s")
    first = alive.current().shards[0]
    rows = asked(spark, first).collect()
    workers = {row.pid for row in rows}
    assert sum(row.had for row in rows) == len(workers)  # each has it once, and then holds it
    assert {len(row.found.split(",")) for row in rows} == {50}
    store.drop("s0")
    store.put("new", "/a")
    second = alive.current().shards[0]
    assert second.base == first.base and second.deltas
    rows = asked(spark, second).collect()
    assert all("new" in row.found and "s0," not in row.found for row in rows)
    assert {row.pid for row in rows} <= workers or not any(row.had for row in rows if row.pid in workers)
    # The version before, asked for later, is opened anew: what the daemon gave has been changed.
    assert {len(row.found.split(",")) for row in asked(spark, first).collect()} == {50}


def test_a_daemon_that_cannot_open_it_leaves_that_to_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    store = FakeStore()
    store.put("s", "/a")
    version = LiveSet(store, tmp_path / "s").current().shards[0]
    (tmp_path / "damaged").write_bytes(b"TWIGCAST but no more")
    rows = asked(spark, version, SharedFile(str(tmp_path / "damaged"))).collect()
    assert {(row.had, row.found) for row in rows} == {(False, "s")}


def test_a_published_snapshot_in_several_jobs(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    other = Engine()
    other.add("//x", id=7)
    frame = spark.createDataFrame([(1, "<a><b/></a>"), (2, "<x/>")], "id long, xml string")
    for of, expected in ((engine, {(1, 1), (1, 2), (1, 3)}), (other, {(2, 7)}), (engine, {(1, 1), (1, 2), (1, 3)})):
        published = publish(of, folder=tmp_path, context=spark.sparkContext)
        rows = match(frame, published).matches.collect()
        assert {(row.message, row.subscription) for row in rows} == expected
    assert "TWIGCAST_SNAPSHOT" not in spark.sparkContext.environment


def test_the_daemon_of_a_snapshot_that_is_gone_ends(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    engine.save(path)
    code = "import twigcast.spark.daemon as d; d.LOOK_EVERY = 0.1; d.main()"
    daemon = subprocess.Popen(
        [sys.executable, "-c", code, "pyspark.worker"],
        env={**os.environ, "TWIGCAST_SNAPSHOT": SharedFile(str(path)).to_text()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        assert 0 < port < 65536
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(0.5)
        path.unlink()
        daemon.wait(20)
    finally:
        daemon.kill()
        daemon.communicate()


def test_a_daemon_that_is_early_waits_while_the_snapshot_is_on_its_way(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("/a", id="a")
    path = tmp_path / "some.snapshot"
    mark = tmp_path / f"some.snapshot{preload.COMING}"
    mark.touch()
    early = threading.Thread(target=preload.preload, args=(SharedFile(str(path)),))
    early.start()
    try:
        early.join(0.2)
        assert early.is_alive()
        engine.save(path)
        early.join(30)
        assert not early.is_alive()
        found = preload.preloaded(SharedFile(str(path)))
        assert found is not None and found.match(b"<a/>") == ["a"]
    finally:
        mark.unlink()
        early.join()
        gc.unfreeze()


def test_a_variable_of_workers_changes_no_environment_that_another_thread_reads() -> None:
    """A thread that built a stage while another one named a variable failed: the dictionary changed under its loop."""
    context = SimpleNamespace(environment={"A": "1"})
    read = iter(before := context.environment)
    with workers_with(context, "B", "2"):  # type: ignore[arg-type]
        assert context.environment == {"A": "1", "B": "2"} and list(read) == ["A"]
    assert context.environment is before == {"A": "1"}
