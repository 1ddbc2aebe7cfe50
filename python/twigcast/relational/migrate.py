"""The tables, made and brought up to date."""

from __future__ import annotations

from twigcast.errors import OptionError
from twigcast.relational.database import Database, script
from twigcast.relational.load import unroll_table
from twigcast.relational.plans import Plan

VERSION = 2


def create(database: Database, plan: Plan, *, again: bool = False) -> None:
    """All tables; ``again``: only those that depend on the plan, within a change."""
    if again:
        database.execute(unroll_table(plan.unroll))
        for statement in _indexes(database):
            if "ON predicate_unroll" in statement:
                database.execute(statement)
        settings = [plan.name, plan.unroll, plan.buckets]
        database.execute("UPDATE relational_meta SET plan = ?, unroll = ?, buckets = ?", settings)
        return
    with database.change():
        for statement in script("tables.sql"):
            database.execute(statement)
        database.execute(unroll_table(plan.unroll))
        for statement in _indexes(database):
            database.execute(statement)
        if database.dialect.name == "postgresql":
            for statement in script("functions.postgresql.sql"):
                database.execute(statement)
        settings = [VERSION, plan.name, plan.unroll, plan.buckets]
        database.execute("INSERT INTO relational_meta VALUES (?, ?, ?, ?, 0, 1)", settings)


def _indexes(database: Database) -> list[str]:
    return list(script(f"indexes.{'postgresql' if database.dialect.name == 'postgresql' else 'duckdb'}.sql"))


def migrate(database: Database) -> None:
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
