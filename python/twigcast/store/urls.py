"""Where a store is: ``sqlite:///file``, or ``postgresql://user:password@host/database``.

The password may be ``env:NAME`` or ``file:PATH``; it is looked up at each connection.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from twigcast.common.references import absolute, is_reference
from twigcast.errors import OptionError

DEFAULT = "sqlite:///twigcast.db"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_HINT = f"use sqlite:///FILE (the default is {DEFAULT}) or postgresql://USER:PASSWORD@HOST/DATABASE"


class StoreUrlError(OptionError, ValueError):
    """Also a ValueError, which is what pydantic collects."""


def check_url(text: str) -> str:
    """The URL with the driver that Twigcast uses. The error does not repeat what may be a password."""
    url = parse_url(text)
    if "@" in f"{url.host}{url.database}" and url.drivername != "sqlite":
        # Not shown: what stands after the first @ may be the rest of a password.
        hint = "write @ as %40, / as %2F, : as %3A and % as %25"
        raise StoreUrlError("bad-store-url", "the password in the URL has characters that end it", hint=hint)
    if url.drivername.startswith("postgresql") and not url.database:
        raise StoreUrlError("bad-store-url", "the URL of a PostgreSQL store names a database", hint=_HINT)
    if url.drivername == "sqlite" and (url.host or not url.database or url.database == ":memory:"):
        text = "the URL of an SQLite store names a file, after three slashes"
        raise StoreUrlError("bad-store-url", text, hint=_HINT)
    return url.render_as_string(hide_password=False)


def parse_url(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreUrlError("bad-store-url", "this is not the URL of a store", hint=_HINT) from None
    scheme, _, driver = url.drivername.partition("+")
    if scheme not in _DRIVERS or (driver and f"{scheme}+{driver}" != _DRIVERS[scheme]):
        raise StoreUrlError("bad-store-url", f"there is no store of the kind {url.drivername!r}", hint=_HINT)
    return url.set(drivername=_DRIVERS[scheme])


def resolve(text: str, folder: Path) -> str:
    """Return the URL with its SQLite file, or the file of a ``file:`` password, made absolute from ``folder``."""
    url = parse_url(text)
    if is_reference(str(url.password)):
        return url.set(password=absolute(str(url.password), folder)).render_as_string(hide_password=False)
    if url.drivername != "sqlite" or not url.database or url.database.startswith("file:"):
        return text
    return url.set(database=str((folder / url.database).absolute())).render_as_string(hide_password=False)


def sqlite_file(text: str) -> Path | None:
    """The file of an SQLite store, None for another kind."""
    url = parse_url(text)
    return Path(url.database.removeprefix("file:")) if url.drivername == "sqlite" and url.database else None


def shown(text: str) -> str:
    """For messages: without password, and without parameters, which may hold one too."""
    url = parse_url(text)
    if url.drivername == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True).replace("+psycopg", "", 1)
