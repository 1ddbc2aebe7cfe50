"""What databases say, in words for the user; never with values, which may be secrets."""

from __future__ import annotations

import re

from sqlalchemy import exc

from twigcast.errors import TwigcastError


class StoreError(TwigcastError):
    """The store itself is the problem: out of reach, read-only, busy, damaged, of another version."""


# code, words, hint; by what SQLite says
_SQLITE = [
    ("database is locked", "store-busy", "another program keeps it locked", "try again"),
    (
        "readonly database",
        "store-read-only",
        "it cannot be written",
        "check the permissions of the file and its folder",
    ),
    ("unable to open", "store-unreachable", "the file cannot be opened", "check that its folder is there and writable"),
    ("not a database", "not-a-store", "the file is not an SQLite database", None),
    ("disk is full", "store-full", "the disk is full", None),
    ("malformed", "store-damaged", "the file is damaged", "restore it from a copy; twigcast export may save the rest"),
    ("disk I/O error", "store-failed", "the disk cannot be read or written", None),
]
# the same, by PostgreSQL's SQLSTATE
_POSTGRESQL = {
    "55P03": ("store-busy", "another program keeps it locked", "try again"),
    "25006": ("store-read-only", "it cannot be written", "name the primary server, not a read-only one"),
    "42501": ("store-refused", "the user may not do this", "grant what is missing"),
    "53100": ("store-full", "the disk is full", None),
}
# Deadlock, or a snapshot that has become stale: the same once more will do.
_AGAIN = ("40001", "40P01")


def is_passing(error: exc.DBAPIError) -> bool:
    """Worth another try at once, for surely nothing was stored. Of a connection that broke one cannot be sure."""
    return getattr(error.orig, "sqlstate", None) in _AGAIN


def translate(error: Exception, name: str) -> StoreError:
    said = _first_line(str(error.orig if isinstance(error, exc.DBAPIError) else error))
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, exc.DBAPIError) else None
    if state in _POSTGRESQL:
        code, text, hint = _POSTGRESQL[state]
        return StoreError(code, f"{name}: {text}", hint=hint)
    if "postgresql" in name:
        if isinstance(error, exc.OperationalError):
            return StoreError("store-unreachable", f"{name}: {said}", hint="check host, port, database and user")
        return StoreError("store-failed", f"{name}: {said}")
    for words, code, text, hint in _SQLITE:
        if words in said:
            return StoreError(code, f"{name}: {text}", hint=hint)
    return StoreError("store-failed", f"{name}: {said}")


def _first_line(text: str) -> str:
    line = text.strip().split("\n")[0]
    # libpq repeats parts of a connection string that it could not read
    return re.sub(r"(password=)\S+", r"\1***", line, flags=re.IGNORECASE)
