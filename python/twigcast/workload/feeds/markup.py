"""What the message templates share: escaping markup, and chances that repeat by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar
from xml.sax.saxutils import escape, quoteattr

T = TypeVar("T")
EPOCH = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)


def el(name: str, *content: str, **attributes: object) -> str:
    """Return an element around markup that is already escaped. A trailing ``_`` frees a keyword: ``class_``."""
    attrs = "".join(f" {k.rstrip('_').replace('__', ':')}={quoteattr(str(v))}" for k, v in attributes.items())
    body = "".join(content)
    return f"<{name}{attrs}>{body}</{name}>" if body else f"<{name}{attrs}/>"


def leaf(name: str, value: object, **attributes: object) -> str:
    """Return an element around a value, escaped."""
    return el(name, escape(str(value)), **attributes)


class Dice:
    """Choices of one message. Only ``Random.random`` is used, which Python keeps stable across versions."""

    def __init__(self, seed: str) -> None:
        self.chance = Random(seed).random

    def below(self, n: int) -> int:
        return int(self.chance() * n)

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def maybe(self, odds: float, make: Callable[[], str]) -> str:
        return make() if self.chance() < odds else ""

    def some(self, least: int, most: int, make: Callable[[], str]) -> str:
        return "".join(make() for _ in range(self.between(least, most)))

    def digits(self, n: int) -> str:
        return "".join(str(self.below(10)) for _ in range(n))

    def hexes(self, n: int) -> str:
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(n))

    def moment(self, days: int = 300) -> datetime:
        return EPOCH + timedelta(seconds=self.below(days * 86_400))

    def amount(self) -> str:
        # Spread over magnitudes, as money is.
        return f"{10 ** (1 + 5 * self.chance()):.2f}"
