"""``twigcast run pipeline.toml``: the pipeline, and what one sees of it."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast import config
from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.spark.pipeline import Progress, Run

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""

log = logging.getLogger("twigcast")


def run_pipeline(
    path: Path,
    *,
    once: bool,
    interval: float | None,
    cores: int | None,
    master: str | None,
    shards: int | None,
    ui: bool,
    log_format: str,
) -> None:
    from rich.console import Console

    from twigcast.cli.signals import KILLED, Signals
    from twigcast.spark.pipeline import Run, pipeline_session
    from twigcast.spark.watch import Observers

    settings = config.load(path)
    if interval is not None:
        trigger = settings.trigger.model_copy(update={"interval": interval, "once": False})
        settings = settings.model_copy(update={"trigger": trigger})
    stop = threading.Event()
    console = Console(stderr=True)
    as_json = log_format == "json"
    screen: Screen | JsonLines = JsonLines() if as_json else Screen(console)
    with ExitStack() as stack:
        stack.enter_context(screen)
        signals = stack.enter_context(Signals(stop, screen.say))
        observers = stack.enter_context(Observers(settings))

        def start() -> Any:
            screen.say("starting Spark")
            state = settings.state.path
            found = signals.start(
                lambda: pipeline_session(
                    settings, master=master, cores=cores, ui=ui, once=once, log=state / "spark.log"
                )
            )
            screen.say("waiting for messages")
            return found

        watch = observers.watch(screen.on_batch)
        screen.run = run = Run(settings, spark=start, once=once or None, shards=shards, watch=watch, stop=stop)
        total = run()
    if not as_json:
        click.echo(
            f"{total.messages:,} messages, {total.deliveries:,} deliveries, {total.rejects:,} to the dead letter",
            err=True,
        )
    if run.once and signals.received:
        click.echo("stopped before all was done; the next run goes on there", err=True)
        raise click.exceptions.Exit(KILLED + signals.received[0])
    if not run.drained:
        raise undelivered(run.undelivered, path)


def undelivered(counts: dict[str, int], path: Path) -> TwigcastError:
    """Deliveries that wait, by sink."""
    sinks = ", ".join(f"{sink} {count:,}" for sink, count in counts.items())
    text = f"{sum(counts.values()):,} deliveries wait" + (f": {sinks}" if sinks else "")
    hint = f"twigcast status {path} shows why; nothing is lost: the next run goes on there"
    return TwigcastError("undelivered", text, hint=hint)


class Screen:
    """Progress for people: a live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        from rich.logging import RichHandler
        from rich.status import Status

        self.run: Run | None = None
        self._live = console.is_terminal
        self._status = Status("", console=console)
        self._printed = 0.0
        self._before = (0, time.monotonic())
        self._handler: logging.Handler = (
            RichHandler(console=console, show_path=False, show_level=False) if self._live else logging.StreamHandler()
        )

    def __enter__(self) -> Screen:
        log.addHandler(self._handler)
        if self._live:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        log.removeHandler(self._handler)
        if self._live:
            self._status.stop()

    def say(self, text: str) -> None:
        self._show(text, always=True)

    def on_batch(self, progress: Progress) -> None:
        now = time.monotonic()
        done, at = self._before
        rate = (progress.total.messages - done) / max(now - at, 1e-6)
        self._before = (progress.total.messages, now)
        total = progress.total
        text = (
            f"{progress.stream} batch {progress.batch}: {total.messages:,} messages, {rate:,.0f}/s, "
            f"{total.deliveries:,} deliveries, {total.rejects:,} dead, "
            f"{progress.subscriptions:,} subscriptions (version {progress.version})"
        )
        for sink in self.run.runner.status() if self.run is not None else ():
            if sink.failing_since is not None:
                text += f"; {sink.sink} fails: {sink.error}"
            elif sink.lag > 1 or sink.waiting:
                text += f"; {sink.sink} is {sink.lag} batches behind, {sink.waiting:,} waiting"
        self._show(text)

    def _show(self, text: str, always: bool = False) -> None:
        if self._live:
            self._status.update(text)
        elif always or time.monotonic() - self._printed >= PLAIN_EVERY:
            self._printed = time.monotonic()
            click.echo(text, err=True)


class JsonLines(logging.Handler):
    """Every event as a line of JSON on the standard error output."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None

    def __enter__(self) -> JsonLines:
        log.addHandler(self)
        log.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        self._line(record.levelname.lower(), record.getMessage(), at=record.created, **fields)

    def say(self, text: str) -> None:
        self._line("info", text)

    def on_batch(self, progress: Progress) -> None:
        counts = progress.counts
        self._line(
            "info",
            "batch committed",
            stream=progress.stream,
            batch=progress.batch,
            messages=counts.messages,
            bytes=counts.bytes,
            deliveries=counts.deliveries,
            rejects=counts.rejects,
            seconds=round(progress.seconds, 3),
            version=progress.version,
            subscriptions=progress.subscriptions,
        )

    def _line(self, level: str, event: str, at: float | None = None, **fields: Any) -> None:
        moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
        line = {"time": moment.isoformat(timespec="milliseconds"), "level": level, "event": event, **fields}
        click.echo(json.dumps(line, ensure_ascii=False), err=True)
