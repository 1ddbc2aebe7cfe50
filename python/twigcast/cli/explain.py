"""``twigcast explain``: what becomes of a query."""

from __future__ import annotations

import click

from twigcast.cli.inputs import as_json
from twigcast.cli.options import OneOf, namespace_options, predicates_option
from twigcast.cli.transforms import TransformExplanation
from twigcast.correlate.explain import CorrelationExplanation, explain_correlation
from twigcast.engine import DIALECTS
from twigcast.explain import Explanation
from twigcast.explain import explain as explained
from twigcast.lang.flwr import is_transform
from twigcast.lang.xscl import is_correlation, parse_correlation
from twigcast.subscriptions import compile_file, read_subscriptions

EPILOG = """\b
Examples:
  twigcast explain '/news//headline'
  twigcast explain '/stock[symbol = "IBM"][price > 50]'
  twigcast explain --ns a=http://www.w3.org/2005/Atom '/a:feed/a:entry//a:link/@href'
  twigcast explain -s subscriptions.txt '//section[title = "Prices"]'
  twigcast explain --format json '//a/following::b'
  twigcast explain 'S//a->x[id->i] FOLLOWED BY{i = j, 5 min} S//b->y[id->j]'
  twigcast explain '<titles>{ for $s in //section where $s/@id > 2 return $s/title }</titles>'
"""


@click.command(epilog=EPILOG)
@click.argument("query")
@click.option("-s", "--subscriptions", metavar="FILE", help="Also tell what it shares with how many of these.")
@click.option("--format", "format", type=OneOf(["text", "json"]), default="text", show_default=True, help="Output.")
@click.option("--dialect", type=OneOf(DIALECTS), default="w3c", show_default=True, help="How QUERY is read.")
@predicates_option
@namespace_options
def explain(
    query: str,
    subscriptions: str | None,
    format: str,
    dialect: str,
    predicates: str,
    namespaces: tuple[tuple[str, str], ...],
) -> None:
    """Show how QUERY is evaluated: its paths, indexes, what is shared and what is left to libxml2, and why."""
    found: Explanation | TransformExplanation | CorrelationExplanation
    others = None
    if is_correlation(query):
        _show(_correlation(query, subscriptions, dict(namespaces)), format)
        return
    if subscriptions is not None:
        file = read_subscriptions(subscriptions)
        compile_file(file, namespaces=dict(namespaces))  # which tells of all bad lines
        others = file.subscriptions
    if is_transform(query):
        found = TransformExplanation(query, namespaces=dict(namespaces))
    else:
        found = explained(
            query, namespaces=dict(namespaces), dialect=dialect, subscriptions=others, predicates=predicates
        )
    _show(found, format)


def _correlation(query: str, subscriptions: str | None, namespaces: dict[str, str]) -> CorrelationExplanation:
    """Only the correlations among the subscriptions share anything with one."""
    others = None
    if subscriptions is not None:
        others = [
            parse_correlation(one.query, {**namespaces, **(one.namespaces or {})}, one.default_namespace)
            for one in read_subscriptions(subscriptions).subscriptions
            if is_correlation(one.query)
        ]
    return explain_correlation(query, namespaces=namespaces, others=others)


def _show(found: Explanation | TransformExplanation | CorrelationExplanation, format: str) -> None:
    if format == "json":
        click.echo(as_json(found.as_dict()))
    else:
        _print(found)


def _print(explanation: Explanation | TransformExplanation | CorrelationExplanation) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for heading, lines in explanation.sections():
        for i, line in enumerate(lines):
            text = Text(f"{heading if i == 0 else '':<12}", style="bold")
            text.append(line, style="not bold")
            text.rstrip()
            console.print(text)
