"""JSON Lines on the standard output. It cannot know what it has seen: after a crash lines may come again, same ids."""

from __future__ import annotations

import sys
from typing import IO

from twigcast.delivery.jsonl import joined, lines
from twigcast.delivery.sinks.base import Batch, Sink, SinkError


class StdoutSink(Sink):
    def __init__(self, name: str, out: IO[bytes] | None = None) -> None:
        super().__init__(name)
        self._out = out

    def deliver(self, batch: Batch) -> None:
        out = self._out or sys.stdout.buffer
        try:
            for piece in batch.pieces():
                for _, text in lines(piece):
                    out.write(joined(text))
            out.flush()
        except (OSError, ValueError) as error:
            raise SinkError(f"cannot write to the standard output: {error}") from error
