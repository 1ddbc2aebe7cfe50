"""``twigcast run``: a pipeline of a configuration file, or the messages of a folder, through Spark, live or once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.configuration import DEFAULT_CONFIG, config_argument
from twigcast.cli.options import Duration, limit_options, limits_from, namespace_options
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.cli.signals import KILLED, Signals

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.spark import Counts, Progress

EPILOG = """\b
Examples:
  twigcast init && twigcast run pipeline.toml
  twigcast run pipeline.toml --once
  twigcast run pipeline.toml --master spark://host:7077 --shards 4
  twigcast run --inbox in --outbox out -s subscriptions.txt --once
  twigcast run --inbox in --outbox out -s subs.jsonl --ns atom=http://www.w3.org/2005/Atom
\b
With --inbox and --outbox, without a configuration:
OUTBOX/matches/*.jsonl   {"message": …, "subscription": …}
OUTBOX/dead/*.jsonl      {"message": …, "reason": …, "line": …, "column": …, "text": …, "original": …}
\b
Exit status: of a pipeline 0, or 2 if it failed or, with --once, deliveries still wait; of a folder 0 something
matched, 1 nothing did, 2 there are dead letters or the run failed. Ctrl-C and SIGTERM are how a live run ends, in good
order; with --once, while Spark starts, or a second time, the status is 130 or 143. The next run goes on there.
"""

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""


@click.command(epilog=EPILOG, short_help="Run a pipeline, or the messages of a folder, on Spark.")
@config_argument
@click.option("--inbox", type=click.Path(path_type=Path), help="Folder of messages, one per file.")
@click.option("--outbox", type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("-s", "--subscriptions", metavar="FILE", help="A .txt or .jsonl file; - for stdin.")
@click.option("--once", is_flag=True, help="End when the messages that are there now are done.")
@click.option("--trigger", type=Duration(), help="How often to look for new messages.  [default: 2s, or the file's]")
@click.option("--max-files", type=click.IntRange(min=1), help="Most messages per micro-batch.  [default: 5000]")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
@click.option("--master", help="Spark's master: spark://…, yarn, k8s://…  [default: local, or the file's]")
@click.option(
    "--shards", type=click.IntRange(min=1), help="Parts to split the subscriptions into.  [default: the file's]"
)
@click.option(
    "--log", "log_format", type=click.Choice(["text", "json"]), default="text", help="json: a line per event."
)
@click.option("--ui", is_flag=True, help="Also start Spark's web page, on http://localhost:4040.")
@namespace_options
@limit_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    config: Path | None,
    inbox: Path | None,
    outbox: Path | None,
    subscriptions: str | None,
    once: bool,
    trigger: float | None,
    max_files: int | None,
    cores: int | None,
    master: str | None,
    shards: int | None,
    log_format: str,
    ui: bool,
    namespaces: tuple[tuple[str, str], ...],
    **limits: int | None,
) -> None:
    """Run the pipeline of the configuration FILE: see docs/configuration.md, and `twigcast init` for one to start from.

    Subscriptions are those of the store, and may change while the pipeline runs: see `twigcast subscribe`. Ctrl-C
    finishes the micro-batch at hand and stops; the next run goes on there, after a crash too.

    With --inbox, match the messages of the folder INBOX against a file of SUBSCRIPTIONS. Every file of INBOX and
    below is one message; also .gz. Names that start with '.' or '_' or end in '.tmp' are left alone: write under such a
    name and rename when the file is complete. With the same OUTBOX the next run goes on where this one ended.
    """
    of_folder = inbox or outbox or subscriptions or max_files or namespaces or any(limits.values())
    if config is None and not of_folder and DEFAULT_CONFIG.is_file():
        config = DEFAULT_CONFIG
    if config is not None:
        if of_folder:
            text = "a configuration cannot be combined with --inbox, --outbox, -s, --ns or limits; set them in the file"
            raise click.UsageError(text)
        from twigcast.cli.run_pipeline import run_pipeline

        run_pipeline(
            config, once=once, interval=trigger, cores=cores, master=master, shards=shards, ui=ui, log_format=log_format
        )
        return
    if inbox is None or outbox is None or subscriptions is None:
        raise click.UsageError(f"there is no {DEFAULT_CONFIG}; give a configuration, or --inbox, --outbox and -s")
    if master or shards or log_format != "text":
        raise click.UsageError("--master, --shards and --log go with a configuration file")
    counts, seconds, received = _run_folder(
        inbox, outbox, subscriptions, once, trigger or 2.0, max_files, cores, ui, dict(namespaces), limits
    )
    summary(counts, seconds, outbox)
    if once and received:
        ctx.exit(KILLED + received[0])
    ctx.exit(2 if counts.rejects or counts.failures else 0 if counts.matches else 1)


def _run_folder(
    inbox: Path,
    outbox: Path,
    subscriptions: str,
    once: bool,
    trigger: float,
    max_files: int | None,
    cores: int | None,
    ui: bool,
    namespaces: dict[str, str],
    limits: dict[str, int | None],
) -> tuple[Counts, float, list[int]]:
    """Run the messages of a folder; return what was counted, the seconds it took, and the signals received."""
    from rich.console import Console

    from twigcast.spark import session
    from twigcast.spark.inbox import MAX_FILES, run_directory
    from twigcast.subscriptions import compile_file

    screen = Console(stderr=True)
    file = read_file(subscriptions)
    engine = compile_file(file, namespaces=namespaces, limits=limits_from(limits))
    warn_of_never(file, namespaces)
    stop = threading.Event()
    with (
        Display(screen, f"starting Spark, {len(engine):,} subscriptions") as display,
        Signals(stop, display.say) as signals,
    ):

        def start() -> Any:
            log = outbox / "_checkpoint" / "spark.log"
            started = signals.start(lambda: session(app="twigcast run", cores=cores, ui=ui, quick=once, log=log))
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
    return counts, display.seconds, signals.received


def summary(counts: Counts, seconds: float, outbox: Path) -> None:
    """Print what a run did, for people."""
    rate = f"{counts.messages / seconds:,.0f} messages/s" if seconds else "-"
    rows = {
        "messages": f"{counts.messages:,} ({counts.bytes / 1e6:,.1f} MB)",
        "matches": f"{counts.matches:,}",
        "dead letters": f"{counts.rejects:,}" + (f" ({outbox / 'dead'})" if counts.rejects or counts.failures else ""),
        "time": f"{seconds:.1f} s ({rate})",
        "results": f"{outbox / 'matches'}",
    }
    if counts.failures:
        rows["failures"] = f"{counts.failures:,} of single subscriptions"
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
        before, self.seconds = self.seconds, time.monotonic() - self._began
        total = progress.total
        self.first = self.first or (total.messages, self.seconds)
        rate = progress.counts.messages / max(self.seconds - before, 1e-6)
        text = (
            f"batch {progress.batch}: {total.messages:,} messages, {rate:,.0f}/s, "
            f"{total.matches:,} matches, {total.rejects:,} dead letters"
        )
        self.advance(text, total.messages)

    def advance(self, text: str, completed: int) -> None:
        self._bar.update(self._task, description=text, completed=completed)
        if not self.live and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._plain(text)

    def _plain(self, text: str) -> None:
        self._printed = time.monotonic()
        click.echo(text, err=True)
