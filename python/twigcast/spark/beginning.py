"""What the query over correlations remembers beside Spark's state: its correlations, and where it began.

    correlations.json                        the correlations of the query that was started last, or none
    checkpoints/correlations/beginning.json  the place of each stream, and the number of the first batch in the log

A correlation sees the messages that arrive after it was subscribed. While there are no correlations, no query reads the
streams for them. When one is subscribed, a query begins with an empty state, behind the micro-batches that were matched
against a version of the store without correlations. These places are written to the query's checkpoint before any later
micro-batch is committed, so that a crash cannot move them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twigcast.common.private_files import FOLDER_MODE
from twigcast.delivery.files import make_folder, read_record, replace, sync_folder, write_record
from twigcast.errors import StateDamaged
from twigcast.spark.checkpoint import log_files, log_rows, numbers, offsets
from twigcast.spark.stages.standing import Standing

if TYPE_CHECKING:
    from twigcast.store import SubscriptionRecord

FILE = "beginning.json"
RUNNING = "correlations.json"
FORMAT = 2
"""Of ``correlations.json``. With format 1 there is no ``beginning.json``."""
EARLIEST = -2
"""What Kafka's connector takes for the first offset of a partition."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a stream: the first micro-batch to be read, and the offset that the one before it ends with."""

    batch: int
    offset: Mapping[str, Any] | None = None
    """As Spark's checkpoint of the stream has it; None for a folder, and where the stream is read from its start."""

    @classmethod
    def of(cls, checkpoint: Path, batch: int) -> Place:
        """Return the place before a micro-batch of a stream that a query of Spark reads."""
        ends = offsets(checkpoint, batch - 1) if batch > 0 else []
        if not ends or not ends[0]:
            return cls(batch)
        end = dict(ends[0])
        if "logOffset" not in end:  # Kafka: the connector wants to know of every partition
            for topic, partitions in offsets(checkpoint, max(numbers(checkpoint / "offsets")))[0].items():
                end[topic] = {**dict.fromkeys(partitions, EARLIEST), **end.get(topic, {})}
        return cls(batch, end)

    def kafka_offsets(self) -> str | None:
        """Return the place for Kafka's connector, as its option ``startingOffsets``."""
        return None if self.offset is None else json.dumps(self.offset)

    def table_files(self, checkpoint: Path) -> list[str]:
        """Return the files of a table before this place, by the checkpoint of its stream."""
        upto = -1 if self.offset is None else int(self.offset["logOffset"])
        rows = [row for file in log_files(checkpoint / "sources" / "0", upto) for row in log_rows(file)]
        return sorted({row["path"] for row in rows if row["batchId"] <= upto}) if upto >= 0 else []


@dataclass(frozen=True, slots=True)
class Beginning:
    """The places of the streams, and the batch of the delivery log that is the query's first micro-batch."""

    first: int = 0
    streams: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def read(cls, checkpoint: Path, state: Path) -> Beginning:
        """Return the beginning of the query whose checkpoint this is; ``state`` is the state folder.

        Earlier versions wrote none: they read the streams from their start. It is then written here.
        """
        path = checkpoint / FILE
        try:
            saved = read_record(path)
            return cls(int(saved["first"]), {name: Place(**place) for name, place in saved["streams"].items()})
        except FileNotFoundError:
            if _saved(state / RUNNING).get("format", 1) > 1:
                raise StateDamaged(path, "is missing: it says where correlations begin") from None
            beginning = cls()
            make_folder(checkpoint, FOLDER_MODE)
            beginning.write(checkpoint)
            return beginning
        except (KeyError, TypeError, ValueError) as error:
            raise StateDamaged(path, f"cannot be read: {error}") from error

    def write(self, checkpoint: Path) -> None:
        """Write the beginning to a new checkpoint."""
        streams = {name: asdict(place) for name, place in self.streams.items()}
        write_record(checkpoint / FILE, {"format": 1, "first": self.first, "streams": streams})


def fresh_checkpoint(checkpoint: Path) -> Path:
    """Return an empty folder beside a checkpoint, which :func:`put_in_place` lets take its place."""
    fresh = checkpoint.with_name(f".{checkpoint.name}.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    make_folder(fresh, FOLDER_MODE)
    return fresh


def put_in_place(fresh: Path, checkpoint: Path) -> None:
    """Replace a checkpoint, if there is one, whose state nobody needs any more."""
    if checkpoint.exists():
        shutil.rmtree(checkpoint)
    fresh.rename(checkpoint)
    sync_folder(checkpoint.parent)


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
