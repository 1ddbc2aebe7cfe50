"""PostgreSQL: a server, through psycopg. The rows of messages go by COPY into a temporary table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import IsolationLevel

from twigcast.common.forking import refuse_if_forked
from twigcast.errors import OptionError
from twigcast.relational.database import COLUMN_TYPES, SAX_PARSE_RESULT, first_line, reported
from twigcast.relational.statements import POSTGRESQL

# Whoever changes the tables holds this lock of the database: two at a time could each miss what the other enters.
_CHANGING = 0x74776967


class PostgreSQL:
    dialect = POSTGRESQL

    def __init__(self, url: str) -> None:
        try:
            self._connection = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            raise OptionError("bad-database", f"PostgreSQL: {first_line(error)}") from error
        # statements of this kind run once per batch; a generic plan would not know how few rows a message has
        self._connection.prepare_threshold = 2
        self._lock = RLock()
        refuse_if_forked(self, "_lock")
        self.execute("SET client_min_messages = warning")
        self.execute(
            f"CREATE TEMP TABLE {SAX_PARSE_RESULT} (event_id INTEGER, tagpath_id INTEGER, idpath INTEGER[], value TEXT,"
            " number DOUBLE PRECISION) ON COMMIT DELETE ROWS"
        )

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._lock, _reported():
            self._connection.execute(_placed(sql, parameters), list(parameters) or None)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, _reported():
            return self._connection.execute(_placed(sql, parameters), list(parameters) or None).fetchall()

    def table(self, name: str) -> pa.Table:
        columns = self.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [name],
        )
        rows = self.rows(f"SELECT * FROM {name}")
        cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
        arrays = [pa.array(column, COLUMN_TYPES[kind]) for column, (_, kind) in zip(cells, columns, strict=True)]
        return pa.Table.from_arrays(arrays, [name for name, _ in columns])

    def insert(self, table: str, rows: pa.Table) -> None:
        names = ", ".join(rows.column_names)
        statement: Any = f"COPY {table} ({names}) FROM STDIN"
        with self._lock, _reported(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for batch in rows.to_batches(max_chunksize=10_000):
                columns = [column.to_pylist() for column in batch.columns]
                for row in zip(*columns, strict=True):
                    copy.write_row(row)

    @contextmanager
    def change(self) -> Iterator[None]:
        with self._lock, _reported(), self._connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(?)", [_CHANGING])
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock, _reported():
            self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
            try:
                with self._connection.transaction():
                    yield
            finally:
                self._connection.isolation_level = None

    def match(self, statement: str, shreds: pa.Table) -> pa.Table:
        self.insert(SAX_PARSE_RESULT, shreds)
        self.execute(f"ANALYZE {SAX_PARSE_RESULT}")
        with self._lock, _reported():
            rows = self._connection.execute(_placed(statement, ())).fetchall()
        events, subscriptions = zip(*rows, strict=True) if rows else ((), ())
        return pa.table({"event_id": pa.array(events, pa.int32()), "sub_id": pa.array(subscriptions, pa.int64())})

    def has_tables(self) -> bool:
        return self.rows("SELECT to_regclass('relational_meta') IS NOT NULL")[0][0] is True

    def close(self) -> None:
        self._connection.close()


def _placed(sql: str, parameters: Sequence[Any]) -> Any:
    return sql.replace("?", "%s") if parameters else sql


def _reported() -> AbstractContextManager[None]:
    return reported(psycopg.Error, "PostgreSQL: ")
