"""The tables: made, brought up to date, cleared of what nobody uses, and asked for subscriptions by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from twigcast.errors import OptionError
from twigcast.relational.compile import IN
from twigcast.relational.database import Database, script, temporary
from twigcast.relational.statements import Layout

VERSION = 2
UNROLL = 5
"""Predicates of a conjunction that stand in one row of predicate_unroll."""
# Shapes of unrolled rows that get a join of their own, if they have this many rows.
OWN_JOINS, OWN_JOIN_ROWS = 16, 1_000


def create(database: Database, unroll: int = UNROLL) -> None:
    """Make all tables."""
    columns = ", ".join(
        f"path{i} INTEGER NOT NULL, op{i} TEXT NOT NULL, value{i} TEXT NOT NULL, number{i} DOUBLE PRECISION NOT NULL"
        for i in range(1, unroll + 1)
    )
    with database.change():
        for statement in script("tables.sql"):
            database.execute(statement)
        database.execute(
            "CREATE TABLE predicate_unroll (sub_id BIGINT NOT NULL, shape INTEGER NOT NULL,"
            f" first_id INTEGER DEFAULT 0, chain_id BIGINT NOT NULL, final BOOLEAN NOT NULL, {columns})"
        )
        if database.dialect.name == "postgresql":
            # DuckDB has no indexes: it joins by hashing, and scans columns faster than its indexes would be kept.
            for name in ("indexes.postgresql.sql", "functions.postgresql.sql"):
                for statement in script(name):
                    database.execute(statement)
        # The plan and its buckets are those of the paper's layouts (twigcast.papers.relational).
        database.execute("INSERT INTO relational_meta VALUES (?, 'unroll', ?, 20, 0, 1)", [VERSION, unroll])


def migrate(database: Database) -> None:
    """Bring the tables of an earlier version up to date."""
    ((version,),) = database.rows("SELECT version FROM relational_meta")
    if version > VERSION:
        raise OptionError(
            "newer-database",
            f"the database has tables of version {version}, and this Twigcast knows versions up to {VERSION}",
            hint="use the newer Twigcast",
        )
    if version == VERSION:
        return
    with database.change():
        for old in range(version, VERSION):
            names = [f"migrate.{old}.sql"]
            if database.dialect.name == "postgresql":
                names.append(f"migrate.{old}.postgresql.sql")
            for statement in (statement for name in names for statement in script(name)):
                database.execute(statement)
        database.execute("UPDATE relational_meta SET version = ?", [VERSION])


def delete_orphans(database: Database, unroll: int) -> dict[str, int]:
    """Delete what no subscription uses any more (relational §3.2), within a change. Return how many rows of each table
    went."""
    uses = "SELECT linear_path_id FROM query_predicate UNION SELECT linear_path_id FROM query_branch_point"
    for i in range(1, unroll + 1):
        uses += f" UNION SELECT path{i} FROM predicate_unroll"
    orphans = {
        "linear_path_br_info": "br_info_id NOT IN (SELECT br_info_id FROM query_branch_point)",
        "query_linear_path": f"id NOT IN ({uses})",
        "path_match": "linear_path_id NOT IN (SELECT id FROM query_linear_path)",
        "tagpath_br_info": "br_info_id NOT IN (SELECT br_info_id FROM linear_path_br_info)",
        "tagpath_map": "tagpath_id NOT IN (SELECT tagpath_id FROM path_match)",
        "query_bucket": "linear_path_id NOT IN (SELECT id FROM query_linear_path)",
        "unroll_first": "first_id NOT IN (SELECT first_id FROM predicate_unroll)",
        "unroll_shape": "shape NOT IN (SELECT shape FROM predicate_unroll)",
    }
    removed = {}
    for table, condition in orphans.items():
        ((removed[table],),) = database.rows(f"SELECT count(*) FROM {table} WHERE {condition}")
        if removed[table]:
            database.execute(f"DELETE FROM {table} WHERE {condition}")
    return removed


def named(database: Database, numbers: set[int], columns: str) -> dict[int, tuple[Any, ...]]:
    """Return columns of query_subscription by number: a few are looked up by parameters, many by a join."""
    if not numbers:
        return {}
    if len(numbers) <= 100:
        places = ", ".join("?" * len(numbers))
        statement = f"SELECT number, {columns} FROM query_subscription WHERE number IN ({places})"
        rows = database.rows(statement, list(numbers))
    else:
        wanted = pa.table({"number": pa.array(list(numbers), pa.int64())})
        with database.change(), temporary(database, "wanted", wanted):
            rows = database.rows(f"SELECT number, {columns} FROM query_subscription JOIN wanted USING (number)")
    return {row[0]: row[1:] for row in rows}


def layout_of(database: Database, unroll: int) -> Layout:
    """Return what of the tables a statement has to look at, as they are now."""
    counts: list[Any] = database.rows(
        "SELECT u.shape, s.signature, count(*) AS n FROM predicate_unroll u JOIN unroll_shape s"
        " ON s.shape = u.shape GROUP BY u.shape, s.signature ORDER BY n DESC, u.shape"
    )

    def has(table: str, condition: str) -> bool:
        return bool(database.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1"))

    return layout_from(unroll, counts, has)


def layout_from(unroll: int, counts: Sequence[tuple[int, str, int]], has: Callable[[str, str], bool]) -> Layout:
    """Return a layout. ``counts``: shapes of unrolled rows with their signatures and numbers of rows, most rows first;
    ``has`` tells whether a table has rows that meet a condition."""
    large = [(shape, signature) for shape, signature, n in counts[:OWN_JOINS] if n >= OWN_JOIN_ROWS]
    shapes = tuple(one for one in large if not one[1].endswith(IN))
    return Layout(
        unroll=unroll,
        chains=has("query_predicate", "TRUE"),
        starts=has("query_predicate", "pre_id = 0"),
        branches=has("query_branch_point", "TRUE"),
        alternatives=has("query_alternative", "TRUE"),
        references=has("reference_value", "TRUE"),
        shapes=shapes,
        others=len(counts) > len(shapes),
    )
