"""How `match` prints matches, whatever it matches with: the engine, streams, large files or a database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.inputs import as_json
from twigcast.cli.output import TABLE_ROWS, Report, print_table
from twigcast.engine.results import Match, Selected
from twigcast.rows import error_of_row
from twigcast.subscription import SubscriptionId

if TYPE_CHECKING:
    import pyarrow as pa

    from twigcast.engine.files import SubscriptionFile

CELL = 200
"""Characters of what a subscription selects that a table shows."""

Queries = Callable[[Sequence[SubscriptionId]], Mapping[SubscriptionId, str]]
"""Returns the queries of subscriptions by their ids."""


def output_of(
    format: str, file: SubscriptionFile | None, total: int | None = None, queries: Queries | None = None
) -> Output:
    """Return the output in a format for ``total`` messages. ``queries`` is needed if subscriptions have no file."""
    ids = [] if file is None else [one.id for one in file.subscriptions]
    if format == "jsonl":
        return Jsonl(ids, total)
    if queries is None:
        assert file is not None
        known = {one.id: one.query for one in file.subscriptions}
        queries = lambda ids: known  # noqa: E731
    return Table(ids, total, queries)


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


class Output(Report):
    """Prints matches too, in the order in which they come. ``ids``: of the subscriptions by their numbers."""

    def __init__(self, ids: Sequence[SubscriptionId], total: int | None) -> None:
        super().__init__(total)
        self._ids = ids

    def add(self, match: Match) -> None:
        """Print a match."""
        self.matched = True

    def add_batch(self, names: Sequence[str], result: pa.RecordBatch) -> None:
        """Print the matches of a batch, as an engine returns it, then errors and failures. ``names``: of messages."""
        self._add_matches(names, result.column("matches"))
        self._add_problems(names, result.column("error"), result.column("failures"))

    def _add_matches(self, names: Sequence[str], matches: pa.ListArray) -> None:
        for match in self._matches_of(names, matches):
            self.add(match)

    def _matches_of(self, names: Sequence[str], matches: pa.ListArray) -> Iterator[Match]:
        for name, found in zip(names, matches, strict=True):
            for one in found.as_py():
                if isinstance(one, int):
                    yield Match(name, self._ids[one])
                else:
                    yield Match(name, self._ids[one.pop("subscription")], **one)

    def _add_problems(self, names: Sequence[str], errors: pa.StructArray, failures: pa.ListArray) -> None:
        if errors.null_count == len(errors) and failures.null_count == len(failures):
            return
        for name, error, failed in zip(names, errors.to_pylist(), failures.to_pylist(), strict=True):
            if error is not None:
                self.refused(name, error_of_row(error))
            for one in failed or ():
                self.failed(name, self._ids[one["subscription"]], one["code"], one["text"])


class Jsonl(Output):
    """Prints one object per line, for programs."""

    ROWS = 1 << 18
    """Lines that are put together at a time."""

    _ends: pa.Array | None = None

    def add(self, match: Match) -> None:
        super().add(match)
        self._write(fields_of(match))

    def failed(self, name: str, subscription: SubscriptionId, code: str, text: str) -> None:
        super().failed(name, subscription, code, text)
        self._write({"message": name, "subscription": subscription, "failure": {"code": code, "text": text}})

    def _write(self, fields: dict[str, Any]) -> None:
        if sys.stdout.isatty():
            self.progress.clear()
        sys.stdout.buffer.write(f"{as_json(fields)}\n".encode())

    def _add_matches(self, names: Sequence[str], matches: pa.ListArray) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_struct(matches.type.value_type):
            super()._add_matches(names, matches)
            return
        # Arrow puts the lines of mere matches together: a message may match every subscription.
        if self._ends is None:
            self._ends = pa.array([f"{as_json(id)}}}\n" for id in self._ids], pa.large_string())
        starts = pa.array([f'{{"message": {as_json(name)}, "subscription": ' for name in names], pa.large_string())
        nothing = pa.scalar("", pa.large_string())
        rows, numbers = pc.list_parent_indices(matches), matches.flatten()
        self.matched |= len(numbers) > 0
        if len(numbers) and sys.stdout.isatty():
            self.progress.clear()
        for at in range(0, len(numbers), self.ROWS):
            some = starts.take(rows.slice(at, self.ROWS)), self._ends.take(numbers.slice(at, self.ROWS))
            lines = pc.binary_join_element_wise(*some, nothing)
            sys.stdout.buffer.write(memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()])

    def finish(self) -> int:
        sys.stdout.flush()
        return super().finish()


class Table(Output):
    """Prints the first matches with their queries, and how many more there are, for people."""

    def __init__(self, ids: Sequence[SubscriptionId], total: int | None, queries: Queries) -> None:
        super().__init__(ids, total)
        self._queries = queries
        self._rows: list[tuple[str, SubscriptionId, str]] = []
        self._matches = 0

    def add(self, match: Match) -> None:
        super().add(match)
        self._matches += 1
        if len(self._rows) < TABLE_ROWS:
            messages = match.messages if match.messages is not None else (match.message,)
            self._rows.append((", ".join(map(str, messages)), match.subscription, _selected(match)))

    def _add_matches(self, names: Sequence[str], matches: pa.ListArray) -> None:
        # What has no place in the table is only counted: a message may match every subscription.
        after = self._matches + len(matches.flatten())
        for match in islice(self._matches_of(names, matches), TABLE_ROWS - len(self._rows)):
            self.add(match)
        self._matches = after

    def finish(self) -> int:
        self.progress.clear()
        if not self._rows:
            click.echo("no matches")
            return super().finish()
        queries = self._queries([id for _, id, _ in self._rows])
        selects = any(selected for _, _, selected in self._rows)
        rows = [(name, str(id), queries[id], *([selected] if selects else [])) for name, id, selected in self._rows]
        print_table(("message", "subscription", "query", *(["selected"] if selects else [])), rows)
        if self._matches > len(self._rows):
            click.echo(f"… and {self._matches - len(self._rows):,} more; --format jsonl has all of them")
        return super().finish()


def _selected(match: Match) -> str:
    """Return what a match gives, cut to the width of a cell."""
    if match.payload is not None:
        text = match.payload.decode()
    elif match.fragments is not None:
        text = " ".join(fragment.decode() for fragment in match.fragments)
    else:
        text = " ".join(map(str, match.nodes or ()))
    return text if len(text) <= CELL and match.complete else text[:CELL] + "…"
