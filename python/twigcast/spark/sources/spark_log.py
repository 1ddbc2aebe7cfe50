"""Takes over checkpoints that were written while Spark's own file source listed folders (up to version f693179).

    sources/0/7, sources/0/9.compact     the files that the source has found, by the number of its look (9: all up to 9)
    offsets/7                            {"logOffset": 9}: the micro-batch 7 ends with the files of look 9

Paths in them are absolute. The listing log takes over those that micro-batches of our delivery log have delivered;
files that were found but not delivered are found again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from twigcast.delivery.files import sync_folder
from twigcast.errors import StateDamaged
from twigcast.spark.checkpoint import log_files, log_rows, offsets

if TYPE_CHECKING:
    from twigcast.spark.sources.listing import Listing

PARTS = ("offsets", "commits", "sources", "metadata")


def take_over(listing: Listing, checkpoint: Path, last: int) -> None:
    """Bring the files of an old checkpoint into a new listing log, and delete the checkpoint.

    ``last`` is the last batch that was delivered.
    """
    if not (checkpoint / "offsets").is_dir():
        return
    if listing.next == 0 and last >= 0:
        looked = [offset.get("logOffset") for offset in offsets(checkpoint, last)]
        if len(looked) != 1 or looked[0] is None:
            hint = "give the stream another name, or name an empty state folder"
            raise StateDamaged(checkpoint, "is the state of another kind of source", hint=hint)
        found = [(last, path) for _, path in listed_files(checkpoint / "sources" / "0", looked[0], listing.root)]
        listing.take_over(found, last)
    # From here on the listing log says what was read; half a checkpoint must not be taken for one.
    for part in PARTS:
        path = checkpoint / part
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            path.with_name(f".{part}.crc").unlink(missing_ok=True)
    sync_folder(checkpoint)


def listed_files(log: Path, upto: int, root: Path) -> Iterator[tuple[int, str]]:
    """Yield the files that were found up to a look, by path below the folder."""
    for file in log_files(log, upto):
        for row in log_rows(file):
            if row["batchId"] <= upto:
                yield row["batchId"], _relative(unquote(row["path"]), root)


def _relative(path: str, root: Path) -> str:
    local = "/" + path.removeprefix("file:").lstrip("/")
    if os.path.commonpath([local, root]) != str(root):
        hint = "move the folders back, run once, and move them then: from then on the state names files by their place"
        raise StateDamaged(root, f"is not where the files were read from: {local}", hint=hint)
    return os.path.relpath(local, root)
