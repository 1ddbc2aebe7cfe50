"""DuckDB: embedded, in a file or in memory. Messages and results pass as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import PythonUDFType

from twigcast.common.forking import refuse_if_forked
from twigcast.errors import OptionError
from twigcast.relational.database import SAX_PARSE_RESULT, first_line, reported
from twigcast.relational.statements import DUCKDB
from twigcast.relational.worker import br_pred


class DuckDB:
    dialect = DUCKDB

    def __init__(self, file: str | None = None, *, threads: int | None = None) -> None:
        try:
            self._connection = duckdb.connect(file or ":memory:")
            # Joins go in the order written: of a recursion DuckDB does not know how few rows a step reads, and would
            # join every message with every first predicate before it looks at values.
            self._connection.execute("SET disabled_optimizers = 'join_order'")
            if threads is not None:
                self._connection.execute(f"SET threads = {int(threads)}")
        except duckdb.Error as error:
            raise OptionError("bad-database", f"{file}: {first_line(error)}") from error
        lists: list[Any] = ["INTEGER[]", "INTEGER[][]", "INTEGER[][]"]
        self._connection.create_function("br_pred", br_pred, lists, "BOOLEAN", type=PythonUDFType.ARROW)
        # a connection does one thing at a time
        self._lock = RLock()
        refuse_if_forked(self, "_lock")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._lock, _reported():
            self._connection.execute(sql, list(parameters))

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, _reported():
            found: list[tuple[Any, ...]] = self._connection.execute(sql, list(parameters)).fetchall()
            return found

    def table(self, name: str) -> pa.Table:
        with self._lock, _reported():
            return self._connection.sql(f"SELECT * FROM {name}").to_arrow_table()

    def insert(self, table: str, rows: pa.Table) -> None:
        names = ", ".join(rows.column_names)
        with self._lock, _reported(), self._registered("inserted_rows", rows):
            self._connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM inserted_rows")

    @contextmanager
    def change(self) -> Iterator[None]:
        with self._lock:
            self.execute("BEGIN")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            yield

    def match(self, statement: str, shreds: pa.Table) -> pa.Table:
        with self._lock, _reported(), self._registered(SAX_PARSE_RESULT, shreds):
            return self._connection.sql(statement).to_arrow_table()

    @contextmanager
    def _registered(self, name: str, rows: pa.Table) -> Iterator[None]:
        self._connection.register(name, rows)
        try:
            yield
        finally:
            self._connection.unregister(name)

    def has_tables(self) -> bool:
        found = self.rows("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'relational_meta'")
        return bool(found[0][0])

    def close(self) -> None:
        self._connection.close()


def _reported() -> AbstractContextManager[None]:
    return reported(duckdb.Error)
