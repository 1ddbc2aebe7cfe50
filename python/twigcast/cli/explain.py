"""``twigcast explain``: what becomes of a query."""

from __future__ import annotations

from typing import Any

import click

from twigcast.cli.inputs import as_json
from twigcast.cli.options import OneOf, namespace_options, predicates_option
from twigcast.cli.relational import check_options, engine_options, explain_relational
from twigcast.cli.transforms import TransformExplanation
from twigcast.engine import DIALECTS
from twigcast.explain import Explanation
from twigcast.explain import explain as explained
from twigcast.lang.flwr import is_transform
from twigcast.subscriptions import compile_file, read_subscriptions

EPILOG = """\b
Examples:
  twigcast explain '/news//headline'
  twigcast explain '/stock[symbol = "IBM"][price > 50]'
  twigcast explain --ns a=http://www.w3.org/2005/Atom '/a:feed/a:entry//a:link/@href'
  twigcast explain -s subscriptions.txt '//section[title = "Prices"]'
  twigcast explain --format json '//a/following::b'
  twigcast explain --engine relational '/stock[symbol = "IBM"][price > 50]'
  twigcast explain '<titles>{ for $s in //section where $s/@id > 2 return $s/title }</titles>'
"""


@click.command(epilog=EPILOG)
@click.argument("query")
@click.option("-s", "--subscriptions", metavar="FILE", help="Also tell what it shares with how many of these.")
@click.option("--format", "format", type=OneOf(["text", "json"]), default="text", show_default=True, help="Output.")
@click.option("--dialect", type=OneOf(DIALECTS), default="w3c", show_default=True, help="How QUERY is read.")
@predicates_option
@engine_options
@namespace_options
def explain(
    query: str,
    subscriptions: str | None,
    format: str,
    dialect: str,
    predicates: str,
    engine: str,
    database: str | None,
    plan: str | None,
    unroll: int,
    buckets: int,
    references: tuple[str, ...],
    namespaces: tuple[tuple[str, str], ...],
) -> None:
    """Show how QUERY is evaluated: its paths, indexes, what is shared and what is left to libxml2, and why."""
    check_options(engine, database=database, plan=plan, reference=references)
    if engine == "relational":
        options: dict[str, Any] = {"plan": plan, "unroll": unroll, "buckets": buckets, "references": references}
        return explain_relational(query, subscriptions, format, dialect, dict(namespaces), database, **options)
    others = None
    if subscriptions is not None:
        file = read_subscriptions(subscriptions)
        compile_file(file, namespaces=dict(namespaces))  # which tells of all bad lines
        others = file.subscriptions
    found: Explanation | TransformExplanation
    if is_transform(query):
        found = TransformExplanation(query, namespaces=dict(namespaces))
    else:
        found = explained(
            query, namespaces=dict(namespaces), dialect=dialect, subscriptions=others, predicates=predicates
        )
    if format == "json":
        click.echo(as_json(found.as_dict()))
    else:
        _print(found)


def _print(explanation: Explanation | TransformExplanation) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for heading, lines in explanation.sections():
        for i, line in enumerate(lines):
            text = Text(f"{heading if i == 0 else '':<12}", style="bold")
            text.append(line, style="not bold")
            text.rstrip()
            console.print(text)
