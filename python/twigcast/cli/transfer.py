"""``twigcast import`` and ``twigcast export``: subscriptions as JSON Lines."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import click

from twigcast.cli.configuration import opened, store_option
from twigcast.cli.progress import Progress
from twigcast.cli.queries import allow_never_option
from twigcast.errors import OptionError
from twigcast.subscriptions import SHOWN

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
def import_(
    ctx: click.Context, /, file: str, replace: bool, add_subscribers: bool, allow_never: bool, url: str
) -> None:
    """Store the subscriptions of FILE, - for stdin: all of them or, if one cannot be accepted, none.

    Subscriptions that no message can match are listed and left out; the others are stored.
    """
    from twigcast.store import Imported, import_jsonl

    progress = Progress(None, "lines")

    def take_in(lines: BinaryIO) -> Imported:
        with opened(url, create=True) as store:
            return import_jsonl(
                store,
                lines,
                name=file,
                replace=replace,
                add_subscribers=add_subscribers,
                allow_never=allow_never,
                on_progress=lambda lines: progress.advance(lines - progress.done),
            )

    try:
        if file == "-":
            done = take_in(sys.stdin.buffer)
        else:
            with Path(file).open("rb") as lines:
                done = take_in(lines)
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
