"""What a sink is: something that takes batches of deliveries, and takes a batch again without harm."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.delivery.log import Piece
from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    from twigcast.delivery.dead import DeadLetters
    from twigcast.delivery.outbox import Outbox
    from twigcast.delivery.targets import Targets


class SinkError(TwigcastError):
    """A sink cannot take a batch now. It is asked again later; the other sinks go on."""

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__("sink-failed", text, hint=hint)


class SinkDamaged(SinkError):
    """A file by which a sink knows what it has delivered cannot be used. The sink waits; the other sinks go on."""

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(f"{text}; {remedy}")
        self.code = "state-damaged"


def cannot_write(path: Path, error: OSError) -> SinkError:
    # Not strerror: pyarrow puts the name of its own function there.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return SinkError(f"cannot write to {error.filename or path}: {reason}")


@dataclass(frozen=True, slots=True)
class Batch:
    """The deliveries of a log batch that are for one sink; or of a release of held ones, whose stream is ``_held``."""

    stream: str
    batch: int
    time: float
    """When it was committed, in seconds since 1970: the same however often the batch is delivered again."""
    pieces: Callable[[], Iterator[Piece]]

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d")


class Sink(ABC):
    """A consumer of batches. ``deliver`` is called by one thread, in the order of batches per stream."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def deliver(self, batch: Batch) -> None:
        """Take a batch, all of it, durably; or raise and take nothing that is not harmless to take again.

        A batch is identified by ``(stream, batch)``. After a crash the last one of a stream comes again: what was
        delivered of it must not be delivered twice.
        """

    def undelivered(self, batch: Batch) -> Iterator[Piece]:
        """Return the deliveries of a batch that were not made. They become dead letters: the batch is given up.

        Called after ``deliver`` has failed, and again if the process ends before the dead letters are written. Later
        calls of ``deliver`` are for later batches of the stream, and must not make deliveries of this one. Raises
        :class:`SinkError` if it cannot be known now what was delivered; the batch is then not given up yet.
        """
        return batch.pieces()

    def start(self) -> None:  # noqa: B027
        """Begin to work. Called once before the first batch."""

    def close(self) -> None:  # noqa: B027
        """Finish what is under way. Called once after the last batch."""

    @property
    def ready(self) -> bool:
        """False while the sink has as much to do as it wants to have."""
        return True

    @property
    def waiting(self) -> int:
        """Deliveries that the sink has taken and not made yet."""
        return 0


@dataclass(frozen=True, slots=True)
class Context:
    """What sinks are given besides their own settings."""

    state: str
    """An id of the state folder. Batch numbers mean something only together with it."""
    outbox: Outbox
    dead: DeadLetters
    targets: Targets


def contents(piece: Piece) -> pa.Array:
    """Return what is delivered: the payload, or else the message. It is a dictionary, with each body once."""
    rows = piece.rows
    used = pc.unique(rows)
    dictionary = piece.messages.column("xml").take(used)
    indices = pc.index_in(rows, used)
    payload = piece.deliveries.column("payload")
    if payload.null_count < len(payload):
        own = payload.is_valid()
        places = pc.subtract(pc.cumulative_sum(own.cast(pa.int32())), pa.scalar(1 - len(dictionary), pa.int32()))
        indices = pc.if_else(own, places, indices)
        dictionary = pa.concat_arrays([dictionary, payload.drop_null()])
    return pa.DictionaryArray.from_arrays(indices, dictionary)
