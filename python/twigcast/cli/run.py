"""``twigcast run``: messages of a folder through Spark, live or once."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.options import limit_options, limits_from, namespace_options

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.spark import Counts, Progress

EPILOG = """\b
Examples:
  twigcast run --inbox in --outbox out -s subscriptions.txt --once
  twigcast run --inbox in --outbox out -s subs.jsonl --ns atom=http://www.w3.org/2005/Atom
\b
OUTBOX/matches/*.jsonl   {"message": …, "subscription": …}
OUTBOX/dead/*.jsonl      {"message": …, "reason": …, "line": …, "column": …, "text": …, "original": …}
\b
Exit status: 0 something matched, 1 nothing did, 2 a message was refused or the run failed.
"""

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """``500ms``, ``2s``, ``1m``: as seconds."""

    name = "duration"
    units = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}  # noqa: RUF012

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|)\s*", str(value))
        if not parts:
            self.fail(f"{value!r} is not a duration; write 500ms, 2s or 1m", param, ctx)
        return float(parts[1]) * self.units[parts[2]]


@click.command(epilog=EPILOG, short_help="Match the messages of a folder on Spark, live or once.")
@click.option("--inbox", required=True, type=click.Path(path_type=Path), help="Folder of messages, one per file.")
@click.option("--outbox", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("-s", "--subscriptions", required=True, metavar="FILE", help="A .txt or .jsonl file; - for stdin.")
@click.option("--once", is_flag=True, help="End when the messages that are there now are done.")
@click.option("--trigger", type=Duration(), default="2s", show_default=True, help="How often to look for new files.")
@click.option("--max-files", type=click.IntRange(min=1), help="Most messages per micro-batch.  [default: 5000]")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
@click.option("--ui", is_flag=True, help="Also start Spark's web page, on http://localhost:4040.")
@namespace_options
@limit_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    inbox: Path,
    outbox: Path,
    subscriptions: str,
    once: bool,
    trigger: float,
    max_files: int | None,
    cores: int | None,
    ui: bool,
    namespaces: tuple[tuple[str, str], ...],
    **limits: int | None,
) -> None:
    """Match the messages of a folder against SUBSCRIPTIONS on Spark.

    Every file of INBOX and below is one message; also .gz. Names that start with '.' or '_' or end in '.tmp' are left
    alone: write under such a name and rename when the file is complete.

    With the same OUTBOX the next run goes on where this one ended, after a crash too: each message is matched once.
    Subscriptions may change in between. Ctrl-C finishes the micro-batch at hand and stops.
    """
    from rich.console import Console

    from twigcast.spark import session
    from twigcast.spark.inbox import MAX_FILES, run_directory
    from twigcast.spark.sources.directory import check_inbox, unnameable
    from twigcast.subscriptions import load_engine

    screen = Console(stderr=True)
    engine = load_engine(subscriptions, namespaces=dict(namespaces), limits=limits_from(limits))
    skipped = unnameable(check_inbox(inbox))
    if skipped:
        click.echo(f"warning: {skipped} file names are not UTF-8; Spark does not see such files", err=True)
    stop = threading.Event()
    with Display(screen, f"starting Spark, {len(engine):,} subscriptions") as display:

        def start() -> Any:
            log = outbox / "_checkpoint" / "spark.log"
            started = session(app="twigcast run", cores=cores, ui=ui, quick=once, log=log)
            stop_on_signals(stop, display.say)  # after Spark has set its own handler
            display.spark_is_up("waiting for messages")
            return started

        counts = run_directory(
            inbox,
            outbox,
            engine,
            once=once,
            interval=trigger,
            max_files=max_files or MAX_FILES,
            spark=start,
            on_batch=display.on_batch,
            stop=stop,
        )
    summary(counts, display.seconds, outbox)
    ctx.exit(2 if counts.rejects else 0 if counts.matches else 1)


def stop_on_signals(stop: threading.Event, say: Callable[[str], None]) -> None:
    """The first Ctrl-C (or SIGTERM) asks for an orderly end, the second one insists."""

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        say("stopping after this micro-batch")
        stop.set()

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


def summary(counts: Counts, seconds: float, outbox: Path) -> None:
    """What a run did, for people."""
    rate = f"{counts.messages / seconds:,.0f} messages/s" if seconds else "-"
    rows = {
        "messages": f"{counts.messages:,} ({counts.bytes / 1e6:,.1f} MB)",
        "matches": f"{counts.matches:,}",
        "rejects": f"{counts.rejects:,}",
        "time": f"{seconds:.1f} s ({rate})",
        "results": f"{outbox / 'matches'}",
    }
    if counts.rejects:
        rows["dead letters"] = f"{outbox / 'dead'}"
    for name, value in rows.items():
        click.echo(f"{name:<13}{value}")


class Display:
    """Progress: a live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self, console: Console, text: str, total: int | None = None) -> None:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self.console = console
        self.live = console.is_terminal
        self.seconds = 0.0
        """Wall clock from when Spark was up to the last micro-batch: listing, planning and waiting are part of it."""
        self.first: tuple[int, float] | None = None
        """Messages and seconds of the first micro-batch, in which everything is cold."""
        self._began = time.monotonic()
        self._printed = time.monotonic()
        bar = [BarColumn(bar_width=30)] if total else []
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *bar,
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self.live,
        )
        self._task = self._bar.add_task(text, total=total)
        if not self.live:
            self._plain(text)

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def spark_is_up(self, text: str) -> None:
        self._began = time.monotonic()
        self.say(text)

    def say(self, text: str) -> None:
        self._bar.update(self._task, description=text)
        if not self.live:
            self._plain(text)

    def on_batch(self, progress: Progress) -> None:
        if progress.replayed:
            return
        before, self.seconds = self.seconds, time.monotonic() - self._began
        total = progress.total
        self.first = self.first or (total.messages, self.seconds)
        rate = progress.counts.messages / max(self.seconds - before, 1e-6)
        text = (
            f"batch {progress.batch}: {total.messages:,} messages, {rate:,.0f}/s, "
            f"{total.matches:,} matches, {total.rejects:,} rejects"
        )
        self._bar.update(self._task, description=text, completed=total.messages)
        if not self.live and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._plain(text)

    def _plain(self, text: str) -> None:
        self._printed = time.monotonic()
        click.echo(text, err=True)
