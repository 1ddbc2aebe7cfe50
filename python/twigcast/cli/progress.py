"""Progress on stderr: on a terminal only, and only of what takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

T = TypeVar("T")

PATIENCE = 2.0
EVERY = 0.1


class Progress:
    """A line that counts what has been done. ``total`` is None where nobody knows it beforehand."""

    def __init__(self, total: int | None, what: str = "messages") -> None:
        self.total = total
        self.done = 0
        self._what = what
        self._live = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._visible = False

    def advance(self, count: int) -> None:
        """Count what has been done since."""
        self.done += count
        now = time.monotonic()
        if not self._live or now - self._begun < PATIENCE or now - self._drawn < EVERY:
            return
        self._drawn = now
        rate = self.done / (now - self._begun)
        total = "" if self.total is None else f" of {self.total:,}"
        _draw(f"{self.done:,}{total} {self._what}, {rate:,.0f}/s")
        self._visible = True

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count them."""
        for item in items:
            yield item
            self.advance(1)
        self.clear()

    def say(self, text: str) -> None:
        """Print a line for the user, without the line of progress in it."""
        self.clear()
        click.echo(text, err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._visible:
            _draw("")
            self._visible = False


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show what is being done, and for how long, while a block that cannot be counted runs."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        begun, wait = time.monotonic(), PATIENCE
        while not ended.wait(wait):
            wait = 0.5
            _draw(f"{text}, {time.monotonic() - begun:,.0f} s")

    thread = threading.Thread(target=tick, name="twigcast-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _draw("")


def _draw(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", err=True, nl=False)
