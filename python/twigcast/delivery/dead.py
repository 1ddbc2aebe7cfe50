"""The dead letters (``dead.db``): every message that was refused and every delivery that failed, whole, with the
reason; and the failures of single subscriptions, counted.

A letter stays until it is redriven or deleted. A message goes back as a file into the redrive folder, which the
pipeline reads as one more source of its stream; a delivery goes back to its sink by way of the outbox. A subscription
that fails has one letter for each reason, with the number of messages it failed on, the first and the last of them.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from twigcast.delivery import streaks
from twigcast.delivery.database import Database
from twigcast.delivery.files import make_folder, replace
from twigcast.delivery.log import LogBatch
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.single import Waiting
from twigcast.delivery.tally import Tally
from twigcast.engine.failures import PauseRule
from twigcast.errors import OptionError, StateDamaged

_FIRST = """
CREATE TABLE IF NOT EXISTS cursors (stream TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    stream TEXT, message TEXT, time INTEGER, headers TEXT,
    reason TEXT NOT NULL, text TEXT, line INTEGER, column INTEGER, offset INTEGER,
    sink TEXT, delivery TEXT, subscription TEXT, subscriber TEXT,
    attempts INTEGER NOT NULL, created REAL NOT NULL, redriven REAL, original BLOB, file TEXT);
CREATE INDEX IF NOT EXISTS letters_created ON letters (created)
"""
_IDENTITY = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_SUBSCRIPTIONS = f"ALTER TABLE letters ADD COLUMN first_message TEXT;{streaks.MIGRATION}"
_COUNTED = "CREATE INDEX letters_open ON letters (kind, stream, sink, reason) WHERE redriven IS NULL"
MIGRATIONS = (_FIRST, _IDENTITY, _SUBSCRIPTIONS, _COUNTED)
"""A change of the tables is one more migration."""

LARGE = 64 << 20
"""From so many bytes on an original is a file of its own beside the database."""

Kind = Literal["message", "delivery", "subscription"]


@dataclass(frozen=True, slots=True)
class Letter:
    """A refused message, a delivery that failed, or a subscription that did; without its original."""

    id: int
    kind: Kind
    stream: str | None
    message: str | None
    time: int | None
    headers: dict[str, str]
    reason: str
    text: str | None
    line: int | None
    column: int | None
    offset: int | None
    sink: str | None
    delivery: str | None
    subscription: str | None
    subscriber: str | None
    attempts: int
    """Of a subscription: the messages that it failed on, of which ``message`` is the last."""
    created: float
    redriven: float | None
    first_message: str | None
    """Of a subscription: the first message that it failed on."""


_SHOWN = ", ".join(field.name for field in fields(Letter))


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why dead letters were made, and where: what they are counted by."""

    kind: str
    reason: str
    stream: str
    sink: str
    """Empty for a message, which has not come to a sink."""


class DeadLetters:
    def __init__(self, path: Path) -> None:
        self._large = path.parent / "dead"
        self.database = Database(path, MIGRATIONS)
        self.added: Tally[Cause] = Tally()
        """Dead letters that this process has made, whatever has become of them since."""

    def cursor(self, stream: str) -> int:
        """Return the last batch of a stream whose refused messages are here."""
        return int(self.database.value("SELECT batch FROM cursors WHERE stream = ?", (stream,), -1))

    def take(self, batch: LogBatch, rule: PauseRule | None = None) -> None:
        """Take the dead letters of a batch, once: messages, and failures of subscriptions."""
        made: Counter[Cause] = Counter()
        with self.database.transaction() as db:
            if self.cursor(batch.stream) >= batch.batch:
                return
            for number, letter in enumerate(_refused(batch)):
                self._insert(db, {**letter, "key": f"message/{batch.stream}/{batch.batch}/{number}"}, made)
            failures = [row for rows in batch.failures() for row in rows.to_pylist()]
            for failure in failures:
                if _count(db, batch.stream, failure):
                    made[Cause("subscription", failure["reason"], batch.stream, "")] += 1
            streaks.count(db, batch, failures, rule or PauseRule())
            db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (batch.stream, batch.batch))
        self.added.add(made)

    def add(self, sink: str, failed: Iterable[tuple[Waiting, str, str]]) -> None:
        """Add deliveries that a sink has given up, each with a reason and the last error. Again is harmless."""
        made: Counter[Cause] = Counter()
        with self.database.transaction() as db:
            for waiting, reason, text in failed:
                key = f"delivery/{sink}/{waiting.delivery}"
                # One that was redriven and failed again is the same letter, open again.
                again = db.execute(
                    "UPDATE letters SET redriven = NULL, reason = ?, text = ?, attempts = attempts + ?"
                    " WHERE key = ? AND redriven IS NOT NULL",
                    (reason, text, waiting.attempts, key),
                ).rowcount
                if again:
                    made[Cause("delivery", reason, waiting.stream, sink)] += 1
                    continue
                letter = {
                    "key": key, "kind": "delivery", "stream": waiting.stream, "message": waiting.message,
                    "time": waiting.time, "headers": json.dumps(waiting.headers), "reason": reason, "text": text,
                    "sink": sink, "delivery": waiting.delivery, "subscription": waiting.subscription,
                    "subscriber": waiting.subscriber, "attempts": waiting.attempts, "original": waiting.content,
                }  # fmt: skip
                self._insert(db, letter, made)
        self.added.add(made)

    def letters(
        self,
        *,
        stream: str | None = None,
        sink: str | None = None,
        reason: str | None = None,
        kind: Kind | None = None,
        redriven: bool = False,
        limit: int = -1,
    ) -> list[Letter]:
        """Return letters, the newest first."""
        wanted = {"stream": stream, "sink": sink, "reason": reason, "kind": kind}
        given = {name: value for name, value in wanted.items() if value is not None}
        tests = [f"{name} = ?" for name in given] + ([] if redriven else ["redriven IS NULL"])
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        query = f"SELECT {_SHOWN} FROM letters{where} ORDER BY id DESC LIMIT ?"
        return [_letter(row) for row in self.database.rows(query, (*given.values(), limit))]

    def letter(self, id: int) -> Letter:
        # A number that SQLite cannot hold is not one of its ids.
        held = -(2**63) <= id < 2**63
        rows = self.database.rows(f"SELECT {_SHOWN} FROM letters WHERE id = ?", (id,)) if held else []
        if not rows:
            raise OptionError("no-such-letter", f"there is no dead letter {id}", hint="twigcast dead list shows them")
        return _letter(rows[0])

    def original(self, id: int) -> bytes | None:
        """Return the bytes of the message or of what was to be delivered; None where they were never read."""
        row = self.database.rows("SELECT original, file FROM letters WHERE id = ?", (id,))[0]
        if row["file"] is not None:
            return self._read_large(str(row["file"]))
        return None if row["original"] is None else bytes(row["original"])

    def count(self) -> int:
        """Count the dead letters that were not redriven."""
        return sum(self.counts().values())

    def counts(self) -> dict[Cause, int]:
        """Count the dead letters that were not redriven, by cause."""
        rows = self.database.rows(
            "SELECT kind, reason, stream, sink, count(*) AS n FROM letters WHERE redriven IS NULL"
            " GROUP BY kind, stream, sink, reason"
        )
        return {Cause(r["kind"], r["reason"], r["stream"] or "", r["sink"] or ""): r["n"] for r in rows}

    def redrive(self, letter: Letter, outbox: Outbox, inbox: Path) -> None:
        """Put a letter back where it came from: a message into ``inbox/<stream>/``, a delivery to its sink."""
        if letter.kind == "subscription":
            id = letter.subscription
            text = f"dead letter {letter.id} is a failure of the subscription {id!r}, and no message or delivery"
            hint = f"mend the query or the limits; twigcast resume {id} makes it active if it was paused"
            raise OptionError("not-redrivable", text, hint=hint)
        original = self.original(letter.id)
        if original is None:
            text = f"dead letter {letter.id} has no content: the message was never read"
            raise OptionError("no-content", text, hint="send it again from where it came")
        if letter.kind == "message":
            folder = inbox / str(letter.stream)
            make_folder(folder)
            replace(folder / f"dead-{letter.id}-{int(time.time() * 1000)}.xml", original)
        else:
            waiting = Waiting(
                0, str(letter.delivery), str(letter.stream), str(letter.message), letter.time, letter.headers,
                str(letter.subscription), letter.subscriber, original,
            )  # fmt: skip
            outbox.put_back(str(letter.sink), waiting)
        with self.database.transaction() as db:
            db.execute("UPDATE letters SET redriven = ? WHERE id = ?", (time.time(), letter.id))

    def delete(self, ids: Sequence[int]) -> None:
        with self.database.transaction() as db:
            for id in ids:
                row = db.execute("SELECT file FROM letters WHERE id = ?", (id,)).fetchone()
                db.execute("DELETE FROM letters WHERE id = ?", (id,))
                if row is not None and row["file"] is not None:
                    (self._large / row["file"]).unlink(missing_ok=True)

    def close(self) -> None:
        self.database.close()

    def _read_large(self, name: str) -> bytes:
        path, hint = self._large / name, "restore it from a backup, or delete the dead letter"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise StateDamaged(path, "is missing", hint=hint) from None
        # Files of earlier versions have no digest in their names.
        if "-" in name and name.partition("-")[2] != _digest(content):
            raise StateDamaged(path, "has changed since it was written", hint=hint)
        return content

    def _insert(self, db: sqlite3.Connection, letter: dict[str, Any], made: Counter[Cause]) -> None:
        original = letter["original"]
        if original is not None and len(original) >= LARGE:
            name = f"{blake2b(letter['key'].encode(), digest_size=16).hexdigest()}-{_digest(original)}"
            make_folder(self._large)
            replace(self._large / name, original)
            letter = {**letter, "original": None, "file": name}
        letter = {"created": time.time(), **letter}
        marks = ", ".join("?" * len(letter))
        statement = f"INSERT OR IGNORE INTO letters ({', '.join(letter)}) VALUES ({marks})"
        if db.execute(statement, tuple(letter.values())).rowcount:
            made[Cause(letter["kind"], letter["reason"], letter["stream"] or "", letter.get("sink") or "")] += 1


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _refused(batch: LogBatch) -> Iterator[dict[str, Any]]:
    for rows in batch.dead():
        times = rows.column("time")
        for place in range(len(rows)):
            row = rows.slice(place, 1).drop_columns(["time"]).to_pylist()[0]
            yield {
                **row, "kind": "message", "time": times[place].value, "attempts": 1,
                "headers": json.dumps(dict(row["headers"] or ())), "reason": row["reason"] or "unknown",
            }  # fmt: skip


def _count(db: sqlite3.Connection, stream: str, failure: dict[str, Any]) -> bool:
    """Add failures to the letter of their subscription and reason, which is open again if it was dealt with.

    Return whether the letter is new, or open again.
    """
    time_of = failure["last_time"]
    letter = {
        "key": f"subscription/{failure['subscription']}/{failure['reason']}", "kind": "subscription", "stream": stream,
        "message": failure["last_message"], "first_message": failure["first_message"],
        "time": None if time_of is None else round(time_of.timestamp() * 1e6), "reason": failure["reason"],
        "text": failure["text"], "subscription": failure["subscription"], "subscriber": failure["subscriber"],
        "attempts": failure["count"], "created": time.time(),
    }  # fmt: skip
    latest = ("stream", "message", "time", "text", "subscriber")
    known = db.execute("SELECT 1 FROM letters WHERE key = ? AND redriven IS NULL", (letter["key"],)).fetchone()
    db.execute(
        f"INSERT INTO letters ({', '.join(letter)}) VALUES ({', '.join('?' * len(letter))}) ON CONFLICT (key) DO UPDATE"
        f" SET attempts = attempts + excluded.attempts, redriven = NULL,"
        f" {', '.join(f'{name} = excluded.{name}' for name in latest)}",
        tuple(letter.values()),
    )
    return known is None


def _letter(row: sqlite3.Row) -> Letter:
    return Letter(**{**dict(row), "headers": json.loads(row["headers"] or "{}")})
