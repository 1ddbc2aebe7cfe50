"""``twigcast explain``: what becomes of a query."""

from __future__ import annotations

from dataclasses import asdict

import click

from twigcast.broker import Broker
from twigcast.cli.inputs import as_json
from twigcast.cli.options import OneOf, namespace_options
from twigcast.subscriptions import compile_file, read_subscriptions

EPILOG = """\b
Examples:
  twigcast explain '/news//headline'
  twigcast explain --ns a=http://www.w3.org/2005/Atom '/a:feed/a:entry//a:link/@href'
  twigcast explain -s subscriptions.txt '//section/title'
"""


@click.command(epilog=EPILOG)
@click.argument("query")
@click.option("-s", "--subscriptions", metavar="FILE", help="Also tell how many of these have the same path.")
@click.option("--format", "format", type=OneOf(["text", "json"]), default="text", show_default=True, help="Output.")
@namespace_options
def explain(query: str, subscriptions: str | None, format: str, namespaces: tuple[tuple[str, str], ...]) -> None:
    """Show how QUERY is evaluated."""
    broker = Broker(namespaces=dict(namespaces))
    if subscriptions is not None:
        broker.engine = compile_file(read_subscriptions(subscriptions), namespaces=dict(namespaces))
    explanation = broker.explain(query)
    click.echo(as_json(asdict(explanation)) if format == "json" else str(explanation))
