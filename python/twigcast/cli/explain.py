"""``twigcast explain``: what becomes of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from twigcast.cli.inputs import as_json
from twigcast.cli.options import GroupedCommand, OneOf, namespace_options, schema_option
from twigcast.cli.queries import read_file
from twigcast.cli.relational import check_options, engine_options, explain_relational
from twigcast.correlate.explain import explain_correlation
from twigcast.engine import DIALECTS
from twigcast.engine.files import SubscriptionFile, compile_file
from twigcast.explain import explain as explained
from twigcast.lang.flwr import parse_transform
from twigcast.lang.kinds import kind_of
from twigcast.lang.xscl import parse_correlation
from twigcast.schema import Schema
from twigcast.schema.check import never_matches
from twigcast.subscription import Subscription
from twigcast.transform.explanation import TransformExplanation

T = TypeVar("T")

EPILOG = """\b
Examples:
  twigcast explain '/news//headline'
  twigcast explain '/stock[symbol = "IBM"][price > 50]'
  twigcast explain --ns a=http://www.w3.org/2005/Atom '/a:feed/a:entry//a:link/@href'
  twigcast explain -s subscriptions.txt '//section[title = "Prices"]'
  twigcast explain --format json '//a/following::b'
  twigcast explain 'S//a->x[id->i] FOLLOWED BY{i = j, 5 min} S//b->y[id->j]'
  twigcast explain --engine relational '/stock[symbol = "IBM"][price > 50]'
  twigcast explain '<titles>{ for $s in //section where $s/@id > 2 return $s/title }</titles>'
  twigcast explain --schema book.dtd '<t>{ for $s in //section return $s/title }</t>'
"""


@click.command(cls=GroupedCommand, epilog=EPILOG)
@click.argument("query")
@click.option("-s", "--subscriptions", metavar="FILE", help="Also tell what it shares with how many of these.")
@click.option("--format", "format", type=OneOf(["text", "json"]), default="text", show_default=True, help="Output.")
@schema_option("Tell if no message of this DTD or XML Schema can match.")
@click.option("--dialect", type=OneOf(DIALECTS), default="w3c", show_default=True, help="How QUERY is read.")
@engine_options
@namespace_options
def explain(
    query: str,
    subscriptions: str | None,
    format: str,
    schema: Schema | None,
    dialect: str,
    engine: str,
    database: str | None,
    references: tuple[str, ...],
    namespaces: dict[str, str],
) -> None:
    """Show how QUERY is evaluated: its paths, indexes, what is shared, what the XPath evaluator decides, and why."""
    check_options(engine, database=database, reference=references)
    if engine == "relational":
        told, sections = explain_relational(query, subscriptions, dialect, namespaces, database, references)
    else:
        told, sections = _explained(query, subscriptions, namespaces, schema, dialect)
    if format == "json":
        click.echo(as_json(told))
    else:
        _print(sections)


def _explained(
    query: str, subscriptions: str | None, namespaces: dict[str, str], schema: Schema | None, dialect: str
) -> tuple[dict[str, Any], list[tuple[str, list[str]]]]:
    """Return the explanation of a query for programs, and as headings with lines for people."""
    kind = kind_of(query)
    others = None if subscriptions is None else _read_others(subscriptions, namespaces, kind)

    def parsed(parse: Callable[..., T]) -> list[T] | None:
        if others is None:
            return None
        return [parse(one.query, {**namespaces, **(one.namespaces or {})}, one.default_namespace) for one in others]

    if kind == "transform":
        made = TransformExplanation(query, namespaces=namespaces, schema=schema, among=parsed(parse_transform))
        return made.as_dict(), list(made.sections())
    if kind == "correlate":
        joined = explain_correlation(query, namespaces=namespaces, others=parsed(parse_correlation))
        return joined.as_dict(), list(joined.sections())
    found = explained(query, namespaces=namespaces, dialect=dialect, subscriptions=others)
    never = never_matches(schema, query, namespaces=namespaces, dialect=dialect)
    told = {**found.as_dict(), "never": never and {"text": never.text, "hint": never.hint}}
    sections = list(found.sections())
    if never is not None and found.never is None:  # the schema says so
        sections.append(("never", str(never).partition(": ")[2].splitlines()))
    return told, sections


def _read_others(name: str, namespaces: dict[str, str], kind: str) -> list[Subscription]:
    """Read the subscriptions of a file that are of a kind: only these share anything with each other."""
    file = read_file(name)
    if kind != "correlate":
        rows = zip(file.subscriptions, file.lines, strict=True)
        kept = [(s, line) for s, line in rows if kind_of(s.query) != "correlate"]
        some = SubscriptionFile(file.name, [s for s, _ in kept], [line for _, line in kept])
        compile_file(some, namespaces=namespaces)  # raises an error with all bad lines
    return [one for one in file.subscriptions if kind_of(one.query) == kind]


def _print(sections: Iterable[tuple[str, list[str]]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for heading, lines in sections:
        for i, line in enumerate(lines):
            text = Text(f"{heading if i == 0 else '':<12}", style="bold")
            text.append(line, style="not bold")
            text.rstrip()
            console.print(text)
