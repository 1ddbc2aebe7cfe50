"""A compiled set of subscriptions on its way to the workers: as a file, opened once per worker process.

The file is named after the checksum of its content, so that a worker can tell by its name whether it has it open.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast.engine import Engine
from twigcast.errors import OptionError
from twigcast.spark.serve import LOCAL, checksum_of, files_of
from twigcast.spark.stages.preload import preloaded
from twigcast.spark.stages.shared import SharedFile, open_shared

if TYPE_CHECKING:
    from pyspark import SparkContext

SUFFIX = ".snapshot"
KEPT = 2
"""Engines a worker keeps open: the current one, and the one before while tasks of a running batch still ask for it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A published snapshot: all that travels to a task."""

    version: str
    """The checksum of the content."""
    file: SharedFile

    @property
    def path(self) -> str:
        """Where the driver has it."""
        return self.file.path


def publish(
    engine: Engine | str | Path, *, folder: Path | None = None, context: SparkContext | None = None
) -> Snapshot:
    """Put a snapshot where every worker can open it.

    ``folder`` is a temporary one, deleted at exit, unless given. With the ``context`` of a cluster, machines that do
    not see the folder fetch the snapshot from the driver, once each.
    """
    folder = folder or _temporary_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # Never seen half-written: a name of its own first, then the rename.
    fresh = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        if isinstance(engine, (str, Path)):
            _copy(Path(engine), fresh)
        else:
            engine.save(fresh)
        version = checksum_of(fresh)
        path = folder / (version + SUFFIX)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    files = LOCAL if context is None else files_of(context)
    return Snapshot(version, files.share(path.resolve()))


def _copy(snapshot: Path, fresh: Path) -> None:
    try:
        shutil.copyfile(snapshot, fresh)
    except OSError as error:
        raise OptionError(
            "no-such-snapshot",
            f"the snapshot {str(snapshot)!r} cannot be read: {error.strerror}",
            hint="give the path of a file that Engine.save wrote",
        ) from error


_open: OrderedDict[str, Engine] = OrderedDict()
opened: list[str] = []
"""The versions this process has opened, in order: one entry each, or the cache does not do its work."""


def engine_of(snapshot: Snapshot) -> Engine:
    """The engine of a snapshot, from this process's cache if it has been here before.

    The cache must live in an importable module: what is pickled with a task starts empty each time.
    """
    engine = _open.get(snapshot.version)
    if engine is None:
        engine = preloaded(snapshot.file) or open_shared(snapshot.file, Engine.open)
        opened.append(snapshot.version)
        _open[snapshot.version] = engine
        while len(_open) > KEPT:
            _open.popitem(last=False)
    _open.move_to_end(snapshot.version)
    return engine


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="twigcast-snapshots-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
