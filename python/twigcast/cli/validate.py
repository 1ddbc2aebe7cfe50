"""``twigcast validate``: are the messages well-formed, and if not, where and why."""

from __future__ import annotations

from dataclasses import dataclass

import click

from twigcast import _kernel
from twigcast.cli.inputs import Message, Unreadable, as_json, expand, printable, read
from twigcast.cli.options import format_option, limit_options, limits_from
from twigcast.cli.progress import Progress

EPILOG = """\b
Examples:
  twigcast validate message.xml
  twigcast validate --format jsonl inbox/ | grep false
  twigcast validate --max-depth 50 --max-bytes 1M upload.xml
\b
Exit status: 0 all are well-formed, 2 some are not or cannot be read.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    code: str | None = None
    text: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        name = printable(self.name)
        if self.code is None:
            return f"{name}: ok"
        place = name if self.line is None else f"{name}:{self.line}:{self.column}"
        return f"{place}: {self.code}: {self.text}"

    def json(self) -> str:
        if self.code is None:
            return as_json({"message": self.name, "ok": True, "error": None})
        error = {"code": self.code, "line": self.line, "column": self.column, "text": self.text}
        return as_json({"message": self.name, "ok": False, "error": error})


@click.command(epilog=EPILOG)
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@format_option("jsonl", "table")
@limit_options
@click.pass_context
def validate(ctx: click.Context, /, messages: tuple[str, ...], format: str, **limits: int | None) -> None:
    """Check that each MESSAGE is well-formed XML 1.0 with namespaces, within the limits.

    A MESSAGE is a file, a folder (every file in it and below, sorted by name, hidden ones left out), or - for stdin.
    Nothing outside a message is opened: no DTD, no entity.
    """
    if messages.count("-") > 1:
        raise click.UsageError("stdin (-) can be read once only")
    bounds = limits_from(limits).of_kernel()
    names = list(expand(messages))
    progress = Progress(len(names))
    bad = 0
    for message in read(names):
        verdict = _judge(message, bounds)
        bad += verdict.code is not None
        if format == "jsonl":
            click.echo(verdict.json())
            if verdict.code is not None:
                progress.say(str(verdict))
        else:
            progress.clear()
            click.echo(str(verdict))
        progress.advance(1)
    progress.clear()
    if format == "table":
        click.echo(f"{len(names) - bad:,} ok, {bad:,} not")
    ctx.exit(2 if bad else 0)


def _judge(message: Message | Unreadable, limits: dict[str, int]) -> Verdict:
    if isinstance(message, Unreadable):
        return Verdict(message.name, "unreadable", message.reason)
    error = _kernel.validate(message.data, limits)
    if error is None:
        return Verdict(message.name)
    code, text, line, column, _ = error
    return Verdict(message.name, code, text, line, column)
