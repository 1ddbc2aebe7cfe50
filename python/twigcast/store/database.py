"""Connections and transactions: one writer at a time, readers that see one version; tables are made when missing."""

from __future__ import annotations

import random
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    exc,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)

from twigcast.common.forking import drop_if_forked
from twigcast.common.private_files import make_private_file
from twigcast.common.references import is_reference, resolve
from twigcast.store import migrations, tables
from twigcast.store.errors import StoreError, is_passing, translate
from twigcast.store.urls import check_url, parse_url, shown

T = TypeVar("T")

TRIES = 4
HISTORY = 30 * 86400.0
"""Seconds for which it is known what has changed, unless one says otherwise."""
PRUNE_EVERY = 256
"""Versions."""
_WRITE = "twigcast_write"
_PRUNED = "pruned"
# Any number, but always the same: two programs that find an empty database make its tables one after the other.
_CREATION_LOCK = 0x7477_6967


class Writer:
    """A transaction that may change the store. It becomes a version only if something is noted."""

    def __init__(self, connection: Connection, version: int) -> None:
        self.connection = connection
        self.version = version
        """The version that the transaction makes."""
        self.noted: tuple[str, str | None, int] | None = None

    def note(self, op: str, subject: str | None = None, count: int = 1) -> None:
        self.noted = op, subject, count


class Database:
    def __init__(self, url: str, *, create: bool = True, timeout: float = 30.0, history: float = HISTORY) -> None:
        url = check_url(url)
        self.name = shown(url)
        self.is_sqlite = url.startswith("sqlite")
        self._timeout = timeout
        self._history = history
        file = parse_url(url).database if self.is_sqlite else None
        if file is not None and not create and not file.startswith("file:") and not Path(file).exists():
            raise no_store(self.name)
        if file is not None and create and not file.startswith("file:"):
            with suppress(OSError):  # the database tells better what is wrong with the path
                make_private_file(Path(file))
        self.engine = _engine(url, self.is_sqlite, timeout)
        drop_if_forked(self.engine)
        try:
            with self._translated():
                self._prepare(create)
        except BaseException:
            self.engine.dispose()
            raise

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All that is read within is of one version."""
        with self._translated(), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, change: Callable[[Writer], T]) -> T:
        """Runs ``change`` as one transaction, again where the database asks for it."""
        with self._translated(), self.engine.connect() as connection:
            for left in reversed(range(TRIES)):
                try:
                    return self.write_on(connection, change)
                except exc.DBAPIError as error:
                    if not left or not is_passing(error):
                        raise
                time.sleep(random.uniform(0.01, 0.1))
        raise AssertionError("unreachable")

    def write_on(self, connection: Connection, change: Callable[[Writer], T]) -> T:
        """As ``write``, on a connection that the caller has, and once."""
        connection = connection.execution_options(**{_WRITE: True})
        with connection.begin():
            writer = Writer(connection, self._lock(connection) + 1)
            result = change(writer)
            if writer.noted is not None:
                self._finish(writer, *writer.noted)
            return result

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """For several transactions in a row on one connection."""
        with self._translated(), self.engine.connect() as connection:
            yield connection

    def version(self, connection: Connection) -> int:
        return int(self.meta(connection, "version"))

    def pruned(self, connection: Connection) -> int:
        """The version before which changes are forgotten."""
        found = connection.execute(select(tables.meta.c.value).where(tables.meta.c.key == _PRUNED)).scalar()
        return int(found or 0)

    def prune(self) -> int:
        return self.write(self._prune)

    def _prune(self, writer: Writer) -> int:
        old = (datetime.now(UTC) - timedelta(seconds=self._history)).isoformat(timespec="milliseconds")
        connection = writer.connection
        changes, ended = tables.changes, tables.ended
        last = connection.execute(select(func.max(changes.c.version)).where(changes.c.time < old)).scalar()
        if last is None:
            return self.pruned(connection)
        for table in (changes, ended):
            connection.execute(delete(table).where(table.c.version <= last))
        connection.execute(delete(tables.meta).where(tables.meta.c.key == _PRUNED))
        connection.execute(insert(tables.meta).values(key=_PRUNED, value=str(last)))
        return int(last)

    def meta(self, connection: Connection, key: str) -> str:
        return str(connection.execute(select(tables.meta.c.value).where(tables.meta.c.key == key)).scalar_one())

    def _lock(self, connection: Connection) -> int:
        """Waits for other writers; the version that they left. SQLite has locked at BEGIN IMMEDIATE."""
        query = select(tables.meta.c.value).where(tables.meta.c.key == "version")
        if not self.is_sqlite:
            connection.execute(text(f"SET LOCAL lock_timeout = {int(self._timeout * 1000)}"))
            query = query.with_for_update()
        return int(connection.execute(query).scalar_one())

    def _finish(self, writer: Writer, op: str, subject: str | None, count: int) -> None:
        version = writer.version
        writer.connection.execute(update(tables.meta).where(tables.meta.c.key == "version").values(value=str(version)))
        writer.connection.execute(
            insert(tables.changes).values(version=version, time=now(), op=op, subject=subject, count=count)
        )
        if version % PRUNE_EVERY == 0 or count >= PRUNE_EVERY:
            self._prune(writer)

    def _prepare(self, create: bool) -> None:
        """Make the tables, or bring those of an older version up to date."""
        with self.engine.connect() as connection:
            has_tables = inspect(connection).has_table(tables.meta.name)
            if has_tables and self._is_current(connection):
                return
        if not has_tables and not create:
            raise no_store(self.name)
        with self.engine.connect() as connection:
            if self.is_sqlite and not has_tables:
                _set_wal(connection)
            connection = connection.execution_options(**{_WRITE: True})
            with connection.begin():
                # Another program may be doing the same; whoever comes second finds it done.
                if not self.is_sqlite:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})"))
                if not inspect(connection).has_table(tables.meta.name):
                    tables.metadata.create_all(connection, checkfirst=False)
                    first = {"schema": str(tables.SCHEMA), "identity": uuid.uuid4().hex, "version": "0"}
                    connection.execute(insert(tables.meta), [{"key": k, "value": v} for k, v in first.items()])
                    migrations.stamp(connection)
                elif not self._is_current(connection):
                    migrations.upgrade(connection)

    def _is_current(self, connection: Connection) -> bool:
        """Whether the tables are those of this version; raise an error if they are of a newer one."""
        schema, revision = int(self.meta(connection, "schema")), migrations.revision(connection)
        if schema > tables.SCHEMA or revision > migrations.HEAD:
            known = f"schema {schema}, revision {revision}; this version knows {tables.SCHEMA} and {migrations.HEAD}"
            words = f"{self.name}: a newer Twigcast made it ({known})"
            raise StoreError("newer-store", words, hint="upgrade Twigcast, or name another store")
        return revision == migrations.HEAD

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            # without the cause: it has SQL and values
            raise translate(error, self.name) from None


def no_store(name: str) -> StoreError:
    hint = "subscribe, import or subscriber add makes one; --store URL or -c FILE names another"
    return StoreError("no-store", f"{name}: there is no store", hint=hint)


def _set_wal(connection: Connection) -> None:
    """Readers do not wait for writers, nor writers for readers. It stays with the file."""
    raw = connection.connection.driver_connection
    assert raw is not None
    for left in reversed(range(50)):
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # Here SQLite itself does not wait for others that make the same file at the same time.
            if "locked" not in str(error) or not left:
                raise
        time.sleep(0.1)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _engine(url: str, is_sqlite: bool, timeout: float) -> Engine:
    if not is_sqlite:
        try:
            # hide_parameters: secrets of targets must not show in a log
            engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        except ModuleNotFoundError:
            hint = "pip install 'twigcast[postgres]'"
            raise StoreError("no-driver", "PostgreSQL needs the package psycopg", hint=hint) from None
        if is_reference(str(engine.url.password)):

            @event.listens_for(engine, "do_connect")
            def authenticate(dialect: object, record: object, arguments: object, options: dict[str, Any]) -> None:
                options["password"] = resolve(str(engine.url.password), "the password in the store's URL")

        return engine
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": timeout})

    # The driver's own idea of when to begin a transaction would end snapshots early and lock late.
    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
