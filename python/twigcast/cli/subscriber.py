"""``twigcast subscriber``: who receives, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from twigcast.cli.configuration import opened, store_option
from twigcast.cli.options import format_option
from twigcast.cli.output import show
from twigcast.common.files import read_text
from twigcast.units import format_time


@click.group(
    epilog="""\b
Examples:
  twigcast subscriber add alice --name "Alice Ahn"
  twigcast subscriber add shop --webhook https://shop.example/hook --secret-file shop.secret
  twigcast subscriber list
"""
)
def subscriber() -> None:
    """Add, list, change and remove subscribers."""


def _target_options(command: Any) -> Any:
    command = click.option("--topic", metavar="NAME", help="The subscriber's topic, for Kafka sinks.")(command)
    command = click.option(
        "--secret-file", metavar="FILE", help="Holds the secret that signs webhook calls; - for stdin."
    )(command)
    command = click.option(
        "--secret-from",
        metavar="env:NAME|file:PATH",
        help="Where to find that secret at each call; the store keeps only this reference.",
    )(command)
    return click.option("--webhook", metavar="URL", help="The subscriber's URL, for webhook sinks.")(command)


@subscriber.command(epilog="\b\nExample:\n  twigcast subscriber add alice --webhook https://alice.example/in")
@click.argument("id")
@click.option("--name", default="", help="For people.")
@_target_options
@store_option
def add(id: str, name: str, url: str, **options: str | None) -> None:
    """Add a subscriber.

    ID is up to 128 letters, digits and . _ @ + -; it becomes the name of a folder, or part of a topic's.
    """
    targets = _targets(**options)
    with opened(url, create=True) as store:
        store.add_subscriber(id, name=name, targets=targets, references=True)


@subscriber.command("set", epilog="\b\nExample:\n  twigcast subscriber set alice --webhook https://alice.example/v2")
@click.argument("id")
@_target_options
@store_option
def set_(id: str, url: str, **options: str | None) -> None:
    """Set where a subscriber receives, in the place of what was set before."""
    targets = _targets(**options)
    with opened(url) as store:
        store.set_targets(id, targets, references=True)


@subscriber.command("list", epilog="\b\nExample:\n  twigcast subscriber list --format jsonl")
@format_option("jsonl", "table")
@store_option
def list_(format: str, url: str) -> None:
    """List the subscribers. Secrets are not shown."""
    with opened(url) as store:
        rows = [
            {"id": s.id, "name": s.name, "created": format_time(s.created.timestamp()), "targets": s.shown_targets()}
            for s in store.subscribers()
        ]
    show(format, rows, ("id", "name", "created", "targets"), "subscribers")


@subscriber.command(epilog="\b\nExample:\n  twigcast subscriber remove alice --with-subscriptions")
@click.argument("id")
@click.option("--with-subscriptions", is_flag=True, help="Remove the subscriber's subscriptions too.")
@store_option
def remove(id: str, with_subscriptions: bool, url: str) -> None:
    """Remove a subscriber."""
    with opened(url) as store:
        gone = store.remove_subscriber(id, with_subscriptions=with_subscriptions)
    if gone:
        click.echo(f"{gone:,} subscriptions removed", err=True)


def _targets(
    webhook: str | None, secret_file: str | None, secret_from: str | None, topic: str | None
) -> dict[str, dict[str, str]]:
    targets: dict[str, dict[str, str]] = {}
    if webhook is not None:
        targets["webhook"] = {"url": webhook}
    if secret_file is not None and secret_from is not None:
        raise click.UsageError("use one of --secret-file and --secret-from")
    # From a file and not from an argument: arguments show in the list of processes and in the shell's history.
    if secret_file is not None or secret_from is not None:
        if webhook is None:
            raise click.UsageError("--secret-file and --secret-from go with --webhook")
        targets["webhook"]["secret"] = read_text(secret_file).strip() if secret_file else _reference(str(secret_from))
    if topic is not None:
        targets["kafka"] = {"topic": topic}
    return targets


def _reference(text: str) -> str:
    from twigcast.common.references import absolute, is_reference

    if not is_reference(text):
        raise click.UsageError("--secret-from takes env:NAME or file:PATH, not the secret itself")
    return absolute(text, Path.cwd())
