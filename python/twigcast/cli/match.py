"""``twigcast match``: messages against subscriptions, on this machine, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import click

from twigcast.arrow import pa
from twigcast.cli.correlate import Streams, compile_broker, correlation_options, match_streams, reads_streams
from twigcast.cli.inputs import Message, Unreadable, batches, expand, read
from twigcast.cli.large import ABOVE, LargeFiles, is_large
from twigcast.cli.options import (
    GroupedCommand,
    Size,
    format_option,
    hidden_limit_options,
    invalid_option,
    limits_from,
    namespace_options,
    result_option,
)
from twigcast.cli.output import Output, Report, match_of, output_of, status_of
from twigcast.cli.progress import Progress
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.cli.relational import check_options, engine_options, match_relational
from twigcast.engine import Engine
from twigcast.errors import MessageError
from twigcast.failures import Failure
from twigcast.lang.flwr import is_transform
from twigcast.limits import Limits
from twigcast.subscriptions import SubscriptionFile, compile_file

FEW, FEW_SUBSCRIPTIONS = 32, 1_000
"""So many messages and subscriptions are matched sooner than pyarrow is imported."""

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
What one message may cost is bounded by --max-bytes, --max-depth, --max-result-nodes and others, with safe defaults:
docs/command-line.md has all of them.
\b
Exit status: 0 something matched, 1 nothing did, 2 there was an error (other messages are matched nevertheless).
"""


class MatchCommand(GroupedCommand):
    """``twigcast match``, with its options in groups."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Streams and correlations": ("stream", "time", "lateness"),
        "Schema": ("schema", "on_invalid"),
        "Relational engine": ("engine", "database", "references"),
    }


@click.command(cls=MatchCommand, epilog=EPILOG)
@click.option("-s", "--subscriptions", metavar="FILE", help="The subscriptions; - for stdin.")
@click.argument("messages", nargs=-1, metavar="MESSAGE...")
@result_option
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
@click.option("--schema", metavar="FILE", help="The messages' schema: a DTD (.dtd) or an XML Schema.")
@invalid_option
@engine_options
@hidden_limit_options
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
    lateness: float | None,
    namespaces: tuple[tuple[str, str], ...],
    schema: str | None,
    on_invalid: str,
    engine: str,
    database: str | None,
    references: tuple[str, ...],
    **limits: Any,
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
    check_options(engine, database=database, reference=references)
    options: dict[str, Any] = {"namespaces": dict(namespaces), "limits": limits_from(limits)}
    if engine == "relational":
        if streams.are_asked_for or schema is not None:
            hint = "leave --stream, --time, --lateness and --schema out"
            raise click.UsageError(f"the relational engine has no streams, times or schemas; {hint}")
        options |= {"database": database, "references": references}
        return match_relational(ctx, subscriptions, messages, format, result, **options)
    if subscriptions is None:
        raise click.UsageError("Missing option '-s' / '--subscriptions'.")
    file = read_file(subscriptions, result=result)
    options |= {"schema": schema, "on_invalid": on_invalid}
    if streams.are_asked_for or reads_streams(file):
        broker = compile_broker(file, streams, **options)
        warn_of_never(file, dict(namespaces))
        ctx.exit(match_streams(broker, file, streams, format))
    selecting = any(s.result != "match" or is_transform(s.query) for s in file.subscriptions)
    compiled = compile_file(file, **options)
    warn_of_never(file, dict(namespaces))
    names = list(expand(messages))
    progress = Progress(len(names))
    output = output_of(format, file, progress)
    report = Report(progress)
    matched = False
    chunked: LargeFiles | None = None
    # parts cannot be validated
    whole = schema is not None and on_invalid == "reject"
    for large, some in groupby(names, lambda name: not whole and is_large(name, chunk_above)):
        for name in some if large else ():
            chunked = chunked or _large_files(file, compiled.limits, dict(namespaces))
            matched |= chunked.match(str(name), output, report)
            progress.advance(1)
        for batch in () if large else batches(read(some)):
            if len(batch) <= FEW and len(compiled) <= FEW_SUBSCRIPTIONS:
                matched |= _match_few(compiled, batch, output, report)
                progress.advance(len(batch))
                continue
            for part, found in _match(compiled, batch, report, selecting):
                matched |= len(found.column("matches").flatten()) > 0
                output.add_batch(part, found)
            progress.advance(len(batch))
    progress.clear()
    output.close()
    ctx.exit(status_of(report, matched))


def _large_files(file: SubscriptionFile, limits: Limits, namespaces: dict[str, str]) -> LargeFiles:
    from twigcast.chunk.run import Options, cores  # only large files need it

    return LargeFiles(file, Options(jobs=cores(), limits=limits), namespaces=namespaces)


def _match_few(engine: Engine, batch: list[Message | Unreadable], output: Output, report: Report) -> bool:
    """Match messages one by one, without Arrow, and print what they match; return whether anything did."""
    matched = False
    for message in batch:
        if isinstance(message, Unreadable):
            report.unreadable([message])
            continue
        failures: list[Failure] = []
        try:
            found = engine.select(message.data, failures=failures)
        except MessageError as error:
            report.refused(message.name, error.code, error.text, error.line, error.column)
            continue
        matched |= bool(found)
        for one in found:
            output.add(match_of(message.name, one))
        for failure in failures:
            report.failed(message.name, failure.id, failure.error.code, failure.error.text)
            output.fail(message.name, failure.id, failure.error.code, failure.error.text)
    return matched


def _match(
    engine: Engine, batch: list[Message | Unreadable], report: Report, selecting: bool
) -> Iterator[tuple[list[str], pa.RecordBatch]]:
    """Match a batch. Yield the names of some messages with their result; report errors in the order of the messages."""
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
                    report.refused(batch[row].name, error["code"], error["text"], error["line"], error["column"])
                for one in failed or ():
                    report.failed(batch[row].name, ids[one["subscription"]].as_py(), one["code"], one["text"])
        yield [batch[row].name for row in rows], result
    report.unreadable(batch[reported:])
