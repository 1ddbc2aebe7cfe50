"""``twigcast run``: a pipeline of a configuration file, or of a folder of messages, live or once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.configuration import DEFAULT_CONFIG, config_argument
from twigcast.cli.options import Duration, Parsed, limit_options, namespace_options, take_given_limits
from twigcast.cli.queries import read_file
from twigcast.cli.signals import KILLED, Signals
from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    from twigcast.cli.folders import Folders
    from twigcast.config import Pipeline
    from twigcast.spark.pipeline import Run

EPILOG = """\b
Examples:
  twigcast init && twigcast run pipeline.toml
  twigcast run pipeline.toml --once
  twigcast run pipeline.toml --master spark://host:7077 --shards 4
  twigcast run --inbox in --outbox out -s subscriptions.txt --once
  twigcast run --inbox in --outbox out -s subs.jsonl --ns atom=http://www.w3.org/2005/Atom
  twigcast run --inbox orders=in/ --inbox payments=paid/ --time '/*/@at' --outbox out -s correlations.jsonl
\b
With --inbox and --outbox, without a configuration:
OUTBOX/matches/_/DATE/*.jsonl      {…, "message": …, "subscription": …, …, "content": …}, where content is what the
                                   subscription asks for, if it is not the message itself
OUTBOX/_checkpoint/pipeline.toml   the configuration, for `twigcast status` and `twigcast dead list`
\b
Exit status: of a pipeline 0, or 2 if it failed or, with --once, deliveries still wait; of a folder also 1 if nothing
matched, and 2 if there are dead letters. Ctrl-C and SIGTERM are how a live run ends, in good order; with --once, while
Spark starts, or a second time, the status is 130 or 143. The next run goes on there.
"""


def _inbox(text: str) -> tuple[str, Path]:
    from twigcast.cli.folders import INBOX

    name, equals, folder = text.partition("=")
    if not equals or "/" in name or Path(text).is_dir():
        return INBOX, Path(text)
    if not name or not folder:
        raise ValueError("must be FOLDER or NAME=FOLDER")
    return name, Path(folder)


Inbox = Parsed("[name=]folder", _inbox)
"""A folder, with the name of its stream before it, or without."""


@click.command(epilog=EPILOG, short_help="Run a pipeline, or the messages of a folder, on Spark.")
@config_argument
@click.option(
    "--inbox",
    "inboxes",
    type=Inbox,
    multiple=True,
    metavar="[NAME=]DIR",
    help="Folder of messages, one per file; several times, each with the name of its stream.",
)
@click.option("--outbox", type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("-s", "--subscriptions", metavar="FILE", help="A .txt or .jsonl file; - for stdin.")
@click.option("--time", metavar="PATH", help="Where a message of an inbox tells its time.  [default: its arrival]")
@click.option(
    "--lateness", type=Duration, metavar="TIME", help="Correlations leave out messages that are late by more."
)
@click.option("--once", is_flag=True, help="End when the messages that are there now are done.")
@click.option(
    "--trigger", "interval", type=Duration, help="How often to look for new messages.  [default: 2s, or the file's]"
)
@click.option("--max-files", type=click.IntRange(min=1), help="Most messages per micro-batch.  [default: 5000]")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
@click.option("--master", help="Spark's master: spark://…, yarn, k8s://…  [default: local, or the file's]")
@click.option(
    "--shards", type=click.IntRange(min=1), help="Parts to split the subscriptions into.  [default: 1, or the file's]"
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
    inboxes: tuple[tuple[str, Path], ...],
    outbox: Path | None,
    subscriptions: str | None,
    time: str | None,
    lateness: float | None,
    max_files: int | None,
    namespaces: dict[str, str],
    **settings: Any,
) -> None:
    """Run the pipeline of the configuration FILE: see docs/configuration.md, and `twigcast init` for one to start from.

    Subscriptions are those of the store, and may change while the pipeline runs: see `twigcast subscribe`. Ctrl-C
    finishes the micro-batch at hand and stops; the next run goes on there, after a crash too.

    With --inbox, match the messages of the folder INBOX against a file of SUBSCRIPTIONS. Every file of INBOX and
    below is one message; also .gz. Names that start with '.' or '_' or end in '.tmp' are left alone: write under such a
    name and rename when the file is complete. With the same OUTBOX the next run goes on where this one ended.
    """
    limits = take_given_limits(settings)
    run: Callable[..., Run] = partial(run_pipeline, **settings)
    own = (inboxes, outbox, subscriptions, time, lateness, max_files, namespaces, limits)
    of_folder = any(value not in (None, (), {}) for value in own)
    if config is None and not of_folder and DEFAULT_CONFIG.is_file():
        config = DEFAULT_CONFIG
    if config is not None:
        if of_folder:
            text = "a configuration cannot be combined with --inbox, --outbox, -s, --ns or limits; set them in the file"
            raise click.UsageError(text)
        from twigcast.config import load

        run(config, load(config))
        return
    if not inboxes or outbox is None or subscriptions is None:
        raise click.UsageError(f"there is no {DEFAULT_CONFIG}; give a configuration, or --inbox, --outbox and -s")
    if len(dict(inboxes)) < len(inboxes):
        raise click.UsageError("name each of several streams: --inbox S=DIR --inbox T=DIR")
    from twigcast.cli.folders import Folders

    folders = Folders(dict(inboxes), outbox, read_file(subscriptions), namespaces)
    text = folders.configuration(lateness=lateness, limits=limits, time=time, max_files=max_files)
    done = run(folders.file, folders.settings(text), prepare=partial(folders.prepare, text))
    ctx.exit(_told(done, folders))


def _told(run: Run, folders: Folders) -> int:
    """Say where the results of a folder are, and return the exit status."""
    total = run.total
    click.echo(f"results: {folders.matches}", err=True)
    if total.rejects or total.failures:
        click.echo(f"dead letters: twigcast dead list -c {folders.file}", err=True)
        return 2
    return 0 if total.deliveries else 1


def run_pipeline(
    path: Path,
    settings: Pipeline,
    *,
    once: bool,
    interval: float | None,
    cores: int | None,
    master: str | None,
    shards: int | None,
    ui: bool,
    log_format: str,
    prepare: Callable[[], None] | None = None,
) -> Run:
    """Run a pipeline, show how it goes, and return it; ``path`` is the file of its configuration."""
    from rich.console import Console

    from twigcast.cli.screen import JsonLines, Screen
    from twigcast.cli.status import summary_of
    from twigcast.spark.pipeline import Run, pipeline_session
    from twigcast.spark.watch import Observers

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
            log = settings.state.path / "spark.log"
            return signals.start(
                lambda: pipeline_session(settings, master=master, cores=cores, ui=ui, once=once, log=log)
            )

        watch = observers.watch(screen.watch())
        run = Run(settings, spark=start, once=once or None, shards=shards, watch=watch, stop=stop, prepare=prepare)
        run()
    if not as_json and screen.last is not None:
        for line in summary_of(screen.last):
            click.echo(line, err=True)
    if run.once and signals.received:
        click.echo("stopped before all was done; the next run goes on there", err=True)
        raise click.exceptions.Exit(KILLED + signals.received[0])
    if not run.drained:
        raise undelivered(run.undelivered, path)
    return run


def undelivered(counts: dict[str, int], path: Path) -> TwigcastError:
    """Return the error that says how many deliveries wait, by sink."""
    sinks = ", ".join(f"{sink} {count:,}" for sink, count in counts.items())
    text = f"{sum(counts.values()):,} deliveries wait" + (f": {sinks}" if sinks else "")
    hint = f"twigcast status {path} shows why; nothing is lost: the next run goes on there"
    return TwigcastError("undelivered", text, hint=hint)
