"""One copy of a snapshot per machine: opened before Spark's workers are forked, so that they share its memory.

Spark keeps a Python daemon per environment of a stage, which forks workers. A stage that names its snapshot in the
environment hence has a daemon of its own; ours (``twigcast.spark.daemon``) opens the snapshot first. Pages stay shared
until a worker writes to them: deltas and what matching remembers are the worker's own.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.engine import Engine

if TYPE_CHECKING:
    from pyspark import SparkContext

VARIABLE = "TWIGCAST_SNAPSHOT"
DAEMON = "twigcast.spark.daemon"
WORTH = 1 << 20
"""Bytes of a snapshot from which on sharing it is worth a daemon: to start one takes a second or two."""

_here: dict[str, Engine] = {}
building = threading.Lock()
"""The environment is the session's; a stage copies it when it is built."""


@contextmanager
def preloading(context: SparkContext, path: str | None) -> Iterator[None]:
    """Stages that are built inside run in workers which share this snapshot, if the session has our daemon."""
    if path is None or _size(path) < WORTH or not _is_ours(context):
        yield
        return
    with building:
        context.environment[VARIABLE] = path
        try:
            yield
        finally:
            del context.environment[VARIABLE]


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # whoever opens it says what is wrong


def _is_ours(context: SparkContext) -> bool:
    return context.getConf().get("spark.python.daemon.module") == DAEMON


def preload(path: str) -> None:
    """In the daemon, before it forks."""
    pa.array([0])  # imports pandas, where there is one: each worker would do that for itself
    # Spark copies files for a machine without the driver's disk to where the executor, and hence its daemon, runs.
    engine = Engine.open(path if Path(path).exists() else Path(path).name)
    engine.numbers([])  # ids as Python objects: else each worker makes its own when the first delta comes
    engine.match(b"<a/>")  # likewise what the first message settles
    _here[path] = engine
    gc.collect()
    gc.freeze()  # or a worker's collector would write to every object


def preloaded(path: str) -> Engine | None:
    """The engine of a snapshot that was here before this worker was. It is given once: who has it may change it."""
    return _here.pop(path, None)
