"""A local cluster whose executors do not see the driver's files: two rebases, then the executor is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from fake_store import FakeStore

from twigcast.spark import live
from twigcast.spark.live import LiveSet
from twigcast.spark.serve import files_of
from twigcast.spark.session import session
from twigcast.spark.stages import preload
from twigcast.spark.stages.preload import preloading
from twigcast.spark.workers import File, Snapshot, held_at

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def unseen(version: Snapshot) -> Snapshot:
    """The version as a machine sees it that does not have the driver's disk."""

    def hidden(file: File) -> File:
        paths = (f"/nowhere{shared.path}" for shared in (file.engine, file.traits))
        engine, traits = (s._replace(path=p) for s, p in zip((file.engine, file.traits), paths, strict=True))
        return file._replace(engine=engine, traits=traits)

    return replace(version, base=hidden(version.base), deltas=tuple(map(hidden, version.deltas)))


def asking(version: Snapshot) -> Stage:
    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = held_at(version)
        ids = sorted(held.engine.match(b"<a/>"))
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        yield pa.RecordBatch.from_pylist([{"ids": ",".join(ids), "executor": executor}])

    return stage


def main(folder: Path) -> None:
    live.MOST_DELTAS, live.FOLD_BYTES, preload.WORTH = 3, 1 << 10, 0
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark = session(master="local-cluster[1,1,512]", quick=True, log=folder / "spark.log", settings=settings)
    store = FakeStore()
    for number in range(20):
        store.put(f"s{number:02}", "/a" if number % 2 else "/b")
    alive = LiveSet(store, folder / "snapshots", files=files_of(spark.sparkContext))
    bases, found, expected, executors, visible = [], [], [], set(), []
    changes = 0

    def ask() -> None:
        published = alive.current().shards[0]
        if published.base.engine.path not in bases:
            bases.append(published.base.engine.path)
        version = unseen(published)
        with preloading(spark.sparkContext, version.base.engine):
            frame = spark.range(1, numPartitions=1).mapInArrow(asking(version), "ids string, executor long")
        (row,) = frame.collect()
        executors.add(row.executor)
        found.append(row.ids)
        expected.append(",".join(sorted(id for id, record in store.records.items() if record.query == "/a")))

    while len(bases) < 3:
        ask()
        for _ in range(30):
            store.put(f"n{changes % 50:02}", "/a" if changes % 3 else "/b", subscriber="x" * 200)
            changes += 1
    os.kill(executors.copy().pop(), signal.SIGKILL)
    ask()
    visible = [path for path in bases if Path(f"/nowhere{path}").exists()]
    left = len(list((folder / "snapshots").iterdir()))
    seen = {"bases": bases, "found": found, "expected": expected, "executors": len(executors)}
    print(json.dumps({**seen, "visible": visible, "left": left}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
