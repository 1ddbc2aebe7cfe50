"""Files that are there whole or not at all, also after a loss of power; and a folder that only one run may use."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twigcast.errors import OptionError

FRESH = ".tmp"
"""The end of a name while its file is being written. Also what a crash may leave behind, hence what readers skip."""


def fresh_name(path: Path) -> Path:
    """Where to write what is to become ``path``: hidden, in its folder, and nobody else's."""
    return path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex}{FRESH}")


def replace(path: Path, content: bytes) -> None:
    """``path`` holds ``content`` when this returns, or what it held before if it does not."""
    fresh = fresh_name(path)
    try:
        with fresh.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Names given and taken away in the folder outlast a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Like ``mkdir -p``, and the new names outlast a loss of power."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync_folder(new.parent)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is ours alone meanwhile; an :class:`OptionError` if it is another process's."""
    make_folder(folder)
    with (folder / "lock").open("a") as lock:
        try:
            # Released by the system when its holder ends, however it does.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OptionError(
                "state-in-use",
                f"another run is using the state folder {folder}",
                hint="stop it, or give this one a folder of its own",
            ) from error
        yield
