"""One copy of a snapshot per machine: opened before Spark's workers are forked, so that they share its memory.

Spark keeps a Python daemon per environment of a stage, which forks workers. A stage that names its snapshot in the
environment hence has a daemon of its own; ours (``twigcast.spark.daemon``) opens the snapshot first. Pages stay shared
until a worker writes to them: deltas and what matching remembers are the worker's own.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.spark.stages.shared import SharedFile, is_local, open_shared

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

VARIABLE = "TWIGCAST_SNAPSHOT"
DAEMON = "twigcast.spark.daemon"
WORTH = 1 << 20
"""Bytes of a snapshot from which on sharing it is worth a daemon: to start one takes a second or two."""

COMING = ".coming"
"""The end of the name of an empty file that says that a snapshot is being written; for a daemon that is early."""

_here: dict[str, Engine] = {}
_building = threading.Lock()


@contextmanager
def preloading(context: SparkContext, file: SharedFile | None) -> Iterator[None]:
    """Have the stages that are built inside run in workers which share this snapshot, if the session has our daemon."""
    if file is None or _size(file.path) < WORTH or not _is_ours(context):
        yield
        return
    with workers_with(context, VARIABLE, file.to_text()):
        yield


@contextmanager
def workers_with(context: SparkContext, variable: str, value: str) -> Iterator[None]:
    """Give an environment variable to the Python workers of the stages that are built inside.

    The environment is the session's, and a stage copies it when it is built. Other threads may be building theirs, so
    the dictionary that they copy must not change: another one takes its place.
    """
    with _building:
        before = context.environment
        context.environment = {**before, variable: value}
        try:
            yield
        finally:
            context.environment = before


@contextmanager
def coming(spark: SparkSession, file: SharedFile | None) -> Iterator[None]:
    """Start the daemon of a large snapshot while the snapshot is written, inside; the daemon waits for it."""
    context = spark.sparkContext
    if file is None or not _is_ours(context) or not is_local(context):
        yield
        return
    mark = Path(file.path + COMING)
    mark.touch()
    try:
        with workers_with(context, VARIABLE, file.to_text()):
            # One task: it waits with the daemon, and the other cores have other things to do.
            frame = spark.range(1, numPartitions=1).mapInArrow(_nothing, "id long")
        threading.Thread(target=_run, args=(frame,), name="twigcast-daemon", daemon=True).start()
        yield
    finally:
        mark.unlink(missing_ok=True)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from ()


def _run(frame: DataFrame) -> None:
    with suppress(Exception):  # whoever needs the daemon starts it then, and says what is wrong
        frame.collect()


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # whoever opens it says what is wrong


def _is_ours(context: SparkContext) -> bool:
    return context.getConf().get("spark.python.daemon.module") == DAEMON


def preload(file: SharedFile) -> None:
    """Open a snapshot in the daemon, before it forks."""
    pa.array([0])  # imports pandas, where there is one: each worker would do that for itself
    parent = os.getppid()
    while Path(file.path + COMING).exists() and not Path(file.path).exists() and os.getppid() == parent:
        time.sleep(0.02)
    engine = open_shared(file, Engine.open)
    engine.numbers([])  # ids as Python objects: else each worker makes its own when the first delta comes
    engine.match(b"<a/>")  # likewise what the first message settles
    _here[file.path] = engine
    gc.collect()
    gc.freeze()  # or a worker's collector would write to every object


def preloaded(file: SharedFile) -> Engine | None:
    """Return the engine of a snapshot that the daemon opened before it forked this worker, or None.

    It is given once: who has it may change it.
    """
    return _here.pop(file.path, None)
