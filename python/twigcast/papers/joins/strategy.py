"""What the ways to evaluate correlations have in common. Each of them gives the same results; they differ in cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from twigcast.ir.correlation import Block, Correlation


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message. ``number`` is its own; ``derived``: a correlation made it."""

    number: int
    stream: str
    time: int
    xml: bytes
    derived: bool = False

    def is_read_by(self, block: Block) -> bool:
        return not self.derived if block.stream == "" else self.stream == block.stream


@dataclass(frozen=True, slots=True, order=True)
class Joined:
    """A result: the messages by their numbers, block by block, and the nodes of the variables that SELECT shows."""

    query: int
    messages: tuple[int, ...]
    nodes: tuple[int, ...]


class Strategy(Protocol):
    def add(self, query: int, correlation: Correlation) -> None:
        """It sees the messages that come from now on."""

    def remove(self, query: int) -> None: ...

    def process(self, arrival: Arrival) -> list[Joined]:
        """The results that a message completes, in order."""
        ...

    def expire(self, before: int) -> None:
        """Forgets messages of earlier times."""
