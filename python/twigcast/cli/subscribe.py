"""``twigcast subscribe``, ``unsubscribe``, ``pause``, ``resume``, ``subscriptions``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.configuration import configured_streams, opened, store_option
from twigcast.cli.options import OneOf, format_option, namespace_options, schema_option
from twigcast.cli.output import show
from twigcast.cli.queries import allow_never_option, say_refused
from twigcast.common.text import suggest
from twigcast.correlate.streams import inadmissible
from twigcast.engine import DIALECTS
from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation
from twigcast.lang.kinds import ambiguity, described
from twigcast.lang.xscl import is_correlation, parse_correlation
from twigcast.schema import Schema
from twigcast.schema.check import check
from twigcast.subscription import RESULTS, delay

if TYPE_CHECKING:
    from twigcast.store import Store, SubscriptionRecord

COLUMNS = ("id", "subscriber", "kind", "query", "state", "options")


@click.command(
    epilog="""\b
Examples:
  twigcast subscribe --subscriber alice '/order[total > 100]'
  twigcast subscribe --id links --ns a=http://www.w3.org/2005/Atom --result fragments '//a:link'
  twigcast subscribe '<hot>{ for $s in //stock where $s/price > 90 return $s/symbol }</hot>'
  twigcast subscribe --id links --replace --max-delay '5 minutes' '//link'
"""
)
@click.argument("query")
@click.option("--id", help="The subscription's id; without it, one is made.")
@click.option("--subscriber", metavar="ID", help="Who receives.")
@click.option("--kind", help="filter (XPath), transform (FLWR) or correlate (XSCL).  [default: what the query is]")
@namespace_options
@click.option("--default-namespace", metavar="URI", help="What element names without a prefix mean.")
@click.option("--dialect", type=OneOf(DIALECTS), default="w3c", show_default=True, help="How the query is read.")
@click.option(
    "--result", type=OneOf(RESULTS), default="match", show_default=True, help="What is delivered, as for match."
)
@schema_option("Refuse QUERY if no message of this DTD or XML Schema can match.")
@click.option("--stream", metavar="NAME", help="Only messages of this stream.")
@click.option("--max-delay", metavar="TIME", help="Collect matches into one delivery for up to this long.")
@click.option("--deliver-empty", is_flag=True, help="Of a transform: deliver its empty outer element, too.")
@click.option("--paused", is_flag=True, help="Do not match until resumed.")
@click.option("--replace", is_flag=True, help="Put it in the place of the subscription with this id.")
@allow_never_option
@store_option
def subscribe(
    query: str,
    id: str | None,
    namespaces: dict[str, str],
    default_namespace: str | None,
    schema: Schema | None,
    max_delay: str | None,
    paused: bool,
    replace: bool,
    allow_never: bool,
    url: str,
    **options: Any,
) -> None:
    """Store QUERY as a subscription, and print its id.

    A running pipeline takes it up with its next micro-batch. A query with a mistake, or that no message can match, is
    refused, with the place marked.
    """
    if replace and id is None:
        raise click.UsageError("--replace goes with --id")
    scope: dict[str, Any] = {"namespaces": namespaces or None, "default_namespace": default_namespace}
    options |= {**scope, "allow_never": allow_never, "state": "paused" if paused else "active"}
    options["max_delay"] = None if max_delay is None else delay(max_delay)
    try:
        if schema is not None and not allow_never:
            check(schema, query, **scope, dialect=options["dialect"])
        streams = [] if options["stream"] is None else [options["stream"]]
        if is_correlation(query):
            parsed = parse_correlation(query, namespaces, default_namespace)
            _refuse_source_stream(parsed)
            streams = [name for name in parsed.streams if name]
        with opened(url, create=not replace) as store:
            if replace and id is not None:
                record = store.replace(id, query, **options)
            else:
                record = store.subscribe(query, id=id, **options)
            _warn_of_streams(streams, store)
    except QueryError as error:
        raise say_refused(error) from None
    if sys.stderr.isatty():
        click.echo(f"stored as {described(query)}", err=True)
    note = ambiguity(query) if options["kind"] is None else None
    if note is not None:
        click.echo(f"note: this text is {described(query)}: {note}", err=True)
    click.echo(record.id)


def _refuse_source_stream(correlation: Correlation) -> None:
    """Raise QueryError if a correlation publishes on a stream that the configuration reads."""
    for error in inadmissible({"": correlation}, configured_streams() or ()).values():
        raise error


def _warn_of_streams(streams: Iterable[str], store: Store) -> None:
    """Warn of streams that neither the configuration nor a correlation in the store names."""
    sources = configured_streams()
    unknown = [] if sources is None else sorted(set(streams) - set(sources))
    if not unknown:
        return
    published = {
        parse_correlation(one.query, one.namespaces, one.default_namespace).publish for one in store.correlations()
    }
    for stream in unknown:
        if stream not in published:
            text = f"no stream of the configuration and no PUBLISH is called {stream!r}"
            click.echo(f"warning: {text}; {suggest(stream, sorted(sources or ()))}", err=True)


@click.command(epilog="\b\nExample:\n  twigcast unsubscribe links s-0123456789abcdef")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@store_option
def unsubscribe(ids: tuple[str, ...], url: str) -> None:
    """Remove subscriptions, all of them or, if one is unknown, none."""
    with opened(url) as store:
        store.unsubscribe(*ids)


@click.command(epilog="\b\nExample:\n  twigcast pause links")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@store_option
def pause(ids: tuple[str, ...], url: str) -> None:
    """Let subscriptions match nothing until resumed."""
    with opened(url) as store:
        store.pause(*ids)


@click.command(epilog="\b\nExample:\n  twigcast resume links")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@store_option
def resume(ids: tuple[str, ...], url: str) -> None:
    """Let paused subscriptions match again, messages that come from now on."""
    with opened(url) as store:
        store.resume(*ids)


@click.command(
    epilog="""\b
Examples:
  twigcast subscriptions
  twigcast subscriptions --grep 'symbol = "IBM"' --subscriber alice
\b
Exit status: 0 there are some, 1 there are none, 2 there was an error.
"""
)
@click.option("--grep", metavar="REGEX", help="Only those whose query or id holds this regular expression.")
@click.option("--subscriber", metavar="ID", help="Only those of this subscriber.")
@click.option("--state", type=OneOf(("active", "paused")), help="Only those in this state.")
@format_option("jsonl", "table")
@store_option
@click.pass_context
def subscriptions(
    ctx: click.Context, /, grep: str | None, subscriber: str | None, state: str | None, format: str, url: str
) -> None:
    """List subscriptions, by id."""
    try:
        wanted = re.compile(grep) if grep is not None else None
    except re.error as error:
        raise click.UsageError(f"--grep: not a regular expression: {error}") from error
    found = 0

    def rows(records: Iterator[SubscriptionRecord]) -> Iterator[dict[str, Any]]:
        nonlocal found
        for record in records:
            if wanted is None or wanted.search(record.query) or wanted.search(record.id):
                found += 1
                yield record.to_json() if format == "jsonl" else _cells(record)

    with opened(url) as store:
        show(format, rows(store.subscriptions(subscriber=subscriber, state=state)), COLUMNS, "subscriptions")
    ctx.exit(0 if found else 1)


def _cells(record: SubscriptionRecord) -> dict[str, Any]:
    row = record.to_json()
    options = {key: row.pop(key) for key in list(row) if key not in COLUMNS}
    if options.pop("reason", None) is not None:
        row["state"] = f"{record.state}: {record.reason}"
    return {"kind": record.kind, "state": record.state, **row, "options": options or None}
