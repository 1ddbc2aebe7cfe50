"""The listing log of a folder: which files were found, in which micro-batch, and when.

It is a SQLite file in the state of a run. Paths are relative to the folder, so the folder and the state can be moved
together. Files that were found wait until a micro-batch takes them, which is when ``max_files`` counts. A micro-batch
is written down before it begins: one that is repeated after a crash has the same files and the same time. It is
numbered as in the delivery log, so that the two logs can be compared.

A name stands for one message: a file that is known is not listed again, whatever becomes of its content. Names of files
that were moved or deleted after they were read are forgotten.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twigcast.delivery.database import Database
from twigcast.errors import OptionError, StateDamaged, TwigcastError
from twigcast.spark.checkpoint import check as check_checkpoint
from twigcast.spark.sources.scan import Found, Scanner, Skipped
from twigcast.spark.sources.spark_log import take_over

logger = logging.getLogger(__name__)

FILE = "listing.db"
MIGRATIONS = (
    """
    CREATE TABLE about (folder TEXT NOT NULL, relative TEXT NOT NULL, next INTEGER NOT NULL, done INTEGER NOT NULL);
    CREATE TABLE entries (entry INTEGER PRIMARY KEY, arrival INTEGER NOT NULL);
    CREATE TABLE files (
        path TEXT PRIMARY KEY, entry INTEGER NOT NULL, modified INTEGER, size INTEGER, inode INTEGER,
        kept INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE INDEX files_entry ON files (entry)
    """,
    """
    CREATE TABLE waiting (
        path TEXT PRIMARY KEY, modified INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL,
        arrival INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX waiting_order ON waiting (arrival, modified, path)
    """,
)
WARN_EVERY = 60.0
"""Seconds between two warnings about files that are skipped."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The files of one micro-batch, and when they were found, in microseconds since 1970."""

    number: int
    arrival: int
    files: tuple[Found, ...]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class Listing:
    """The log, and the scanner that adds to it. One thread lists; others may ask."""

    @classmethod
    def opened(cls, state: Path, root: Path, last: int, log: Path, **options: Any) -> Listing:
        """Open the listing log that goes with a delivery log, after a check that the two belong together.

        ``last`` is the last batch of the delivery log, which lies in ``log``. The checkpoint of an earlier version,
        which lies in ``state``, is taken over.
        """
        old = (state / "offsets").is_dir()
        path = state / FILE
        if old:
            check_checkpoint(state, last, log)
        elif last >= 0 and not path.exists():
            raise StateDamaged(path, "is missing: it says which files have been read")
        elif last >= 0 and path.stat().st_size == 0:
            raise StateDamaged(path, "is empty: it says which files have been read")
        listing = cls(state, root, **options)
        if old:
            take_over(listing, state, last)
        listing.check(last, log)
        return listing

    def __init__(
        self,
        state: Path,
        root: Path,
        *,
        glob: str | None = None,
        max_files: int | None = None,
        follow_links: bool = False,
        name: str | None = None,
    ) -> None:
        """Open the log in the folder ``state``, or begin one; ``name`` is what warnings call the folder."""
        self.root = root
        self.path = state / FILE
        self._max_files = max_files or 1 << 62
        self._scanner = Scanner(str(root), glob=glob, follow_links=follow_links)
        self._follow_links = follow_links
        self._name = name or str(root)
        self._warned, self._warned_at = Skipped(), -WARN_EVERY
        self._lock = threading.RLock()
        try:
            self._database = Database(self.path, MIGRATIONS)
            self._begin()
            self._changes = -1
            self._known: set[str] = set()
            self._read_known()
        except sqlite3.Error as error:
            raise StateDamaged(self.path, f"cannot be read: {error}") from error
        except TwigcastError as error:
            if error.code != "bad-state" or not isinstance(error.__cause__, sqlite3.DatabaseError):
                raise
            raise StateDamaged(self.path, f"cannot be read: {error.__cause__}") from error

    def _begin(self) -> None:
        absolute, relative = str(self.root), os.path.relpath(self.root, self.path.parent.resolve())
        with self._database.transaction() as db:
            about = db.execute("SELECT folder, relative FROM about").fetchone()
            if about is None:
                db.execute("INSERT INTO about VALUES (?, ?, 0, -1)", (absolute, relative))
            elif absolute == about["folder"] or relative == about["relative"]:
                db.execute("UPDATE about SET folder = ?, relative = ?", (absolute, relative))
            else:
                raise OptionError(
                    "other-inbox",
                    f"the state is that of the folder {about['folder']}, and {absolute} is to be read now",
                    hint="move the folder and its state together, or read another folder as a stream of another name",
                )

    @property
    def next(self) -> int:
        """The number of the next micro-batch to be made."""
        return int(self._database.value("SELECT next FROM about"))

    def check(self, last: int, log: Path) -> None:
        """Compare with the delivery log, whose last batch is ``last``; raise :class:`StateDamaged` if they differ."""
        done = int(self._database.value("SELECT done FROM about"))
        if last < done:
            raise StateDamaged(log, f"ends with batch {last}, but batch {done} has been committed to it")
        if self.next <= last:
            raise StateDamaged(self.path, f"ends before batch {last}, which has been delivered")
        here = {row["entry"] for row in self._database.rows("SELECT entry FROM entries WHERE entry > ?", (last,))}
        for number in range(last + 1, self.next):
            if number not in here:
                raise StateDamaged(self.path, f"has lost the files of batch {number}")

    def look(self) -> int:
        """Look for new files and write them down; return how many there are."""
        try:
            self._read_known()
            found, skipped = self._scanner.scan(self._known)
        except OSError as error:
            self._warn_about(error)
            return 0
        self._warn(skipped)
        return self.add(found) if found else 0

    def _read_known(self) -> None:
        """Read the names of known files, if another process has changed the log since they were read."""
        with self._lock:
            changes = int(self._database.value("PRAGMA data_version"))
            if changes != self._changes:
                self._changes = changes
                names = self._database.rows("SELECT path FROM files UNION ALL SELECT path FROM waiting")
                self._known = {row["path"] for row in names}

    def add(self, found: Sequence[Found]) -> int:
        """Write down files that were found now; return how many are new."""
        arrival = time.time_ns() // 1000
        # Another process may have listed a file a moment ago: a query that is being restarted.
        insert = """
            INSERT OR IGNORE INTO waiting (path, modified, size, inode, arrival)
            SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM files WHERE path = ?1)
        """
        with self._lock, self._database.transaction() as db:
            added = db.executemany(insert, [(*file, arrival) for file in found]).rowcount
        self._known.update(file.path for file in found)
        return int(added)

    def take(self, number: int, *, done: int = -1) -> Entry | None:
        """Return the micro-batch of this number, or None if no file waits for it.

        It is made of the files that have waited longest, at most ``max_files`` of one arrival, unless it was made
        before. ``done`` is the last micro-batch that has been committed, which is written down too.
        """
        with self._lock:
            upcoming = self.next
            if number > upcoming:
                raise StateDamaged(self.path, f"ends before batch {number - 1}, which has been read")
            if number == upcoming and not self._make_entry(number, done):
                return None
            return self.entry(number)

    def _make_entry(self, number: int, done: int) -> bool:
        """Make a micro-batch of files that wait; return False if there are none."""
        arrival = self._database.value("SELECT min(arrival) FROM waiting")
        if arrival is None:
            return False
        oldest = "SELECT path FROM waiting WHERE arrival = ? ORDER BY modified, path LIMIT ?"
        columns = "path, modified, size, inode"
        with self._database.transaction() as db:
            db.execute(
                f"INSERT INTO files ({columns}, entry) SELECT {columns}, ? FROM waiting WHERE path IN ({oldest})",
                (number, arrival, self._max_files),
            )
            db.execute("DELETE FROM waiting WHERE path IN (SELECT path FROM files WHERE entry = ?)", (number,))
            db.execute("INSERT INTO entries VALUES (?, ?)", (number, arrival))
            db.execute("UPDATE about SET next = ?, done = max(done, ?)", (number + 1, done))
            # The files of a micro-batch that has been committed are not asked for again.
            db.execute("DELETE FROM entries WHERE entry <= ?", (done,))
        return True

    def taken(self, before: int) -> list[str]:
        """Return the files of the micro-batches before this one."""
        rows = self._database.rows("SELECT path FROM files WHERE entry < ?", (before,))
        return [row["path"] for row in rows]

    def take_over(self, found: Iterable[tuple[int, str]], upto: int) -> None:
        """Begin with files that were read before this log was there, each with its micro-batch up to ``upto``."""
        with self._lock, self._database.transaction() as db:
            rows = [(path, entry) for entry, path in found]
            db.executemany("INSERT OR IGNORE INTO files (path, entry) VALUES (?, ?)", rows)
            db.execute("UPDATE about SET next = max(next, ?)", (upto + 1,))
        self._known.update(path for path, _ in rows)

    def entry(self, number: int) -> Entry:
        """Return a micro-batch that has been made."""
        with self._lock:
            arrival = self._database.value("SELECT arrival FROM entries WHERE entry = ?", (number,))
            rows = self._database.rows(
                "SELECT path, modified, size, inode FROM files WHERE entry = ? ORDER BY modified, path", (number,)
            )
        if arrival is None:
            raise StateDamaged(self.path, f"has lost the files of batch {number}")
        return Entry(number, arrival, tuple(Found(*row) for row in rows))

    def keep(self, paths: Iterable[str]) -> None:
        """Never move or delete these files: no one has their content."""
        with self._lock, self._database.transaction() as db:
            db.executemany("UPDATE files SET kept = 1 WHERE path = ?", [(path,) for path in paths])

    def finished(self, upto: int) -> list[Entry]:
        """Return the files of micro-batches up to this one that can be moved or deleted."""
        rows = self._database.rows(
            "SELECT entry, path, modified, size, inode FROM files"
            " WHERE entry BETWEEN 0 AND ? AND NOT kept ORDER BY entry",
            (upto,),
        )
        entries: dict[int, list[Found]] = {}
        for row in rows:
            entries.setdefault(row["entry"], []).append(Found(*row[1:]))
        return [Entry(number, 0, tuple(files)) for number, files in entries.items()]

    def forget(self, paths: Iterable[str]) -> None:
        """Forget names: files that appear under them later are new messages."""
        paths = list(paths)
        with self._lock, self._database.transaction() as db:
            db.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])
        self._known.difference_update(paths)

    def close(self) -> None:
        self._database.close()

    def _warn(self, skipped: Skipped) -> None:
        now = time.monotonic()
        more = skipped.links > self._warned.links or skipped.names > self._warned.names
        if not more or now - self._warned_at < WARN_EVERY:
            return
        self._warned, self._warned_at = skipped, now
        if skipped.links:
            reason = "that lead outside of it, nowhere, or in a circle" if self._follow_links else "(see follow_links)"
            logger.warning("warning: %s: skipped %s symbolic links %s", self._name, f"{skipped.links:,}", reason)
        if skipped.names:
            logger.warning("warning: %s: skipped %s files whose names are not UTF-8", self._name, f"{skipped.names:,}")

    def _warn_about(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._warned_at >= WARN_EVERY:
            self._warned_at = now
            logger.warning("warning: %s cannot be listed: %s", self._name, error.strerror or error)
