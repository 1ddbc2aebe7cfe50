"""What the engine asks of a database, and the databases by their URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from twigcast.errors import OptionError, TwigcastError
from twigcast.relational.statements import Dialect, Layout

SAX_PARSE_RESULT = "sax_parse_result"
COLUMN_TYPES: dict[str, pa.DataType] = {
    "integer": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "text": pa.string(),
    "double precision": pa.float64(), "integer[]": pa.list_(pa.int32()),
}  # fmt: skip
"""Types of SQL and of Arrow."""


class Database(Protocol):
    """Statements are in the SQL that DuckDB and PostgreSQL share; parameters are ``?``."""

    dialect: Dialect

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def table(self, name: str) -> pa.Table:
        """All of a table."""

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows, by the names of their columns."""

    def change(self) -> AbstractContextManager[None]:
        """Begin a transaction that is alone in changing the tables; all of it is done, or nothing."""

    def reading(self) -> AbstractContextManager[None]:
        """Read one state of the tables within the block."""

    def match(self, statement: str, shreds: pa.Table) -> pa.Table:
        """Run a statement over the rows of messages."""

    def has_tables(self) -> bool: ...

    def close(self) -> None: ...


@runtime_checkable
class StepByStep(Protocol):
    """A database that is better off with one table after the other than with one statement."""

    def match_tables(self, shreds: pa.Table, layout: Layout) -> pa.Table: ...


def script(name: str) -> Iterator[str]:
    """Yield the statements of a file in ``sql/``."""
    text = (files("twigcast.relational") / "sql" / name).read_text(encoding="utf-8")
    if "$$" in text:
        yield text
        return
    lines = [line.partition("--")[0] for line in text.splitlines()]
    yield from (part.strip() for part in "\n".join(lines).split(";") if part.strip())


def as_table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows, of which there is at least one, as a table."""
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@contextmanager
def temporary(database: Database, name: str, rows: pa.Table) -> Iterator[None]:
    """Keep rows in a temporary table for the block. If that fails, so does the change that it is in."""
    types = {kind: sql for sql, kind in COLUMN_TYPES.items()}
    columns = ", ".join(f"{field.name} {types[field.type]}" for field in rows.schema)
    database.execute(f"CREATE TEMP TABLE {name} ({columns})")
    database.insert(name, rows)
    yield
    database.execute(f"DROP TABLE {name}")


@contextmanager
def reported(kind: type[Exception], prefix: str = "") -> Iterator[None]:
    """Turn the errors of a database's library into ours."""
    try:
        yield
    except kind as error:
        raise TwigcastError("database", prefix + first_line(error)) from error


def first_line(error: Exception) -> str:
    """Return what an error says first; the rest may show the statement."""
    return str(error).strip().split("\n")[0]


def open_database(url: str | None, *, threads: int | None = None) -> Database:
    """``duckdb:///file`` or ``duckdb://`` (in memory), ``postgresql://…``, ``spark``; None is DuckDB in memory."""
    if url is None or url.startswith("duckdb:"):
        _need("duckdb", "duckdb")
        from twigcast.relational.duckdb_database import DuckDB

        return DuckDB(duckdb_file(url), threads=threads)
    if url.startswith(("postgresql:", "postgres:")):
        _need("psycopg", "postgres")
        from twigcast.relational.postgresql_database import PostgreSQL

        return PostgreSQL(url)
    if url == "spark":
        _need("pyspark", "spark")
        _need("duckdb", "duckdb")
        # by name: what is above this layer may know of it, not the other way round
        database: Database = import_module("twigcast.spark.relational").SparkSQL()
        return database
    raise OptionError(
        "bad-database",
        f"{url!r} names no database",
        hint="use duckdb:///file.db, postgresql://user@host/name or spark",
    )


def duckdb_file(url: str | None) -> str | None:
    """As SQLAlchemy has it: three slashes and a relative path, four and an absolute one; None is memory."""
    rest = (url or "duckdb://").removeprefix("duckdb:")
    if rest in ("", "//", "///", "///:memory:"):
        return None
    if not rest.startswith("///"):
        raise OptionError("bad-database", f"{url!r} names no file", hint="write duckdb:///file.db")
    return rest.removeprefix("///")


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise OptionError("no-database", f"the package {module} is missing", hint=f"pip install 'twigcast[{extra}]'")
