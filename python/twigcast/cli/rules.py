"""``twigcast rules``: subscriptions that stay in a database, for the relational engine."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from twigcast.cli.options import GroupedCommand, format_option, namespace_options
from twigcast.cli.output import show
from twigcast.cli.progress import working
from twigcast.cli.queries import warn_of_never
from twigcast.cli.relational import enter, must_exist, read_filters, reference_option, register, stays
from twigcast.errors import OptionError
from twigcast.relational.engine import RelationalEngine
from twigcast.subscription import as_object

RULES = """\b
Examples:
  twigcast rules load --database duckdb:///rules.db -s subscriptions.txt
  twigcast match --engine relational --database duckdb:///rules.db messages/
  twigcast rules delete --database duckdb:///rules.db 17 18
"""


@click.group(epilog=RULES)
def rules() -> None:
    """Keep subscriptions in a database, for `twigcast match --engine relational --database URL`."""


_database = click.option(
    "--database", required=True, metavar="URL", help="duckdb:///file.db or postgresql://user@host/name."
)


def _must_stay(database: str) -> None:
    """Rules in memory would be gone with the command."""
    if not stays(database):
        hint = "use duckdb:///file.db or postgresql://user@host/name"
        raise OptionError("bad-database", f"{database!r} keeps nothing: its tables are in memory", hint=hint)


def _open(database: str) -> RelationalEngine:
    _must_stay(database)
    must_exist(database)
    return RelationalEngine(database)


@rules.command(cls=GroupedCommand)
@_database
@click.option("-s", "--subscriptions", required=True, metavar="FILE", help="The subscriptions; - for stdin.")
@reference_option
@namespace_options
def load(
    database: str,
    subscriptions: str,
    namespaces: dict[str, str],
    references: tuple[str, ...],
) -> None:
    """Add the subscriptions of a file: all of them, or none if one cannot be accepted."""
    _must_stay(database)
    file = read_filters(subscriptions)
    with closing(RelationalEngine(database, namespaces=namespaces)) as engine:
        register(engine, references)
        with working(f"loading {len(file.subscriptions):,} subscriptions"):
            enter(engine, file, file.subscriptions)
        warn_of_never(file, namespaces)
        click.echo(f"{len(file.subscriptions):,} subscriptions added, {len(engine):,} in all")


@rules.command("list")
@_database
@format_option("jsonl", "table")
def list_(database: str, format: str) -> None:
    """List the subscriptions, in the order in which they came."""
    with closing(_open(database)) as engine:
        rows = (as_object(asdict(s)) for s in engine.subscriptions())
        show(format, rows, ("id", "query", "namespaces", "default_namespace", "dialect"), "subscriptions")


@rules.command()
@_database
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(database: str, ids: tuple[str, ...]) -> None:
    """Delete subscriptions: all that are named, or none if one is not there."""
    with closing(_open(database)) as engine:
        known = {str(id): id for _, id in engine.numbers()}
        engine.remove_many([known.get(id, id) for id in dict.fromkeys(ids)])
        click.echo(f"{len(set(ids)):,} subscriptions deleted, {len(engine):,} left")


@rules.command()
@_database
@format_option("jsonl", "table")
def gc(database: str, format: str) -> None:
    """Delete paths and other entries that no subscription uses any more, and list how many there were."""
    with closing(_open(database)) as engine:
        rows = [{"table": table, "deleted": count} for table, count in engine.gc().items()]
        show(format, rows, ("table", "deleted"), "tables")
