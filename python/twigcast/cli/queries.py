"""Queries and files of them on the command line: the warnings that several commands give alike."""

from __future__ import annotations

from collections.abc import Mapping

import click

from twigcast.engine.files import SHOWN, SubscriptionFile, never_matching, read_subscriptions
from twigcast.errors import OptionError, QueryError

allow_never_option = click.option(
    "--allow-never-matches", "allow_never", is_flag=True, help="Store queries that no message can match, too."
)


def read_file(name: str, *, result: str = "match") -> SubscriptionFile:
    """Read a file of subscriptions; say how many paused ones are left out, and warn if none is left."""
    file = read_subscriptions(name, result=result)
    if file.paused:
        click.echo(f"{name}: {file.paused:,} paused subscriptions are left out", err=True)
    if not file.subscriptions:
        click.echo(f"warning: {name}: there are no subscriptions, so nothing can match", err=True)
    return file


def warn_of_never(file: SubscriptionFile, namespaces: Mapping[str, str]) -> None:
    """Warn of the queries of a file that no message can match; the file has been compiled."""
    count = 0
    for line, error in never_matching(file, namespaces):
        count += 1
        if count <= SHOWN:
            click.echo(f"warning: {file.name}:{line}: {error}", err=True)
    if count > SHOWN:
        click.echo(f"warning: {file.name}: {count - SHOWN:,} more queries that never match", err=True)


def say_refused(error: QueryError | OptionError) -> QueryError | OptionError:
    """Return the error of a query that never matches with the option that allows it in the hint."""
    if error.code == "never-matches":
        error.hint = "; ".join(filter(None, [error.hint, "to store it nevertheless: --allow-never-matches"]))
    return error
