"""``twigcast validate``: are the messages well-formed, and if not, where and why."""

from __future__ import annotations

from typing import Any

import click

from twigcast import _kernel
from twigcast.cli.inputs import Message, Unreadable, as_json, expand, printable, read, refuse_stdin_twice
from twigcast.cli.options import format_option, limit_options, take_limits
from twigcast.cli.progress import Progress

EPILOG = """\b
Examples:
  twigcast validate message.xml
  twigcast validate --format jsonl inbox/ | grep false
  twigcast validate --max-depth 50 --max-bytes 1M upload.xml
\b
Exit status: 0 all are well-formed, 2 some are not or cannot be read.
"""


@click.command(epilog=EPILOG)
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@format_option("jsonl", "table")
@limit_options
@click.pass_context
def validate(ctx: click.Context, /, messages: tuple[str, ...], format: str, **limits: Any) -> None:
    """Check that each MESSAGE is well-formed XML 1.0 with namespaces, within the limits.

    A MESSAGE is a file, a folder (every file in it and below, sorted by name, hidden ones left out), or - for stdin.
    Nothing outside a message is opened: no DTD, no entity.
    """
    refuse_stdin_twice(*messages)
    bounds = take_limits(limits).as_dict()
    names = list(expand(messages))
    progress = Progress(len(names))
    bad = 0
    for message in read(names):
        error = _error_of(message, bounds)
        bad += error is not None
        said = f"{printable(message.name)}: ok" if error is None else f"{printable(message.name)}:{_text_of(error)}"
        if format == "jsonl":
            click.echo(as_json({"message": message.name, "ok": error is None, "error": error}))
            if error is not None:
                progress.say(said)
        else:
            progress.clear()
            click.echo(said)
        progress.advance(1)
    progress.clear()
    if format == "table":
        click.echo(f"{len(names) - bad:,} ok, {bad:,} not")
    ctx.exit(2 if bad else 0)


def _error_of(message: Message | Unreadable, limits: dict[str, int]) -> dict[str, str | int | None] | None:
    """Return what is wrong with a message, as a program reads it."""
    if isinstance(message, Unreadable):
        return {"code": "unreadable", "line": None, "column": None, "text": message.reason}
    error = _kernel.validate(message.data, limits)
    return error and dict(zip(("code", "line", "column", "text"), (error[0], *error[2:4], error[1]), strict=True))


def _text_of(error: dict[str, str | int | None]) -> str:
    place = " " if error["line"] is None else f"{error['line']}:{error['column']}: "
    return f"{place}{error['code']}: {error['text']}"
