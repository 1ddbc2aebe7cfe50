"""A line of progress on stderr: on a terminal only, and only when there is time to read it."""

from __future__ import annotations

import sys
import time

import click

PATIENCE = 2.0
EVERY = 0.1


class Progress:
    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._live = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._visible = False

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if not self._live or now - self._begun < PATIENCE or now - self._drawn < EVERY:
            return
        self._drawn = now
        rate = self.done / (now - self._begun)
        click.echo(f"\r\x1b[K{self.done:,} of {self.total:,} messages, {rate:,.0f}/s", err=True, nl=False)
        self._visible = True

    def say(self, text: str) -> None:
        """A line for the user, which progress must not be written into."""
        self.clear()
        click.echo(text, err=True)

    def clear(self) -> None:
        if self._visible:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._visible = False
