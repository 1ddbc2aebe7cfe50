"""The pipeline on Spark, end to end, and what a change of subscriptions costs."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Line, seconds
from twigcast import Engine, config
from twigcast.engine import Subscription
from twigcast.spark.live import LiveSet
from twigcast.spark.pipeline import Run
from twigcast.spark.session import session
from twigcast.spark.stages import preload
from twigcast.spark.stages.outcome import outcomes
from twigcast.spark.stages.shared import SharedFile
from twigcast.spark.workers import Snapshot, held_at
from twigcast.store import Store, import_jsonl

CORES = 2
ROUNDS = 2
FILE_ROWS = 2_500
WORDS = [
    "storm",
    "river",
    "council",
    "market",
    "price",
    "report",
    "rail",
    "coast",
    "season",
    "border",
    "energy",
    "trade",
    "school",
]


TEXTS = [" ".join(random.Random(n).choices(WORDS, k=12)) for n in range(1_000)]


def order(number: int) -> bytes:
    """A message of 1 to 5 KB."""
    dice = random.Random(number)
    items = []
    size = dice.randrange(900, 4900)
    while size > 0:
        text = TEXTS[dice.randrange(1_000)]
        item = f'<item sku="{dice.randrange(50_000)}" qty="{dice.randrange(9)}"><name>{text}</name></item>'
        items.append(item)
        size -= len(item)
    customer = dice.randrange(100_000)
    return f'<order id="{number}"><customer>c{customer}</customer>{"".join(items)}</order>'.encode()


def queries(count: int) -> Iterator[Subscription]:
    """About one in ten names an article, the rest a customer: a message has a few matches."""
    for number in range(count):
        query = f'/order[customer = "c{number}"]' if number % 10 else f'//item[@sku = "{number % 50_000}"]/name'
        yield Subscription(f"s{number}", query)


def noop(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def pipeline(quick: bool) -> Iterator[Line]:
    messages, subscriptions = (30_000, 10_000) if quick else (200_000, 100_000)
    folder = Path(tempfile.mkdtemp(prefix="twigcast-bench-"))
    try:
        yield from _end_to_end(folder, messages, subscriptions)
        yield from _memory(folder, subscriptions)
        yield from _changes(folder, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_to_end(folder: Path, messages: int, subscriptions: int) -> Iterator[Line]:
    inbox = folder / "in"
    inbox.mkdir()
    for start in range(0, messages, FILE_ROWS):
        rows = range(start, min(messages, start + FILE_ROWS))
        table = pa.table({"id": [str(n) for n in rows], "xml": pa.array([order(n) for n in rows], pa.binary())})
        pq.write_table(table, inbox / f"{start:07}.parquet")
    settings = _settings(folder, messages)
    with Store.open(settings.store.url) as store:
        lines = (json.dumps({"id": s.id, "query": s.query}).encode() for s in queries(subscriptions))
        import_jsonl(store, lines)
    spark = session(cores=CORES)
    # Both on a part first, so that neither pays for what is cold.
    part = folder / "part"
    part.mkdir()
    for path in sorted(inbox.iterdir())[:4]:
        (part / path.name).symlink_to(path)
    _noop(spark, part, folder)
    Run(_settings(folder / "warm", messages, inbox=part, store=settings.store.url), spark=spark, once=True)()
    plain, took = [], []
    for round in range(ROUNDS):
        plain.append(_noop(spark, inbox, folder))
        run = Run(_settings(folder / f"run{round}", messages, inbox, settings.store.url), spark=spark, once=True)
        began = time.perf_counter()
        total = run()
        took.append(time.perf_counter() - began)
    kernel = _kernel(inbox, subscriptions) * messages / CORES
    note = (
        f"{messages / min(took):,.0f} messages/s, {total.deliveries / messages:.1f} deliveries each; from start to end:"
        f" no-op {min(plain):.1f} s + kernel {kernel:.1f} s, pipeline {min(took):.1f} s"
    )
    share = (min(plain) + kernel) / min(took)
    yield Line("pipeline", f"{messages:,} x {subscriptions:,}", share, "share", 0.7, "higher", note)
    spark.stop()


def _settings(folder: Path, messages: int, inbox: Path | None = None, store: str | None = None) -> config.Pipeline:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"""
    [store]
    url = "{store or f"sqlite:///{folder}/store.db"}"
    [state]
    path = "{folder}/state"
    [streams.in]
    source = "table"
    path = "{inbox or folder / "in"}"
    id_column = "id"
    max_files = {max(4, messages // FILE_ROWS // 8)}
    [sinks.lake]
    kind = "parquet"
    path = "{folder}/out"
    """
    return config.parse(text)


def _noop(spark: Any, inbox: Path, folder: Path) -> float:
    """Seconds, from start to end, of the same job without us: Parquet in, by Arrow through a worker, Parquet out."""
    began = time.perf_counter()

    def each(batch: Any, number: int) -> None:
        batch.mapInArrow(noop, batch.schema).write.mode("overwrite").parquet(f"{folder}/noop/{number}")

    checkpoint = folder / "noop-checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    schema = spark.read.parquet(str(inbox)).schema
    files = max(4, len(list(inbox.iterdir())) // 8)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(inbox))
    query = reader.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return time.perf_counter() - began


def _kernel(inbox: Path, subscriptions: int) -> float:
    """The kernel's own seconds per message, on one core, once warm."""
    engine = Engine()
    engine.add_many(queries(subscriptions))
    batch = pq.read_table(min(inbox.iterdir())).combine_chunks().to_batches()[0]
    engine.match_batch(batch)
    return min(seconds(lambda: engine.match_batch(batch)) for _ in range(5)) / len(batch)


def private() -> int:
    """Bytes that only this process has."""
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Clean", "Private_Dirty"))) * 1024


@dataclass(frozen=True)
class Weigh:
    """A task that tells what its worker came to weigh by opening the snapshot and matching, or (None) by looking on."""

    version: Snapshot | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = private()
        asked = batches if self.version is None else outcomes(batches, held_at(self.version).engine)
        for _ in asked:
            pass
        row = {"worker": os.getpid(), "grown": private() - before}
        time.sleep(1)  # so that the other worker gets the other task
        yield pa.RecordBatch.from_pylist([row])


def _memory(folder: Path, subscriptions: int) -> Iterator[Line]:
    """What a second worker comes to weigh by matching, less what Spark makes any worker weigh that sees messages."""
    if not Path("/proc/self/smaps_rollup").exists():
        return
    spark = session(cores=CORES)
    before, preload.WORTH = preload.WORTH, 0
    try:
        with Store.open(f"sqlite:///{folder}/memory.db") as store:
            import_jsonl(store, (json.dumps({"id": s.id, "query": s.query}).encode() for s in queries(subscriptions)))
            version = LiveSet(store, folder / "memory").current().shards[0]
        size = Path(version.base.engine.path).stat().st_size
        # The same file by another name: workers of their own, forked as the others are.
        other = shutil.copyfile(version.base.engine.path, folder / "memory" / "other.snapshot")
        grown = []
        for file, task in ((SharedFile(str(other)), Weigh(None)), (version.base.engine, Weigh(version))):
            frame = spark.read.parquet(str(folder / "part")).repartition(CORES)
            with preload.preloading(spark.sparkContext, file):
                weighed = frame.mapInArrow(task, "worker long, grown long")
            rows = weighed.collect()
            assert len({row.worker for row in rows}) == CORES, "one worker did it all"
            grown.append(max(row.grown for row in rows))
    finally:
        preload.WORTH = before
        spark.stop()
    none, matching = grown
    note = f"snapshot {size / 1e6:.1f} MB; 10,000 messages matched {matching / 1e6:+.2f} MB, seen {none / 1e6:+.2f} MB"
    yield Line("pipeline", "memory of a second worker", (matching - none) / size, "of snapshot", 0.2, "lower", note)


def _changes(folder: Path, quick: bool) -> Iterator[Line]:
    """Ten subscriptions changed: store to published delta, and a worker that catches up."""
    times = {}
    for count in (5_000, 10_000) if quick else (10_000, 100_000):
        with Store.open(f"sqlite:///{folder}/changes{count}.db") as store:
            import_jsonl(store, (json.dumps({"id": s.id, "query": s.query}).encode() for s in queries(count)))
            alive = LiveSet(store, folder / f"live{count}")
            alive.current()
            for round in range(12):
                for number in range(5):
                    store.unsubscribe(f"s{round * 5 + number}")
                    store.subscribe(f'/order[customer = "new{round}-{number}"]', id=f"new{round}-{number}")
                began = time.perf_counter()
                published = alive.current()
                middle = time.perf_counter()
                held_at(published.shards[0])
                took = (middle - began, time.perf_counter() - middle)
                # The first one in a worker also makes what later ones look ids up in.
                if round > 1:
                    times.setdefault(count, []).append(took)
    (few, small), (many, large) = ((count, sorted(map(sum, of))[len(of) // 2]) for count, of in times.items())
    note = f"{small * 1e3:.1f} ms with {few:,} subscriptions, {large * 1e3:.1f} ms with {many:,}"
    yield Line("pipeline", f"ten changes, x{many // few} subscriptions", large / small, "x", 2.0, "lower", note)
