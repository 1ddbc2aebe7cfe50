"""``twigcast import`` and ``twigcast export``: subscriptions as JSON Lines."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import click

from twigcast.cli.configuration import opened, store_option
from twigcast.cli.progress import Progress
from twigcast.cli.queries import allow_never_option
from twigcast.engine.files import SHOWN
from twigcast.errors import OptionError

LINES = 1 << 14

FORMAT = """\b
A line is an object; only "query" is required, and without an "id" the number of the line is the id:
  {"id": "a7", "subscriber": "alice", "query": "/a/b", "namespaces": {"p": "uri"}, "default_namespace": "uri",
   "dialect": "w3c", "result": "match", "stream": "orders", "max_delay": "5 minutes", "deliver_empty": false,
   "state": "active"}
"""


@click.command(
    "import",
    epilog=f"""\b
Examples:
  twigcast import subscriptions.jsonl
  zcat backup.jsonl.gz | twigcast import --replace --add-subscribers -
{FORMAT}\b
Exit status: 0 all are stored, 1 some were left out because they never match, 2 there was an error and none is stored.
""",
)
@click.argument("file")
@click.option("--replace", is_flag=True, help="Put subscriptions in the place of those with the same ids.")
@click.option("--add-subscribers", is_flag=True, help="Add subscribers that are not in the store.")
@allow_never_option
@store_option
@click.pass_context
def import_(ctx: click.Context, /, file: str, url: str, **options: bool) -> None:
    """Store the subscriptions of FILE, - for stdin: all of them or, if one cannot be accepted, none.

    Subscriptions that no message can match are listed and left out; the others are stored.
    """
    from twigcast.store import import_jsonl

    progress = Progress(None, "lines")

    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as lines, opened(url, create=True) as store:
            on_progress = lambda lines: progress.advance(lines - progress.done)  # noqa: E731
            done = import_jsonl(store, lines, name=file, on_progress=on_progress, **options)
    except OSError as error:
        raise OptionError("unreadable", f"{file}: {error.strerror}") from error
    progress.clear()
    for line, why in done.never_lines[:SHOWN]:
        click.echo(f"{file}:{line}: {why}", err=True)
    if done.never > SHOWN:
        click.echo(f"{file}: … and {done.never - SHOWN:,} more that never match", err=True)
    told = [f"{done.added:,} added"]
    told += [f"{done.replaced:,} replaced"] if done.replaced else []
    told += [f"{done.unchanged:,} unchanged"] if done.unchanged else []
    told += [f"{done.subscribers:,} subscribers added"] if done.subscribers else []
    told += [f"{done.never:,} left out that never match (--allow-never-matches stores them)"] if done.never else []
    click.echo(f"{', '.join(told)}; version {done.version}", err=True)
    ctx.exit(1 if done.never else 0)


@click.command(
    epilog=f"""\b
Examples:
  twigcast export > subscriptions.jsonl
  twigcast export --store postgresql://me@db/twigcast | gzip > backup.jsonl.gz
{FORMAT}"""
)
@store_option
def export(url: str) -> None:
    """Write all subscriptions as JSON Lines, by id, as they are at one moment; import reads them back.

    Subscribers' names and targets, which may hold secrets, are not written.
    """
    from twigcast.store import export_jsonl

    with opened(url) as store:
        lines = export_jsonl(store)
        while some := list(islice(lines, LINES)):
            sys.stdout.buffer.write(("\n".join(some) + "\n").encode())
    sys.stdout.flush()
