"""Files and folders that only their owner may read: stores and state folders hold messages and secrets."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_private_file(path: Path) -> None:
    """Create an empty file that only its owner may read, or tighten the one that is there.

    A program that then opens the file for writing never has it open to others. SQLite gives its ``-wal`` and ``-shm``
    files the mode of the database.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        tighten(path)
        for end in ("-wal", "-shm", "-journal"):
            tighten(path.with_name(path.name + end))


def tighten(path: Path) -> None:
    """Take the rights of others away from a file or folder of ours; warn where it belongs to someone else.

    What its group may write to was shared on purpose: a state folder with the workers of a cluster, a store with other
    operators. The group keeps its rights.
    """
    with suppress(FileNotFoundError):
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        open_to_others = mode & (stat.S_IRWXO if mode & stat.S_IWGRP else stat.S_IRWXG | stat.S_IRWXO)
        if not open_to_others:
            return
        try:
            if status.st_uid != os.geteuid():
                raise PermissionError
            path.chmod(mode & ~open_to_others)
        except OSError:
            if mode & (stat.S_IROTH | stat.S_IXOTH):
                logger.warning("%s may be read by other users: it may hold secrets; chmod go-rwx %s", path, path)
