"""``twigcast test``: one query on some messages, and why it does not match."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from twigcast.cli.inputs import as_json, expand, printable, read, readable, refuse_stdin_twice
from twigcast.cli.options import OneOf, limit_options, namespace_options, schema_option, take_limits
from twigcast.cli.output import Report
from twigcast.engine import DIALECTS, Engine, Failure
from twigcast.engine.shares import REASONS
from twigcast.errors import MessageError, OptionError, QueryError, Span
from twigcast.explain.whynot import Probe
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import is_transform, parse_transform
from twigcast.lang.xscl import is_correlation
from twigcast.limits import Limits
from twigcast.schema import Schema
from twigcast.schema.check import never_matches

EPILOG = """\b
Examples:
  twigcast test '/order[total > 100]/item' order.xml
  twigcast test --ns a=http://www.w3.org/2005/Atom '//a:entry[a:title = "News"]' feed.xml
  curl -s https://example.org/feed | twigcast test '//item[contains(title, "XML")]' -
\b
Exit status: 0 some message matches, 1 none does, 2 there was an error (other messages are tested nevertheless).
"""


@click.command(epilog=EPILOG)
@click.argument("query")
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@click.option("--format", "format", type=OneOf(["text", "jsonl"]), default="text", show_default=True, help="Output.")
@click.option("--dialect", type=OneOf(DIALECTS), default="w3c", show_default=True, help="How QUERY is read.")
@schema_option("Tell first if no message of this DTD or XML Schema can match.")
@namespace_options
@limit_options
@click.pass_context
def test(
    ctx: click.Context,
    /,
    query: str,
    messages: tuple[str, ...],
    format: str,
    dialect: str,
    schema: Schema | None,
    namespaces: dict[str, str],
    **limits: Any,
) -> None:
    """Tell for each MESSAGE whether QUERY matches it.

    On a match: which nodes are selected, with line and column, or what a transform makes. Otherwise: the first step or
    predicate that fails, the node of the message that comes closest, and what was probably meant. A MESSAGE is a file,
    a folder, or - for stdin.
    """
    refuse_stdin_twice(*messages)
    _refuse_swapped(query, messages)
    ask = _asking(query, namespaces, dialect, take_limits(limits))
    never = never_matches(schema, query, namespaces=namespaces, dialect=dialect)
    if never is not None:
        click.echo(f"warning: {never}", err=True)
    report = Report()
    for message in readable(read(expand(messages)), report.unreadable):
        try:
            holds, told, said = ask(message.data)
        except MessageError as error:
            report.refused(message.name, error)
            continue
        report.matched |= holds
        if format == "jsonl":
            click.echo(as_json({"message": message.name, **told}))
        else:
            click.echo(f"{printable(message.name)}: {said}")
    ctx.exit(report.finish())


def _refuse_swapped(query: str, messages: tuple[str, ...]) -> None:
    """Raise an error if QUERY is a file and a MESSAGE is none: a name such as order.xml is a query, too."""
    missing = next((one for one in messages if one != "-" and not _exists(one)), None)
    if missing is None or not (_exists(query) or query.lstrip().startswith("<?xml")):
        return
    text = f"QUERY is the file {query[:80]!r}, and there is no file {missing[:80]!r}"
    raise OptionError(
        "swapped-arguments", text, hint=f"the query comes first: twigcast test {shlex.quote(missing)} FILE"
    )


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _asking(
    query: str, namespaces: dict[str, str], dialect: str, limits: Limits
) -> Callable[[bytes], tuple[bool, dict[str, Any], str]]:
    if is_transform(query):
        return TransformProbe(query, namespaces=namespaces, limits=limits).test
    if is_correlation(query):
        text = "a correlation ties several messages together, and test tries one at a time"
        hint = "put it into a file: twigcast match -s FILE --stream NAME MESSAGE..."
        raise QueryError("correlation", text, hint=hint, source=query, span=Span(0, len(query)))
    probe = Probe(query, namespaces=namespaces, dialect=dialect, limits=limits)

    def ask(xml: bytes) -> tuple[bool, dict[str, Any], str]:
        verdict = probe.test(xml)
        return verdict.matches, verdict.as_dict(), str(verdict)

    return ask


class TransformProbe:
    """Tells what a transform makes of a message, or why nothing."""

    def __init__(self, query: str, *, namespaces: Mapping[str, str], limits: Limits | None) -> None:
        self._engine = Engine(namespaces=namespaces, limits=limits)
        self._engine.add(query)
        self._why = Probe(_as_filter(parse_transform(query, namespaces)), limits=limits)

    def test(self, xml: bytes) -> tuple[bool, dict[str, Any], str]:
        """Whether something is made, and that for machines and for people."""
        failures: list[Failure] = []
        found = self._engine.select(xml, failures=failures)
        for failure in failures:
            raise failure.error
        if not found:
            verdict = self._why.test(xml)
            return False, verdict.as_dict(), str(verdict)
        payload, reason = found[0].payload, found[0].reason
        if payload is None:
            why = REASONS.get(reason or "", "what it makes is longer than the limit")
            return True, {"match": True, "complete": False, "reason": reason}, f"matches, but {why}"
        return True, {"match": True, "payload": payload.decode()}, f"makes\n{payload.decode()}"


def _as_filter(transform: Transform) -> str:
    """Return the filter that holds for the messages that the transform makes something of."""
    where = "" if transform.where is None else f"[{transform.where.text}]"
    return transform.binding.text + where
