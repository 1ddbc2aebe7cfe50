"""Shipping a compiled set of subscriptions to the workers: as a file, opened once per worker process.

The file lies in a folder under the checksum of its content, so a worker can tell by its name whether it has it open.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast.engine import Engine
from twigcast.spark.stages.preload import preloaded

if TYPE_CHECKING:
    from pyspark import SparkContext

SUFFIX = ".snapshot"
KEPT = 2
"""Engines a worker keeps open: the current one, and the one before while tasks of a running batch still ask for it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A published snapshot: all that travels to a task."""

    version: str
    path: str


def publish(
    engine: Engine | str | Path, *, folder: Path | None = None, context: SparkContext | None = None
) -> Snapshot:
    """Put a snapshot where every worker can open it.

    ``folder`` must be on the same machine in local mode; it is a temporary one, deleted at exit, unless given. With the
    ``context`` of a cluster the file is handed to Spark, which copies it to each machine once.
    """
    folder = folder or _temporary_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # Never seen half-written: a name of its own first, then the rename.
    fresh = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        if isinstance(engine, (str, Path)):
            shutil.copyfile(engine, fresh)
        else:
            engine.save(fresh)
        version = _checksum(fresh)
        path = folder / (version + SUFFIX)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    if context is not None and not (context.master or "").startswith("local"):
        context.addFile(str(path))
    return Snapshot(version, str(path.resolve()))


_open: OrderedDict[str, Engine] = OrderedDict()
opened: list[str] = []
"""The versions this process has opened, in order: one entry each, or the cache does not do its work."""


def engine_of(snapshot: Snapshot) -> Engine:
    """The engine of a snapshot, from this process's cache if it has been here before.

    The cache must live in an importable module: what is pickled with a task starts empty each time.
    """
    engine = _open.get(snapshot.version)
    if engine is None:
        engine = preloaded(snapshot.path) or Engine.open(_local_path(snapshot))
        opened.append(snapshot.version)
        _open[snapshot.version] = engine
        while len(_open) > KEPT:
            _open.popitem(last=False)
    _open.move_to_end(snapshot.version)
    return engine


def _local_path(snapshot: Snapshot) -> str:
    if Path(snapshot.path).exists():
        return snapshot.path
    from pyspark import SparkFiles

    return SparkFiles.get(Path(snapshot.path).name)


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="twigcast-snapshots-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
