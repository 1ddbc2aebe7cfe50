"""Files of the driver that workers read: opened where they lie if this machine sees them, else fetched once.

A task names the file, its checksum and the driver's file server (`twigcast.spark.serve`). A machine that does not see
the path fetches the file into a folder of the executor, which Spark deletes when the executor ends. A copy is named by
its checksum, and it appears there whole. The folder is bounded; a copy that was deleted too early is fetched again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    from pyspark import SparkContext

Opened = TypeVar("Opened")

MAX_BYTES = 4 << 30
"""Bytes of copies that an executor keeps; more if the last two files alone are larger."""
UNUSED_SECONDS = 600.0
"""A copy that no task has asked for in this time is deleted. Workers that have it open keep it."""
PATIENCE = 30.0
"""Seconds to go on trying while the driver does not answer."""
ANSWER_SECONDS = 20.0
"""Seconds to wait for the next bytes of an answer."""
BLOCK = 1 << 20


class SharedFile(NamedTuple):
    """A file of the driver, as tasks name it."""

    path: str
    """Where the driver has it. No other file ever has this name."""
    checksum: str = ""
    """SHA-256 of the content. Empty in local mode, where every worker sees the path."""
    url: str = ""
    """Where the driver serves it."""
    token: str = ""
    """Shows the driver that the request is from a task of its own."""

    def to_text(self) -> str:
        """Return the file as a text for an environment variable."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> SharedFile:
        return cls(*json.loads(text))


def is_local(context: SparkContext) -> bool:
    """Tell whether all workers see the driver's disk. The master ``local-cluster[…]`` is a cluster."""
    master = context.master or ""
    return master.startswith("local") and not master.startswith("local-cluster")


def open_shared(file: SharedFile, opener: Callable[[str], Opened]) -> Opened:
    """Return what ``opener`` makes of the file's path on this machine.

    Raises
    ------
    TwigcastError
        ``file-missing`` if neither this machine nor the driver has the file.
    """
    for _ in range(3):
        try:
            return opener(local_path(file))
        except FileNotFoundError:
            if not file.url:
                break
            # Another worker's clean-up was quicker than this open.
    raise _missing(file, "it is not on this machine")


def local_path(file: SharedFile) -> str:
    """Return where this machine has the file, fetching it first if it must."""
    if not file.url or Path(file.path).exists():
        return file.path
    folder = _folder()
    copy = folder / file.checksum
    if not _touch(copy):
        with _alone(folder / f".{file.checksum}.lock"):
            if not _touch(copy):
                _fetch(file, copy)
                _clean(folder)
    return str(copy)


def is_here(file: SharedFile) -> bool:
    """Tell whether this machine has the file."""
    return Path(file.path).exists() or bool(file.url and (_folder() / file.checksum).exists())


def keep(file: SharedFile) -> None:
    """Mark a file as used, so that the clean-up leaves this machine's copy alone."""
    if file.url:
        _touch(_folder() / file.checksum)


def clean() -> None:
    """Delete the copies that nobody has asked for lately."""
    _clean(_folder())


def _folder() -> Path:
    # Spark names the executor's own folders to its Python processes.
    root = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = Path(root) / "twigcast" if root else Path(tempfile.gettempdir()) / f"twigcast-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise TwigcastError(
            "bad-folder", f"{folder} belongs to another user", hint="delete it, or set SPARK_LOCAL_DIRS"
        )
    return folder


def _touch(copy: Path) -> bool:
    try:
        os.utime(copy)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process of this machine at a time."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system when its holder ends, however it does
        yield


def _fetch(file: SharedFile, copy: Path) -> None:
    """Fetch a file from the driver, and try again while it cannot be reached, but not if it has no such file."""
    deadline = time.monotonic() + PATIENCE
    wait = 0.1
    while True:
        try:
            _download(file, copy)
            return
        except urllib.error.HTTPError as error:
            raise _missing(file, f"the driver answers {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            if time.monotonic() + wait > deadline:
                raise _missing(file, f"{file.url}: {error}") from error
        time.sleep(wait)
        wait = min(2 * wait, 5.0)


def _download(file: SharedFile, copy: Path) -> None:
    request = urllib.request.Request(file.url, headers={"Authorization": f"Bearer {file.token}"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    handle, name = tempfile.mkstemp(prefix=".fetching-", dir=copy.parent)
    fresh = Path(name)
    try:
        digest = hashlib.sha256()
        with direct.open(request, timeout=ANSWER_SECONDS) as answer, os.fdopen(handle, "wb") as written:
            while block := answer.read(BLOCK):
                digest.update(block)
                written.write(block)
        if digest.hexdigest() != file.checksum:
            raise ValueError("the content that arrived has another checksum")
        fresh.replace(copy)
    finally:
        fresh.unlink(missing_ok=True)


def _missing(file: SharedFile, why: str) -> TwigcastError:
    return TwigcastError(
        "file-missing",
        f"a worker cannot get {Path(file.path).name}: {why}",
        hint="machines of the cluster must see the state folder, or reach the driver at spark.driver.host",
    )


def _clean(folder: Path) -> None:
    """Delete copies that were not used for a while, and the least recently used ones beyond the bound."""
    found: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process cleans up, too
            found.append(((status := path.stat()).st_mtime, status.st_size, path))
    kept = 0
    now = time.time()
    for number, (used, size, path) in enumerate(sorted(found, reverse=True)):
        kept += size
        if now - used > UNUSED_SECONDS or (kept > MAX_BYTES and number >= 2):
            path.unlink(missing_ok=True)
