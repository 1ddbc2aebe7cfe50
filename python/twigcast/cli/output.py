"""What commands print: JSON Lines for programs, tables for people, times in ISO 8601 with their zone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from twigcast.cli.inputs import as_json

TABLE_ROWS = 1_000


def show(format: str, rows: Iterable[dict[str, Any]], columns: Sequence[str], what: str) -> None:
    """Print rows as JSON Lines, or the first of them as a table and how many there are."""
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
