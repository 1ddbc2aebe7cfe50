"""What commands print: rows as JSON Lines for programs or as tables for people, and errors on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.inputs import Unreadable, as_json, printable
from twigcast.cli.progress import Progress
from twigcast.errors import MessageError, TwigcastError

if TYPE_CHECKING:
    from twigcast.subscription import SubscriptionId

TABLE_ROWS = 1_000


# -- rows of any kind


def show(format: str, rows: Iterable[dict[str, Any]], columns: Sequence[str], what: str) -> None:
    """Print rows as JSON Lines, or the first of them as a table and how many there are."""
    if format == "jsonl":
        for row in rows:
            click.echo(as_json(row))
        return
    shown: list[list[str]] = []
    count = 0
    for row in rows:
        count += 1
        if count <= TABLE_ROWS:
            shown.append([_cell(row.get(column)) for column in columns])
    if count:
        print_table(columns, shown)
    if count > TABLE_ROWS:
        click.echo(f"… the first {TABLE_ROWS:,} of {count:,} {what}")
    else:
        click.echo(f"{count:,} {what}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table for people. Columns without names have no header."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=title, title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")  # a name cut short would no longer name its message
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


# -- errors


class Report:
    """Prints errors on stderr, counts them, and shows how far a command is."""

    def __init__(self, total: int | None = None) -> None:
        """Begin to count. ``total`` is the number of messages, None where nobody knows it beforehand."""
        self.progress = Progress(total)
        self.errors = 0
        self.matched = False
        """Whether some message matched."""

    def say(self, text: str) -> None:
        """Print an error."""
        self.errors += 1
        self.progress.say(text)

    def refused(self, name: str, error: TwigcastError) -> None:
        """Print why a message was refused."""
        colon = ":" if isinstance(error, MessageError) and error.line else ": "
        self.say(f"{printable(name)}{colon}{error}")

    def failed(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        """Print that a subscription could not be evaluated on a message."""
        self.say(f"{printable(name)}: {code}: subscription {printable(str(subscription))}: {printable(text)}")

    def unreadable(self, message: Unreadable) -> None:
        """Print that a message could not be read at all."""
        self.say(f"{printable(message.name)}: unreadable: {message.reason}")

    def finish(self) -> int:
        """Return the exit status of a command that matches."""
        self.progress.clear()
        return 2 if self.errors else 0 if self.matched else 1
