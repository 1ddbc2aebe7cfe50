"""What Spark keeps in the checkpoint of a streaming query, as far as a run has to know it.

metadata       the id of the query
offsets/7      written before micro-batch 7 begins: a version, settings of the micro-batch, an offset per source
commits/7      written when micro-batch 7 has ended
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from twigcast.errors import StateDamaged


def batch_time(checkpoint: Path, batch: int) -> int:
    """Return when a micro-batch was begun for the first time, in microseconds since 1970."""
    return int(json.loads(_lines(checkpoint, batch)[1])["batchTimestampMs"]) * 1000


def offsets(checkpoint: Path, batch: int) -> list[dict[str, Any]]:
    """Return where a micro-batch ends, for each source; empty where nothing had come from it yet."""
    return [{} if line == "-" else json.loads(line) for line in _lines(checkpoint, batch)[2:]]


def numbers(folder: Path) -> list[int]:
    """Return the micro-batches that a folder of the checkpoint has a file for."""
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]


def check(checkpoint: Path, last: int, log: Path) -> None:
    """Raise :class:`StateDamaged` if Spark could not go on with a checkpoint, or not where the delivery log ends.

    ``last`` is the last batch of the delivery log. The log may be one batch ahead of the checkpoint's commits, and the
    checkpoint's offsets one batch ahead of the log; anything else would skip messages or repeat them.
    """
    begun, committed = numbers(checkpoint / "offsets"), numbers(checkpoint / "commits")
    if not begun and not committed and last < 0:
        return
    for batch in sorted(begun)[-2:]:
        _lines(checkpoint, batch)
    _check_commits(checkpoint, sorted(committed)[-2:])
    newest, ended = max(begun, default=-1), max(committed, default=-1)
    if newest < last:
        raise StateDamaged(checkpoint / "offsets" / str(last), "is missing, but this batch has been delivered")
    if newest < ended:
        raise StateDamaged(checkpoint / "offsets" / str(ended), "is missing, but the micro-batch has ended")
    if ended > last:
        raise StateDamaged(log, f"ends with batch {last}, but batch {ended} has been committed to it")
    if ended < newest - 1:
        raise StateDamaged(checkpoint / "commits" / str(newest - 1), "is missing, but the next micro-batch has begun")
    if newest - 1 >= 0 and newest - 1 not in begun:
        raise StateDamaged(checkpoint / "offsets" / str(newest - 1), "is missing")
    _check_json(checkpoint / "metadata")


def check_table(checkpoint: Path, table: str) -> None:
    """Raise :class:`StateDamaged` if a table was elsewhere when the checkpoint was written.

    Spark remembers the files of a table by their absolute paths, so it would read all of them again.
    """
    begun = numbers(checkpoint / "offsets")
    upto = offsets(checkpoint, max(begun))[0].get("logOffset", -1) if begun else -1
    files = log_files(checkpoint / "sources" / "0", upto) if upto >= 0 else []
    for path in files[-1:]:
        for known in [row["path"] for row in log_rows(path)][:1]:
            if _bare(table) not in _bare(known):
                hint = "move the table back to where it was, or name an empty state folder to read all of it again"
                raise StateDamaged(path, f"is about a table elsewhere: it names {known}, not {table}", hint=hint)
    for path in files[:-1]:
        if not path.is_file() or not path.stat().st_size:
            raise StateDamaged(path, "is missing or empty: it says which files of the table have been read")


def log_files(log: Path, upto: int) -> list[Path]:
    """Return the files of the log of Spark's file source that say what was found up to a look at the folder."""
    compact = max((int(path.name.removesuffix(".compact")) for path in log.glob("*.compact")), default=-1)
    files = [log / f"{compact}.compact"] if compact >= 0 else []
    return files + [log / str(look) for look in range(compact + 1, upto + 1)]


def log_rows(file: Path) -> list[dict[str, Any]]:
    """Return what a file of the log of Spark's file source has: the path of each file, and the look that found it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0].startswith("v"):
            raise ValueError("it is empty" if not lines else "it has no version")
        return [json.loads(line) for line in lines[1:]]
    except (OSError, ValueError) as error:
        raise StateDamaged(file, f"cannot be read: {error}") from error


def _bare(location: str) -> str:
    return re.sub(r"^[a-z0-9+.-]+:/+", "/", unquote(location)).rstrip("/")


def _lines(checkpoint: Path, batch: int) -> list[str]:
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) < 3 or not lines[0].startswith("v"):
            raise ValueError("it has been cut off" if lines else "it is empty")
        for line in lines[1:]:
            if line != "-":
                json.loads(line)
    except (OSError, ValueError) as error:
        raise StateDamaged(path, f"cannot be read: {error}") from error
    return lines


def _check_commits(checkpoint: Path, batches: list[int]) -> None:
    for batch in batches:
        path = checkpoint / "commits" / str(batch)
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) < 2 or not lines[0].startswith("v"):
            raise StateDamaged(path, "is empty" if not lines else "has been cut off")


def _check_json(path: Path) -> None:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StateDamaged(path, f"cannot be read: {error}") from error
