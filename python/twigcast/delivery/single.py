"""A delivery by itself, for what is not done column by column: waiting, being given up, coming back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from twigcast.delivery.log import Piece
from twigcast.delivery.writer import DELIVERIES, MESSAGES


@dataclass(frozen=True, slots=True)
class Waiting:
    id: int
    """In the table that it waits in; 0 if it does not."""
    delivery: str
    stream: str
    message: str
    time: int | None
    """Microseconds since 1970."""
    headers: dict[str, str]
    subscription: str
    subscriber: str | None
    content: bytes
    created: float = 0.0
    attempts: int = 0


def singles(piece: Piece, attempts: int = 0) -> Iterator[Waiting]:
    """Yield the deliveries of a piece one by one."""
    payloads = piece.deliveries.column("payload")
    times, bodies = piece.messages.column("time"), piece.messages.column("xml")
    of_message = [piece.messages.column(name) for name in ("stream", "message", "headers")]
    names = ("delivery", "row", "subscription", "subscriber")
    columns = [piece.deliveries.column(name).to_pylist() for name in names]
    for place, (delivery, row, subscription, subscriber) in enumerate(zip(*columns, strict=True)):
        stream, message, headers = (column[row].as_py() for column in of_message)
        content = payloads[place].as_py() if payloads[place].is_valid else bodies[row].as_py()
        yield Waiting(
            0, delivery, stream, message, times[row].value, dict(headers or ()), subscription, subscriber, content,
            attempts=attempts,
        )  # fmt: skip


def piece_of(waiting: list[Waiting]) -> Piece:
    """Single deliveries as the rows that sinks take."""
    messages = [
        {
            "message": single.message,
            "stream": single.stream,
            "time": single.time,
            "headers": list(single.headers.items()),
            "xml": single.content,
        }
        for single in waiting
    ]
    deliveries = [
        {"delivery": s.delivery, "row": row, "subscription": s.subscription, "subscriber": s.subscriber}
        for row, s in enumerate(waiting)
    ]
    return Piece(pa.RecordBatch.from_pylist(messages, MESSAGES), pa.RecordBatch.from_pylist(deliveries, DELIVERIES))
