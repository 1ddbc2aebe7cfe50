"""``twigcast match``: messages against subscriptions, on this machine, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import click

from twigcast.cli.correlate import Streams, compile_broker, correlation_options, match_streams, reads_streams
from twigcast.cli.inputs import Message, batches, expand, read, refuse_stdin_twice
from twigcast.cli.large import ABOVE, LargeFiles, is_large
from twigcast.cli.matches import Output, match_of, output_of
from twigcast.cli.options import (
    GroupedCommand,
    Size,
    format_option,
    hidden_limit_options,
    invalid_option,
    namespace_options,
    result_option,
    take_limits,
)
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.cli.relational import check_options, engine_options, match_relational
from twigcast.common.arrow import pa
from twigcast.engine import Engine
from twigcast.engine.failures import Failure
from twigcast.engine.files import SubscriptionFile, compile_file
from twigcast.errors import MessageError
from twigcast.lang.flwr import is_transform
from twigcast.limits import Limits

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
    type=Size,
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
    namespaces: dict[str, str],
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
    refuse_stdin_twice(subscriptions, *messages)
    check_options(engine, database=database, reference=references)
    options: dict[str, Any] = {"namespaces": namespaces, "limits": take_limits(limits)}
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
        warn_of_never(file, namespaces)
        ctx.exit(match_streams(broker, file, streams, format))
    selecting = any(s.result != "match" or is_transform(s.query) for s in file.subscriptions)
    compiled = compile_file(file, **options)
    warn_of_never(file, namespaces)
    names = list(expand(messages))
    output = output_of(format, file, len(names))
    chunked: LargeFiles | None = None
    # parts cannot be validated
    whole = schema is not None and on_invalid == "reject"
    for large, some in groupby(names, lambda name: not whole and is_large(name, chunk_above)):
        for name in some if large else ():
            chunked = chunked or _large_files(file, compiled.limits, namespaces)
            chunked.match(str(name), output)
            output.progress.advance(1)
        for batch in () if large else batches(read(some), output.unreadable):
            if len(batch) <= FEW and len(compiled) <= FEW_SUBSCRIPTIONS:
                _match_few(compiled, batch, output)
            else:
                _match(compiled, batch, output, selecting)
            output.progress.advance(len(batch))
    ctx.exit(output.finish())


def _large_files(file: SubscriptionFile, limits: Limits, namespaces: dict[str, str]) -> LargeFiles:
    from twigcast.chunk.run import Options, cores  # only large files need it

    return LargeFiles(file, Options(jobs=cores(), limits=limits), namespaces=namespaces)


def _match_few(engine: Engine, batch: list[Message], output: Output) -> None:
    """Match messages one by one, without Arrow, and print what they match."""
    for message in batch:
        failures: list[Failure] = []
        try:
            found = engine.select(message.data, failures=failures)
        except MessageError as error:
            output.refused(message.name, error)
            continue
        for one in found:
            output.add(match_of(message.name, one))
        for failure in failures:
            output.failed(message.name, failure.id, failure.error.code, failure.error.text)


def _match(engine: Engine, batch: list[Message], output: Output, selecting: bool) -> None:
    """Match messages together, and print what they match."""
    rows = pa.array(range(len(batch)), pa.uint32())
    xml = pa.array([message.data for message in batch], pa.large_binary())
    run = engine.select_batches if selecting else engine.match_batches
    for result in run(pa.RecordBatch.from_arrays([rows, xml], ["id", "xml"])):
        output.add_batch([batch[row].name for row in result.column("id").to_pylist()], result)
