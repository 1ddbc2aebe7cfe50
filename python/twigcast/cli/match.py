"""``twigcast match``: messages against subscriptions, on this machine, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Protocol

import click
import pyarrow as pa
import pyarrow.compute as pc

from twigcast.chunk.run import Options, cores
from twigcast.cli.correlate import Streams, compile_broker, correlation_options, match_streams, reads_streams
from twigcast.cli.inputs import Message, Unreadable, as_json, batches, expand, printable, read
from twigcast.cli.large import ABOVE, LargeFiles, complaints, is_large
from twigcast.cli.options import (
    OneOf,
    Size,
    format_option,
    limit_options,
    limits_from,
    mode_option,
    namespace_options,
    predicates_option,
)
from twigcast.cli.plans import NAMES, plan_options
from twigcast.cli.progress import Progress
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.cli.relational import check_options, engine_options, match_relational
from twigcast.cli.selected import SelectedJsonl, failed_line, numbers_of, summary, write_failures
from twigcast.engine import Engine
from twigcast.lang.flwr import is_transform
from twigcast.results import RESULTS
from twigcast.subscriptions import SubscriptionFile, compile_file

TABLE_ROWS = 1_000

EPILOG = """\b
Examples:
  twigcast match -s subscriptions.txt messages/
  twigcast match -s subs.jsonl --ns a=http://www.w3.org/2005/Atom feed.xml other.xml
  curl -s https://example.org/feed | twigcast match -s subscriptions.txt -
  twigcast match -s correlations.jsonl --stream S --time '/*/@t' messages/
  twigcast match -s correlations.jsonl --stream payments=in/ --stream returns=back/ --time //CreDtTm
  twigcast match --engine relational --database duckdb:///rules.db messages/
\b
SUBSCRIPTIONS is a file of one of two kinds:
  .txt     one query per line; its id is the number of the line. Blank lines and # comments are skipped.
  .jsonl   one object per line, as `twigcast export` writes it: {"id": …, "query": …, "namespaces": {"p": "uri"},
           "default_namespace": "uri", "dialect": "w3c" | "tian", "result": "match" | "nodes" | "fragments",
           "deliver_empty": true | false, "stream": "name"}. Paused subscriptions are left out.
\b
A subscription that fails on a message is told on stderr, and as {"message": …, "subscription": …, "failure": {"code":
…, "text": …}}; the others are matched nevertheless.
\b
Exit status: 0 something matched, 1 nothing did, 2 there was an error (other messages are matched nevertheless).
"""


class Output(Protocol):
    def add(self, names: list[str], result: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


@click.command(epilog=EPILOG)
@click.option("-s", "--subscriptions", metavar="FILE", help="The subscriptions; - for stdin.")
@click.argument("messages", nargs=-1, metavar="MESSAGE...")
@click.option(
    "--result",
    type=OneOf(RESULTS),
    default=RESULTS[0],
    show_default=True,
    help="What to tell of a match: nothing more, the ids of the selected nodes, or these nodes as XML.",
)
@click.option(
    "--chunk-above",
    type=Size(),
    default=ABOVE,
    metavar="N",
    help=f"Files with more bytes, and compressed ones, are matched in parts (twigcast chunk).  [default: {ABOVE}]",
)
@format_option("jsonl", "table")
@correlation_options
@namespace_options
@mode_option
@predicates_option
@plan_options
@engine_options
@limit_options
@click.pass_context
def match(
    ctx: click.Context,
    /,
    subscriptions: str | None,
    messages: tuple[str, ...],
    result: str,
    chunk_above: int,
    format: str,
    stream: tuple[str, ...],
    time: str | None,
    strategy: str,
    lateness: float | None,
    namespaces: tuple[tuple[str, str], ...],
    mode: str,
    predicates: str,
    engine: str,
    database: str | None,
    plan: str | None,
    unroll: int,
    buckets: int,
    references: tuple[str, ...],
    **others: Any,
) -> None:
    """Match each MESSAGE against all subscriptions.

    A MESSAGE is a file, a folder (every file in it and below, sorted by name, hidden ones left out), or - for stdin.
    Matches come out by message, in the order given, then by subscription, in the order of the file.

    With correlations among the subscriptions, or with --stream or --time, the messages are streams in event time: they
    are taken in the order of their times (with --lateness, in the order given). What a message completes comes after
    its matches.
    """
    streams = Streams.of(ctx, messages, stream, time, lateness)
    messages = streams.names
    if (subscriptions, *messages).count("-") > 1:
        raise click.UsageError("stdin (-) can be read once only")
    check_options(engine, database=database, plan=plan, reference=references)
    plans = {name: others.pop(name) for name in NAMES}
    options: dict[str, Any]
    if engine == "relational":
        if streams.are_asked_for or plans["schema"] is not None:
            hint = "leave --stream, --time, --lateness and --schema out"
            raise click.UsageError(f"the relational engine has no streams, times or schemas; {hint}")
        options = {"plan": plan, "unroll": unroll, "buckets": buckets, "database": database}
        options |= {"references": references}
        options |= {"namespaces": dict(namespaces), "limits": limits_from(others)}
        return match_relational(ctx, subscriptions, messages, format, result, **options)
    if subscriptions is None:
        raise click.UsageError("Missing option '-s' / '--subscriptions'.")
    file = read_file(subscriptions, result=result)
    options = {"mode": mode, "predicates": predicates, **plans}
    if streams.are_asked_for or reads_streams(file):
        broker = compile_broker(
            file, streams, strategy=strategy, namespaces=dict(namespaces), limits=limits_from(others), **options
        )
        warn_of_never(file, dict(namespaces))
        ctx.exit(match_streams(broker, file, streams, format))
    selecting = any(s.result != "match" or is_transform(s.query) for s in file.subscriptions)
    compiled = compile_file(file, namespaces=dict(namespaces), limits=limits_from(others), **options)
    warn_of_never(file, dict(namespaces))
    names = list(expand(messages))
    progress = Progress(len(names))
    output: Output
    if format == "table":
        output = Table(file, selecting)
    else:
        output = SelectedJsonl(file, progress) if selecting else Jsonl(file, progress)
    report = Report(progress)
    matched = False
    chunked = LargeFiles(file, Options(jobs=cores(), limits=compiled.limits), namespaces=dict(namespaces))
    # parts cannot be validated
    whole = plans["schema"] is not None and plans["on_invalid"] == "reject"
    for large, some in groupby(names, lambda name: not whole and is_large(name, chunk_above)):
        for name in some if large else ():
            done = chunked.match(str(name))
            report.broken(complaints(str(name), done))
            matched |= bool(done.answers)
            output.add([str(name)], chunked.record(done))
            progress.advance(1)
        for batch in () if large else batches(read(some)):
            for part, found in _match(compiled, batch, report, selecting):
                matched |= len(found.column("matches").flatten()) > 0
                output.add(part, found)
            progress.advance(len(batch))
    progress.clear()
    output.close()
    ctx.exit(2 if report.errors else 0 if matched else 1)


def _match(
    engine: Engine, batch: list[Message | Unreadable], report: Report, selecting: bool
) -> Iterator[tuple[list[str], pa.RecordBatch]]:
    """The batch's messages as slices of (names, result); what is wrong with them goes to ``report``, in their order."""
    readable = [(row, m) for row, m in enumerate(batch) if isinstance(m, Message)]
    columns = [
        pa.array([row for row, _ in readable], pa.uint32()),
        pa.array([m.data for _, m in readable], pa.large_binary()),
    ]
    reported = 0
    ids = engine.ids
    run = engine.select_batches if selecting else engine.match_batches
    for result in run(pa.RecordBatch.from_arrays(columns, ["id", "xml"])):
        rows = result.column("id").to_pylist()
        errors = result.column("error")
        failures = result.column("failures")
        if errors.null_count < len(errors) or failures.null_count < len(failures):
            for row, error, failed in zip(rows, errors.to_pylist(), failures.to_pylist(), strict=True):
                if error is not None or failed is not None:
                    report.unreadable(batch[reported:row])
                    reported = row + 1
                if error is not None:
                    report.bad(batch[row].name, error)
                for one in failed or ():
                    report.failed(batch[row].name, ids[one["subscription"]].as_py(), one)
        yield [batch[row].name for row in rows], result
    report.unreadable(batch[reported:])


class Report:
    """Errors for people, on stderr."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.errors = 0

    def bad(self, name: str, error: dict[str, Any]) -> None:
        self.errors += 1
        self._progress.say(f"{printable(name)}:{error['line']}:{error['column']}: {error['code']}: {error['text']}")

    def failed(self, name: str, subscription: object, failure: dict[str, Any]) -> None:
        """Report a subscription that could not be evaluated on a message."""
        self.errors += 1
        self._progress.say(failed_line(name, subscription, failure["code"], failure["text"]))

    def broken(self, lines: list[str]) -> None:
        self.errors += len(lines)
        for line in lines:
            self._progress.say(line)

    def unreadable(self, messages: list[Message | Unreadable]) -> None:
        for message in messages:
            if isinstance(message, Unreadable):
                self.errors += 1
                self._progress.say(f"{printable(message.name)}: unreadable: {message.reason}")


class Jsonl:
    """One object per match. The lines are put together by Arrow, column-wise: Python never sees a single match."""

    ROWS = 1 << 18

    def __init__(self, file: SubscriptionFile, progress: Progress) -> None:
        self._ids = [as_json(s.id) for s in file.subscriptions]
        ends = [f"{id}}}\n" for id in self._ids]
        self._ends = pa.array(ends, pa.large_string())
        self._nothing = pa.scalar("", pa.large_string())
        self._progress = progress

    def add(self, names: list[str], result: pa.RecordBatch) -> None:
        starts = pa.array([f'{{"message": {as_json(name)}, "subscription": ' for name in names], pa.large_string())
        matches = result.column("matches")
        rows = pc.list_parent_indices(matches)
        numbers = matches.flatten()
        if len(numbers) and sys.stdout.isatty():
            self._progress.clear()
        for at in range(0, len(numbers), self.ROWS):
            lines = pc.binary_join_element_wise(
                starts.take(rows.slice(at, self.ROWS)), self._ends.take(numbers.slice(at, self.ROWS)), self._nothing
            )
            sys.stdout.buffer.write(memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()])
        write_failures(names, result, self._ids)

    def close(self) -> None:
        sys.stdout.flush()


class Table:
    """For people: the first matches with their queries, and how many more there are."""

    def __init__(self, file: SubscriptionFile, selecting: bool) -> None:
        self._file = file
        self._selecting = selecting
        self._rows: list[tuple[str, int]] = []
        self._selected: list[str] = []
        self._matches = 0

    def add(self, names: list[str], result: pa.RecordBatch) -> None:
        if self._selecting:
            shown = result.column("matches").flatten().slice(0, TABLE_ROWS - len(self._rows))
            self._selected += map(summary, shown.to_pylist())
            result = numbers_of(result)
        matches = result.column("matches")
        numbers = matches.flatten()
        room = TABLE_ROWS - len(self._rows)
        rows = pc.list_parent_indices(matches).slice(0, room).to_pylist()
        found = numbers.slice(0, room).to_pylist()
        self._rows += [(names[row], number) for row, number in zip(rows, found, strict=True)]
        self._matches += len(numbers)

    def close(self) -> None:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        if not self._rows:
            click.echo("no matches")
            return
        table = RichTable(box=None, pad_edge=False)
        for heading in ("message", "subscription", "query", *(["selected"] if self._selecting else [])):
            table.add_column(heading, overflow="fold")  # a name cut short would no longer name its message
        for i, (name, number) in enumerate(self._rows):
            subscription = self._file.subscriptions[number]
            row = (name, subscription.id, subscription.query, *self._selected[i : i + 1])
            table.add_row(*(Text(printable(str(t))) for t in row))
        Console().print(table)
        if self._matches > len(self._rows):
            click.echo(f"… and {self._matches - len(self._rows):,} more; --format jsonl has all of them")
