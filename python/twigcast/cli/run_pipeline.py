"""``twigcast run pipeline.toml``: the pipeline, and what one sees of it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast import config
from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    pass


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

    from twigcast.cli.screen import JsonLines, Screen
    from twigcast.cli.signals import KILLED, Signals
    from twigcast.cli.status import summary_of
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
            return signals.start(
                lambda: pipeline_session(
                    settings, master=master, cores=cores, ui=ui, once=once, log=state / "spark.log"
                )
            )

        watch = observers.watch(screen.watch())
        run = Run(settings, spark=start, once=once or None, shards=shards, watch=watch, stop=stop)
        run()
    if not as_json and screen.last is not None:
        for line in summary_of(screen.last):
            click.echo(line, err=True)
    if run.once and signals.received:
        click.echo("stopped before all was done; the next run goes on there", err=True)
        raise click.exceptions.Exit(KILLED + signals.received[0])
    if not run.drained:
        raise undelivered(run.undelivered, path)


def undelivered(counts: dict[str, int], path: Path) -> TwigcastError:
    """Return the error that says how many deliveries wait, by sink."""
    sinks = ", ".join(f"{sink} {count:,}" for sink, count in counts.items())
    text = f"{sum(counts.values()):,} deliveries wait" + (f": {sinks}" if sinks else "")
    hint = f"twigcast status {path} shows why; nothing is lost: the next run goes on there"
    return TwigcastError("undelivered", text, hint=hint)
