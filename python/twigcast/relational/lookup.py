"""Subscriptions by their numbers: a few by parameters, many by a join."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from twigcast.relational.database import Database


def named(db: Database, numbers: set[int], columns: str) -> dict[int, tuple[Any, ...]]:
    """Columns of query_subscription by number."""
    if not numbers:
        return {}
    if len(numbers) <= 100:
        places = ", ".join("?" * len(numbers))
        rows = db.rows(f"SELECT number, {columns} FROM query_subscription WHERE number IN ({places})", list(numbers))
    else:
        with db.change():
            db.execute("CREATE TEMP TABLE wanted (number BIGINT)")
            db.insert("wanted", pa.table({"number": pa.array(list(numbers), pa.int64())}))
            names = ", ".join(f"s.{name.strip()}" for name in columns.split(","))
            rows = db.rows(f"SELECT s.number, {names} FROM query_subscription s JOIN wanted w ON w.number = s.number")
            db.execute("DROP TABLE wanted")
    return {row[0]: row[1:] for row in rows}
