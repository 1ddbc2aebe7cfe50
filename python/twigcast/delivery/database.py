"""A SQLite file shared by the threads of a pipeline, and by the command line beside it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twigcast.common.private_files import FOLDER_MODE, make_private_file
from twigcast.delivery.files import make_folder, read_identity
from twigcast.errors import StateDamaged, TwigcastError

_WAIT = 30.0


class Database:
    """One connection under a lock: SQLite has one writer at a time anyway, and transactions here are short."""

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        """Open the file and bring it up to date.

        Each migration is SQL that leads from one version of the tables to the next; the file's ``user_version`` counts
        those that have been applied. The first must accept tables that are there: files that were made before
        migrations were counted have them, and ``user_version`` 0.
        """
        self.path = path
        self._lock = threading.RLock()
        known = read_identity(path.parent)
        if known is not None:
            self._must_exist()
        try:
            make_folder(path.parent, FOLDER_MODE)
            make_private_file(path)
            self._connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            # What is acknowledged stays so after a loss of power: batches are deleted from the log on its word.
            self._connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                self._migrate(migrations)
        except (OSError, sqlite3.Error) as error:
            raise self._problem(error) from error
        if known is not None and self.state != known:
            self.close()
            raise StateDamaged(path, "is not the one that belongs to this state folder")

    @property
    def state(self) -> str | None:
        """The id of the state folder that the database belongs to; None in a new one."""
        found = self.value("SELECT value FROM meta WHERE key = 'state'")
        return None if found is None else str(found)

    def adopt(self, state: str) -> None:
        """Record the id of the state folder, unless the database has one."""
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('state', ?)", (state,))

    def check(self) -> None:
        """Raise :class:`StateDamaged` if SQLite finds the file damaged. Reads all of it."""
        try:
            found = self.value("PRAGMA quick_check(1)")
        except sqlite3.Error as error:
            raise self._problem(error) from error
        if found != "ok":
            raise StateDamaged(self.path, f"is damaged: {' '.join(str(found).split())[:200]}")

    def _must_exist(self) -> None:
        # SQLite would make a new database of a file that is missing or empty.
        if not self.path.exists():
            raise StateDamaged(self.path, "is missing")
        if not self.path.stat().st_size:
            raise StateDamaged(self.path, "is empty")

    def _problem(self, error: Exception) -> TwigcastError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StateDamaged(self.path, f"is damaged: {error}")
        return TwigcastError("bad-state", f"cannot open {self.path}: {error}")

    def _migrate(self, migrations: Sequence[str]) -> None:
        (applied,) = self._connection.execute("PRAGMA user_version").fetchone()
        if applied > len(migrations):
            text = f"{self.path}: a newer Twigcast made it (version {applied}; this one knows {len(migrations)})"
            raise TwigcastError("newer-state", text, hint="upgrade Twigcast, or use another state folder")
        for migration in migrations[applied:]:
            for statement in migration.split(";"):
                self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version = {len(migrations)}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing of it."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite ends it by itself on some errors, such as a full disk
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def value(self, query: str, values: Sequence[Any] = (), default: Any = None) -> Any:
        """Return the first column of the first row, or ``default`` if there is no row."""
        with self._lock:
            row = self._connection.execute(query, values).fetchone()
        return default if row is None else row[0]

    def close(self) -> None:
        with self._lock:
            self._connection.close()
