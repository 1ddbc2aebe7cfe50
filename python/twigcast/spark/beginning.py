"""What the query over correlations remembers beside Spark's state: its correlations, and where it began.

    correlations.json                        the correlations of the query that was started last, or none
    checkpoints/correlations/beginning.json  where it began in each stream, and the number of the first batch in its log

A correlation sees the messages that arrive after it was subscribed. While there are no correlations, nothing is kept of
messages for them. When one is subscribed, a query begins with an empty state, behind the batches of the streams that
were matched against a version of the store without correlations. These numbers are written to the query's checkpoint
before any later batch is committed, so that a crash cannot move them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast.common.private_files import FOLDER_MODE
from twigcast.delivery.files import make_folder, read_record, replace, write_record
from twigcast.errors import StateDamaged
from twigcast.spark.stages.standing import Standing

if TYPE_CHECKING:
    from twigcast.store import SubscriptionRecord

FILE = "beginning.json"
RUNNING = "correlations.json"
FORMAT = 2
"""Of ``correlations.json``. With format 1 there is no ``beginning.json``."""
FORMAT_OF_BEGINNING = 2
"""With format 1, and where there is no such file, the query read the sources itself: see ``earlier.py``."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """By stream the last batch that is not read, and the batch of the delivery log that is the first micro-batch."""

    first: int = 0
    streams: Mapping[str, int] = field(default_factory=dict)
    earlier: bool = False
    """The offsets of the checkpoint are yet those of an earlier version."""

    @classmethod
    def read(cls, checkpoint: Path, state: Path) -> Beginning | None:
        """Read where the query over correlations began to read, from its checkpoint.

        None if the checkpoint was written by an earlier version. ``state`` is the state folder.
        """
        path = checkpoint / FILE
        try:
            saved = read_record(path)
            if saved.pop("format") < FORMAT_OF_BEGINNING:
                return None
            return cls(**saved)
        except FileNotFoundError:
            if _saved(state / RUNNING).get("format", 1) > 1:
                raise StateDamaged(path, "is missing: it says where correlations begin") from None
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise StateDamaged(path, f"cannot be read: {error}") from error

    def begin(self, checkpoint: Path) -> None:
        """Make a new checkpoint, in place of one whose state nobody needs any more."""
        if checkpoint.exists():
            shutil.rmtree(checkpoint)
        make_folder(checkpoint, FOLDER_MODE)
        self.write(checkpoint)

    def write(self, checkpoint: Path) -> None:
        """Write the beginning to a checkpoint."""
        write_record(checkpoint / FILE, {"format": FORMAT_OF_BEGINNING, **asdict(self)})


def standing_of(records: Mapping[str, SubscriptionRecord]) -> list[Standing]:
    """Return correlations as workers get them, by id."""
    return [
        Standing(r.id, r.query, tuple(sorted((r.namespaces or {}).items())), r.default_namespace)
        for _, r in sorted(records.items())
    ]


def write_running(state: Path, standing: Iterable[Standing]) -> None:
    """Write down the correlations of the query that is about to start; none if there is to be no query."""
    rows = [one._asdict() for one in standing]
    replace(state / RUNNING, json.dumps({"format": FORMAT, "correlations": rows}).encode())


def read_running(state: Path) -> list[Standing] | None:
    """Return the correlations of the query that was started last; None if an earlier version wrote none."""
    path = state / RUNNING
    try:
        rows = _saved(path).get("correlations")
        return None if rows is None else [_standing(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "restore it, or delete it: one micro-batch is then repeated with the correlations of the store"
        raise StateDamaged(path, f"cannot be read: {error}", hint=hint) from error


def _saved(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}


def _standing(row: Mapping[str, Any]) -> Standing:
    return Standing(**{**row, "namespaces": tuple((prefix, uri) for prefix, uri in row["namespaces"])})
