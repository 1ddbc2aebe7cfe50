"""What one sees of a run: a live line on a terminal, plain lines elsewhere, or an event per line as JSON."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import click

from twigcast.cli.status import failures_of, line_of
from twigcast.units import format_time

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.spark.pipeline import Progress, Run, Watch

EVERY = 0.5
"""Seconds between two looks at the run."""
PLAIN_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""
PATIENCE = 2.0
"""Seconds after which a stage shows how long it has taken."""

log = logging.getLogger("twigcast")


class Onlooker:
    """Looks at a run twice a second, from a thread of its own: failures come between micro-batches, too."""

    def __init__(self, handler: logging.Handler) -> None:
        """Take what shows the log meanwhile."""
        self.last: dict[str, Any] | None = None
        """The status of the run when it ended."""
        self._handler = handler
        self._run: Run | None = None
        self._looking = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="twigcast-screen", daemon=True)

    def __enter__(self) -> Self:
        log.addHandler(self._handler)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        log.removeHandler(self._handler)

    def watch(self) -> Watch:
        """Return the calls for a run."""
        from twigcast.spark.pipeline import Watch

        return Watch(self.on_batch, self.on_start, self.on_end, self.say)

    def say(self, text: str) -> None:
        """Show what the program is doing."""

    def on_batch(self, progress: Progress) -> None:
        """Show a micro-batch that was committed."""

    def on_start(self, run: Run) -> None:
        """Look at the run from now on."""
        with self._looking:
            self._run = run

    def on_end(self, run: Run) -> None:
        """Look at the run for the last time."""
        with self._looking:
            self._run = None
            with suppress(OSError, sqlite3.Error):
                self.last = _status(run, running=False)

    def tick(self, found: dict[str, Any] | None) -> None:
        """Show the status of the run, or, before it has started, what is being done."""

    def _loop(self) -> None:
        while not self._ended.wait(EVERY):
            # A full disk is reported by those who must write.
            with self._looking, suppress(OSError, sqlite3.Error):
                self.tick(None if self._run is None else _status(self._run, running=True))


def _status(run: Run, running: bool) -> dict[str, Any]:
    from twigcast.spark import watch  # where there is a run, it has been imported

    return watch.status_of(run, running)


class Screen(Onlooker):
    """Progress for people: a live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        from rich.logging import RichHandler
        from rich.status import Status

        self._live = console.is_terminal
        self._status = Status("", console=console)
        rich = RichHandler(console=console, show_path=False, show_level=False)
        super().__init__(rich if self._live else logging.StreamHandler())
        self._stage: str | None = None
        self._since = time.monotonic()
        self._printed = 0.0
        self._shown = ""
        self._before = (0, time.monotonic())
        self._rate = 0.0

    def __enter__(self) -> Self:
        if self._live:
            self._status.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._live:
            self._status.stop()

    def say(self, text: str) -> None:
        self._stage, self._since = text, time.monotonic()
        self._show(text, at_once=True)

    def on_start(self, run: Run) -> None:
        super().on_start(run)
        self._stage = None
        self._before = (0, time.monotonic())

    def on_batch(self, progress: Progress) -> None:
        now = time.monotonic()
        messages, at = self._before
        self._rate = (progress.total.messages - messages) / max(now - at, 1e-6)
        self._before = (progress.total.messages, now)

    def tick(self, found: dict[str, Any] | None) -> None:
        if self._stage is not None:
            seconds = time.monotonic() - self._since
            self._show(self._stage if seconds < PATIENCE else f"{self._stage}, {seconds:,.0f} s")
        elif found is not None:
            self._show(line_of(found, self._rate))

    def _show(self, text: str, at_once: bool = False) -> None:
        if self._live:
            from rich.markup import escape

            self._status.update(escape(text))
        elif at_once or (text != self._shown and time.monotonic() - self._printed >= PLAIN_EVERY):
            self._printed, self._shown = time.monotonic(), text
            click.echo(text, err=True)


class JsonLines(Onlooker):
    """Every event as a line of JSON on the standard error output."""

    def __init__(self) -> None:
        super().__init__(_Handler(self))
        self._failures: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        log.setLevel(logging.INFO)
        return super().__enter__()

    def say(self, text: str) -> None:
        self.line("info", text)

    def on_batch(self, progress: Progress) -> None:
        counts = progress.counts
        self.line(
            "info",
            "batch committed",
            stream=progress.stream,
            batch=progress.batch,
            messages=counts.messages,
            bytes=counts.bytes,
            deliveries=counts.deliveries,
            dead_letters=counts.rejects,
            seconds=round(progress.seconds, 3),
            version=progress.version,
            subscriptions=progress.subscriptions,
        )

    def on_end(self, run: Run) -> None:
        super().on_end(run)
        if self.last is not None:
            self.tick(self.last)

    def tick(self, found: dict[str, Any] | None) -> None:
        if found is None:
            return
        failures = failures_of(found)
        if failures != (self._failures or failures_of({})):
            self.line("warning", "failures", **failures)
        self._failures = failures

    def line(self, level: str, event: str, at: float | None = None, **fields: Any) -> None:
        """Print an event."""
        moment = format_time(time.time() if at is None else at, "milliseconds")
        click.echo(json.dumps({"time": moment, "level": level, "event": event, **fields}, ensure_ascii=False), err=True)


class _Handler(logging.Handler):
    def __init__(self, lines: JsonLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        self._lines.line(record.levelname.lower(), record.getMessage(), at=record.created, **fields)
