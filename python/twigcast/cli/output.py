"""What commands print: JSON Lines for programs, tables for people, errors on stderr.

`match` prints through this module whatever it matches with: the engine, streams, large files or a database.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import click

from twigcast.cli.inputs import Message, Unreadable, as_json, printable
from twigcast.cli.progress import Progress
from twigcast.results import Match, Selected

if TYPE_CHECKING:
    import pyarrow as pa

    from twigcast.ids import SubscriptionId
    from twigcast.subscriptions import SubscriptionFile

TABLE_ROWS = 1_000
CELL = 200
"""Characters of what a subscription selects that a table shows."""


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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # a name cut short would no longer name its message
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


# -- matches


class Output(Protocol):
    """Takes the matches of messages, and failures of subscriptions, in the order in which they are printed."""

    def add(self, match: Match) -> None:
        """Print a match."""

    def add_batch(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        """Print the matches and failures of a batch, as an engine returns it. ``names``: of the messages."""

    def fail(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        """Print that a subscription could not be evaluated on a message."""

    def close(self) -> None:
        """Print what has been held back."""


Queries = Callable[[Sequence["SubscriptionId"]], Mapping["SubscriptionId", str]]
"""Returns the queries of subscriptions by their ids."""


def output_of(format: str, file: SubscriptionFile | None, progress: Progress, queries: Queries | None = None) -> Output:
    """Return the writer for a format. ``queries`` is needed if subscriptions are not from a file."""
    if format == "jsonl":
        return Jsonl(file, progress)
    if queries is None:
        assert file is not None
        known = {one.id: one.query for one in file.subscriptions}
        queries = lambda ids: known  # noqa: E731
    return Table(file, queries)


def match_of(name: str, found: Selected) -> Match:
    """Return what an engine found for a message as a match."""
    return Match(name, found.id, None, found.nodes, found.fragments, found.complete, found.payload, reason=found.reason)


def fields_of(match: Match) -> dict[str, Any]:
    """Return a match as the object that a line of JSON holds."""
    if match.messages is not None:
        fields: dict[str, Any] = {"subscription": match.subscription, "messages": list(match.messages)}
    else:
        fields = {"message": match.message, "subscription": match.subscription}
    if match.nodes is not None:
        fields["nodes"] = match.nodes
    if match.fragments is not None:
        fields["fragments"] = [fragment.decode() for fragment in match.fragments]
    if match.payload is not None:
        fields["payload"] = match.payload.decode()
    if not match.complete:
        fields["complete"] = False
    if match.reason is not None:
        fields["reason"] = match.reason
    return fields


class _Writer:
    """What both formats do with batches: turn rows into matches, one by one."""

    def __init__(self, file: SubscriptionFile | None) -> None:
        self._ids = [] if file is None else [one.id for one in file.subscriptions]

    def add(self, match: Match) -> None:
        raise NotImplementedError

    def fail(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        raise NotImplementedError

    def add_batch(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        for match in self._matches_of(names, result):
            self.add(match)
        self._add_failures(names, result)

    def _matches_of(self, names: Sequence[str], result: pa.RecordBatch) -> Iterator[Match]:
        for name, found in zip(names, result.column("matches"), strict=True):
            for one in found.as_py():
                if isinstance(one, int):
                    yield Match(name, self._ids[one])
                else:
                    yield Match(name, self._ids[one.pop("subscription")], **one)

    def _add_failures(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        failures = result.column("failures")
        if failures.null_count == len(failures):
            return
        for name, failed in zip(names, failures.to_pylist(), strict=True):
            for one in failed or ():
                self.fail(name, self._ids[one["subscription"]], one["code"], one["text"])


class Jsonl(_Writer):
    """Prints one object per line, for programs."""

    ROWS = 1 << 18
    """Lines that are put together at a time."""

    def __init__(self, file: SubscriptionFile | None, progress: Progress) -> None:
        super().__init__(file)
        self._progress = progress
        self._ends: pa.Array | None = None

    def add(self, match: Match) -> None:
        self._write(fields_of(match))

    def fail(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        self._write({"message": name, "subscription": subscription, "failure": {"code": code, "text": text}})

    def _write(self, fields: dict[str, Any]) -> None:
        if sys.stdout.isatty():
            self._progress.clear()
        sys.stdout.buffer.write(f"{as_json(fields)}\n".encode())

    def add_batch(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        import pyarrow as pa

        if pa.types.is_struct(result.column("matches").type.value_type):
            super().add_batch(names, result)
        else:
            self._add_numbers(names, result.column("matches"))
            self._add_failures(names, result)

    def _add_numbers(self, names: Sequence[str], matches: pa.ListArray) -> None:
        """Print mere matches. Arrow puts the lines together: a message may match every subscription."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._ends is None:
            self._ends = pa.array([f"{as_json(id)}}}\n" for id in self._ids], pa.large_string())
        starts = pa.array([f'{{"message": {as_json(name)}, "subscription": ' for name in names], pa.large_string())
        nothing = pa.scalar("", pa.large_string())
        rows, numbers = pc.list_parent_indices(matches), matches.flatten()
        if len(numbers) and sys.stdout.isatty():
            self._progress.clear()
        for at in range(0, len(numbers), self.ROWS):
            some = starts.take(rows.slice(at, self.ROWS)), self._ends.take(numbers.slice(at, self.ROWS))
            lines = pc.binary_join_element_wise(*some, nothing)
            sys.stdout.buffer.write(memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()])

    def close(self) -> None:
        sys.stdout.flush()


class Table(_Writer):
    """Prints the first matches with their queries, and how many more there are, for people."""

    def __init__(self, file: SubscriptionFile | None, queries: Queries) -> None:
        super().__init__(file)
        self._queries = queries
        self._rows: list[tuple[str, SubscriptionId, str]] = []
        self._matches = 0

    def add(self, match: Match) -> None:
        self._matches += 1
        if len(self._rows) < TABLE_ROWS:
            messages = match.messages if match.messages is not None else (match.message,)
            self._rows.append((", ".join(map(str, messages)), match.subscription, _selected(match)))

    def add_batch(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        # What has no place in the table is only counted: a message may match every subscription.
        before = self._matches
        for match in islice(self._matches_of(names, result), TABLE_ROWS - len(self._rows)):
            self.add(match)
        self._matches = before + len(result.column("matches").flatten())

    def fail(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        """Print nothing: failures are on stderr."""

    def close(self) -> None:
        if not self._rows:
            click.echo("no matches")
            return
        queries = self._queries([id for _, id, _ in self._rows])
        selects = any(selected for _, _, selected in self._rows)
        rows = [(name, str(id), queries[id], *([selected] if selects else [])) for name, id, selected in self._rows]
        print_table(("message", "subscription", "query", *(["selected"] if selects else [])), rows)
        if self._matches > len(self._rows):
            click.echo(f"… and {self._matches - len(self._rows):,} more; --format jsonl has all of them")


def _selected(match: Match) -> str:
    """Return what a match gives, cut to the width of a cell."""
    if match.payload is not None:
        text = match.payload.decode()
    elif match.fragments is not None:
        text = " ".join(fragment.decode() for fragment in match.fragments)
    else:
        text = " ".join(map(str, match.nodes or ()))
    return text if len(text) <= CELL and match.complete else text[:CELL] + "…"


# -- errors


class Report:
    """Prints errors on stderr, and counts them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.errors = 0

    def say(self, text: str) -> None:
        """Print an error."""
        self.errors += 1
        self._progress.say(text)

    def refused(self, name: str, code: str, text: str, line: int, column: int) -> None:
        """Print why a message was refused."""
        self.say(f"{printable(name)}:{line}:{column}: {code}: {text}")

    def failed(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        """Print that a subscription could not be evaluated on a message."""
        self.say(f"{printable(name)}: {code}: subscription {printable(str(subscription))}: {printable(text)}")

    def unreadable(self, messages: Iterable[Message | Unreadable]) -> None:
        """Print which messages could not be read at all."""
        for message in messages:
            if isinstance(message, Unreadable):
                self.say(f"{printable(message.name)}: unreadable: {message.reason}")


def status_of(report: Report, matched: bool) -> int:
    """Return the exit status of a command that matches."""
    return 2 if report.errors else 0 if matched else 1
