"""``twigcast dead``: what could not be read or delivered, why, and another try."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twigcast.cli.configuration import config_option
from twigcast.cli.inputs import as_json
from twigcast.cli.options import format_option
from twigcast.cli.output import show as show_rows
from twigcast.errors import OptionError
from twigcast.units import format_time

if TYPE_CHECKING:
    from twigcast.config import Outline
    from twigcast.delivery.dead import DeadLetters, Letter

F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 2_000
"""Characters of an original that a terminal gets."""

EPILOG = """\b
Examples:
  twigcast dead list
  twigcast dead show 17
  twigcast dead show 17 --original > message.xml
  twigcast dead redrive 17 18
  twigcast dead redrive --all --sink hooks
"""


@click.group(epilog=EPILOG)
def dead() -> None:
    """List, show and redrive dead letters: messages, deliveries and subscriptions that failed."""


def _filters(command: F) -> F:
    kinds = click.Choice(["message", "delivery", "subscription"])
    command = click.option("--kind", type=kinds, help="Of this kind only.")(command)
    for name, metavar in (("reason", "CODE"), ("sink", "NAME"), ("stream", "NAME")):
        command = click.option(f"--{name}", metavar=metavar, help=f"Of this {name} only.")(command)
    return command


@dead.command("list", epilog="\b\nExample:\n  twigcast dead list --stream orders --format jsonl")
@_filters
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many.")
@click.option("--redriven", is_flag=True, help="Also those that were redriven.")
@format_option("jsonl", "table")
@config_option
def list_(config: Path, format: str, limit: int, redriven: bool, **filters: Any) -> None:
    """List dead letters, the newest first."""
    with _opened(config) as (_, letters):
        found = letters.letters(**filters, redriven=redriven, limit=limit) if letters else []
        rows = [_row(letter) for letter in found]
    if format == "table":
        rows = [{**row, "at": _place(row), "what": _what(row)} for row in rows]
    show_rows(format, rows, ("id", "created", "what", "message", "reason", "at", "attempts", "text"), "dead letters")


@dead.command(epilog="\b\nExample:\n  twigcast dead show 17")
@click.argument("id", type=int)
@click.option("--original", is_flag=True, help="Write the original bytes and nothing else.")
@config_option
def show(id: int, original: bool, config: Path) -> None:
    """Show a dead letter: everything known, and the message, or what was to be delivered."""
    with _opened(config) as (_, letters):
        letter = _letters(letters, config).letter(id)
        content = _letters(letters, config).original(id)
    if original:
        if content is None:
            raise OptionError("no-content", f"dead letter {id} has no content: it was never read")
        sys.stdout.buffer.write(content)
        return
    for name, value in _row(letter).items():
        if value not in (None, "", {}):
            click.echo(f"{name:13} {value if isinstance(value, (str, int)) else as_json(value)}")
    if content is not None:
        click.echo(f"{'bytes':13} {len(content):,}\n")
        click.echo(_text(content))


@dead.command(epilog="\b\nExamples:\n  twigcast dead redrive 17 18\n  twigcast dead redrive --all --reason webhook-age")
@click.argument("ids", nargs=-1, type=int)
@click.option("--all", "every", is_flag=True, help="All that fit the options.")
@_filters
@config_option
def redrive(ids: tuple[int, ...], every: bool, config: Path, **filters: Any) -> None:
    """Put dead letters back: a message into its stream, a delivery to its sink.

    A pipeline that runs takes them up within seconds, another one when it is run.
    """
    from twigcast.delivery.outbox import Outbox

    if bool(ids) == every:
        raise click.UsageError("give the ids of dead letters, or --all")
    if ids and any(value is not None for value in filters.values()):
        raise click.UsageError("ids and options that choose do not go together")
    with _opened(config) as (settings, letters):
        if every:
            _check_filters(letters, settings, filters)
        found = (
            letters.letters(**filters) if every and letters else [_letters(letters, config).letter(id) for id in ids]
        )
        if every and filters["kind"] is None:  # a failure of a subscription is nothing to put back
            found = [letter for letter in found if letter.kind != "subscription"]
        _check(found, settings)
        put = 0
        if found:
            with closing(Outbox(settings.state.outbox)) as outbox:
                for letter in reversed(found):
                    put += _put_back(letter, _letters(letters, config), outbox, settings, strict=not every)
    click.echo(f"{put:,} put back")


def _put_back(letter: Letter, letters: DeadLetters, outbox: Any, settings: Outline, strict: bool) -> bool:
    try:
        letters.redrive(letter, outbox, settings.state.path / "redrive")
        return True
    except OptionError as error:
        if strict:
            raise
        click.echo(str(error), err=True)
        return False


def _check_filters(letters: DeadLetters | None, settings: Outline, filters: dict[str, Any]) -> None:
    """Refuse a reason, stream or sink that is not there, rather than redrive nothing in silence."""
    counts = {} if letters is None else letters.counts()
    there = {
        "reason": {cause.reason for cause in counts},
        "stream": {cause.stream for cause in counts}.union(settings.streams),
        "sink": {cause.sink for cause in counts if cause.sink}.union(settings.sinks),
    }
    for name, known in there.items():
        wanted = filters[name]
        if wanted is not None and wanted not in known:
            hint = f"the {name}s are: {', '.join(sorted(known))}" if known else "there are no dead letters"
            raise OptionError(f"no-such-{name}", f"no dead letter has the {name} {wanted!r}", hint=hint)


def _check(found: list[Letter], settings: Outline) -> None:
    """Refuse dead letters that have nowhere to go, before anything moves."""
    for letter in found:
        if letter.kind == "subscription":
            continue
        if letter.kind == "message":
            known, what, name = settings.streams, "stream", letter.stream
        else:
            known, what, name = settings.sinks, "sink", letter.sink
        if name not in known:
            hint = f"it has: {', '.join(known)}"
            text = f"dead letter {letter.id} is of the {what} {name!r}, which the configuration does not have"
            raise OptionError(f"no-such-{what}", text, hint=hint)


@contextmanager
def _opened(config: Path) -> Iterator[tuple[Outline, DeadLetters | None]]:
    """Reading makes no database: it would hide that the configuration is not the one that runs."""
    from twigcast.config import outline
    from twigcast.delivery.dead import DeadLetters

    settings = outline(config)
    letters = DeadLetters(settings.state.dead) if settings.state.dead.exists() else None
    try:
        yield settings, letters
    finally:
        if letters is not None:
            letters.close()


def _letters(letters: DeadLetters | None, config: Path) -> DeadLetters:
    if letters is None:
        raise OptionError("no-such-letter", f"the pipeline of {config} has no dead letters")
    return letters


def _row(letter: Letter) -> dict[str, Any]:
    row = {name: getattr(letter, name) for name in letter.__slots__}
    row["time"] = None if letter.time is None else format_time(letter.time / 1e6)
    row["created"] = format_time(letter.created)
    row["redriven"] = None if letter.redriven is None else format_time(letter.redriven)
    return row


def _what(row: dict[str, Any]) -> str:
    """What a letter is of: its subscription, sink or stream."""
    return str(row["subscription"] if row["kind"] == "subscription" else row["sink"] or row["stream"])


def _place(row: dict[str, Any]) -> str:
    return "" if row["line"] is None else f"{row['line']}:{row['column']}"


def _text(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "base64: " + base64.b64encode(content).decode()
    text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[:SHOWN] + "…\n(--original writes all of it)"
