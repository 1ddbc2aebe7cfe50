"""What the commands on a subscription store share: ``--store``, and tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twigcast.cli.inputs import as_json

if TYPE_CHECKING:
    from twigcast.store import Store

F = TypeVar("F", bound=Callable[..., Any])

# As twigcast.store.urls has it; importing that for --help would load the database library.
DEFAULT_STORE = "sqlite:///twigcast.db"
TABLE_ROWS = 1_000


def store_option(command: F) -> F:
    return click.option(
        "--store",
        "url",
        envvar="TWIGCAST_STORE",
        default=DEFAULT_STORE,
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The subscription store: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE.",
    )(command)


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Store]:
    """Commands that only read or remove do not make a store: it would be an empty one, and hide a mistyped name."""
    from twigcast.store import Store

    with Store.open(url, create=create) as store:
        yield store


def show(format: str, rows: Iterable[dict[str, Any]], columns: Sequence[str], what: str) -> None:
    """Rows as JSON Lines, or the first of them as a table and how many there are."""
    if format == "jsonl":
        for row in rows:
            click.echo(as_json(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    count = 0
    for row in rows:
        count += 1
        if count <= TABLE_ROWS:
            table.add_row(*[Text(_cell(row.get(column))) for column in columns])
    if count:
        Console().print(table)
    if count > TABLE_ROWS:
        click.echo(f"… the first {TABLE_ROWS:,} of {count:,} {what}")
    else:
        click.echo(f"{count:,} {what}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)
