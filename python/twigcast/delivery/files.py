"""Files that are there whole or not at all, also after a loss of power; and a folder that only one run may use.

A *record* is a small JSON file with a checksum. One that is damaged is refused with the file's name. The record
``identity.json`` of a state folder holds the folder's id, which its databases and logs hold too, so that a file that is
missing, new or from another folder is noticed.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twigcast.common.private_files import FOLDER_MODE, tighten
from twigcast.errors import OptionError, StateDamaged

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


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Replace a file by a JSON object with a checksum."""
    replace(path, json.dumps({**record, "crc32": _checksum(record)}).encode())


def read_record(path: Path, *, hint: str = StateDamaged.REMEDY) -> dict[str, Any]:
    """Return what :func:`write_record` wrote. Objects without a checksum, as earlier versions wrote them, are accepted.

    Raises FileNotFoundError if there is no such file, and :class:`StateDamaged` if it is not whole.
    """
    content = path.read_bytes()
    try:
        record = json.loads(content)
        checksum = record.pop("crc32", None)
    except (ValueError, AttributeError, TypeError):
        problem = "cannot be read" if content else "is empty"
        raise StateDamaged(path, problem, hint=hint) from None
    if checksum is not None and checksum != _checksum(record):
        raise StateDamaged(path, "has changed since it was written", hint=hint)
    return dict(record)


def _checksum(record: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())


def identity_file(folder: Path) -> Path:
    return folder / "identity.json"


def read_identity(folder: Path) -> str | None:
    """Return the id of a state folder; None for one that no run has completed yet, or that has no identity file."""
    try:
        found = read_record(identity_file(folder), hint="delete it: the next run writes it again").get("state")
    except FileNotFoundError:
        return None
    return None if found is None else str(found)


def write_identity(folder: Path, state: str) -> None:
    """Record the id of a state folder, once all databases of the folder have it."""
    write_record(identity_file(folder), {"format": 1, "state": state})


def sync_folder(folder: Path) -> None:
    """Names given and taken away in the folder outlast a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, as ``mkdir -p`` does; the new names outlast a loss of power."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode, exist_ok=True)
        sync_folder(new.parent)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; raises an :class:`OptionError` if another process holds it.

    A new folder is readable by its owner only, and one that is open to other users is tightened.
    """
    make_folder(folder, FOLDER_MODE)
    tighten(folder)
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
