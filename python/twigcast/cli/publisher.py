"""``twigcast publisher``: who publishes a stream, and by which schema."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from twigcast.cli.configuration import opened, store_option
from twigcast.cli.options import OneOf, format_option
from twigcast.cli.output import show
from twigcast.common.files import read_text
from twigcast.errors import OptionError
from twigcast.limits import ON_INVALID


@click.group(
    epilog="""\b
Examples:
  twigcast publisher add shop --stream orders --schema orders.xsd --on-invalid reject
  twigcast publisher list
  twigcast publisher remove shop
"""
)
def publisher() -> None:
    """Add, list and remove publishers: whose schema the messages of a stream have."""


@publisher.command(epilog="\b\nExample:\n  twigcast publisher add shop --stream orders --schema orders.dtd")
@click.argument("id")
@click.option("--stream", required=True, metavar="NAME", help="The stream that it publishes.")
@click.option("--schema", "file", required=True, metavar="FILE", help="A .dtd or .xsd; its text goes into the store.")
@click.option(
    "--on-invalid",
    type=OneOf(ON_INVALID),
    default=ON_INVALID[0],
    show_default=True,
    help="What becomes of a message that is not valid: a dead letter; matched all the same; or not checked.",
)
@click.option("--replace", is_flag=True, help="Put it in the place of the publisher with this id.")
@store_option
def add(id: str, stream: str, file: str, on_invalid: str, replace: bool, url: str) -> None:
    """Add a publisher.

    A stream whose configuration names a publisher of its own has that one, and not those of the store. With several
    publishers a message must be valid by the schema of one of them.
    """
    from twigcast.store import PublisherRecord

    path = Path(file)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("dtd", "xsd"):
        raise OptionError("bad-schema-kind", f"{file}: a schema is a file that ends in .dtd or .xsd")
    record = PublisherRecord(id, stream, read_text(path), kind, on_invalid)
    with opened(url, create=True) as store:
        store.put_publisher(record, replace=replace)


@publisher.command("list", epilog="\b\nExample:\n  twigcast publisher list --format jsonl")
@format_option("jsonl", "table")
@store_option
def list_(format: str, url: str) -> None:
    """List the publishers; `show` has their schemas."""
    with opened(url) as store:
        rows = [{**asdict(p), "schema_bytes": len(p.schema.encode())} for p in store.publishers()]
    columns = ("id", "stream", "schema_kind", "schema_bytes", "on_invalid")
    show(format, [{name: row[name] for name in columns} for row in rows], columns, "publishers")


@publisher.command("show", epilog="\b\nExample:\n  twigcast publisher show shop > orders.xsd")
@click.argument("id")
@store_option
def show_(id: str, url: str) -> None:
    """Write a publisher's schema."""
    with opened(url) as store:
        sys.stdout.buffer.write(store.publisher(id).schema.encode())


@publisher.command(epilog="\b\nExample:\n  twigcast publisher remove shop")
@click.argument("id")
@store_option
def remove(id: str, url: str) -> None:
    """Remove a publisher."""
    with opened(url) as store:
        store.remove_publisher(id)
