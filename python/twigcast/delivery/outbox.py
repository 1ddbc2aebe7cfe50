"""The durable outbox (``outbox.db``): how far each sink is, what waits to be sent, and what is held back.

``queue`` has deliveries that a sink sends one by one, at its own pace (webhooks). ``held`` has those that are not due:
for digests, and deliveries that come back from the dead letter. A body is kept once per batch and sink.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from twigcast.delivery.database import Database
from twigcast.delivery.log import Piece
from twigcast.delivery.single import Waiting
from twigcast.delivery.tally import Tally

_FIRST = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (
    sink TEXT, stream TEXT, batch INTEGER NOT NULL, PRIMARY KEY (sink, stream)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS health (
    sink TEXT PRIMARY KEY, since REAL NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bodies (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS queue (
    id INTEGER PRIMARY KEY, sink TEXT NOT NULL, delivery TEXT NOT NULL, target TEXT NOT NULL,
    stream TEXT, message TEXT, time INTEGER, headers TEXT, subscription TEXT, subscriber TEXT,
    body INTEGER NOT NULL, created REAL NOT NULL, next REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, error TEXT,
    UNIQUE (sink, delivery));
CREATE INDEX IF NOT EXISTS queue_next ON queue (sink, target, next);
CREATE INDEX IF NOT EXISTS queue_body ON queue (body);
CREATE TABLE IF NOT EXISTS held (
    id INTEGER PRIMARY KEY, sink TEXT NOT NULL, delivery TEXT NOT NULL,
    stream TEXT, message TEXT, time INTEGER, headers TEXT, subscription TEXT, subscriber TEXT,
    body INTEGER NOT NULL, due REAL NOT NULL, alone INTEGER NOT NULL, release INTEGER, released REAL,
    UNIQUE (sink, delivery));
CREATE INDEX IF NOT EXISTS held_group ON held (sink, release, subscription, alone, due);
CREATE INDEX IF NOT EXISTS held_due ON held (sink, due);
CREATE INDEX IF NOT EXISTS held_body ON held (body)
"""
MIGRATIONS = (_FIRST,)
"""A change of the tables is one more migration."""

TargetOf = Callable[[str | None], str]
_First = Callable[[str, str | None, int], tuple[object, ...]]
_COMMON = "stream, message, time, headers, subscription, subscriber, body"


class Outbox:
    def __init__(self, path: Path) -> None:
        self.database = Database(path, MIGRATIONS)
        self.database.adopt(uuid.uuid4().hex[:8])
        self.put_off: Tally[str] = Tally()
        """Per sink the deliveries that this process tried in vain and will try again, once for each try."""

    @property
    def state(self) -> str:
        """An id of the state folder, so that its batch numbers are not taken for those of another one."""
        return str(self.database.state)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def cursor(self, sink: str, stream: str) -> int:
        """Return the last batch that a sink has taken, -1 if none."""
        return int(self.database.value("SELECT batch FROM cursors WHERE sink = ? AND stream = ?", (sink, stream), -1))

    def cursors(self, stream: str) -> dict[str, int]:
        """Return the last batch of a stream that each sink has taken, also sinks that are no longer configured.

        A name that ends in ``/queue`` is that of a sink's queue, which takes a batch before the sink has.
        """
        rows = self.database.rows("SELECT sink, batch FROM cursors WHERE stream = ?", (stream,))
        return {str(row["sink"]): int(row["batch"]) for row in rows}

    def advance(self, db: sqlite3.Connection, sink: str, stream: str, batch: int) -> None:
        """Record that a sink has taken a batch, or given it up, in the caller's transaction."""
        db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (sink, stream, batch))
        db.execute("DELETE FROM meta WHERE key = ?", (f"given-up/{sink}/{stream}",))

    # -- batches that are being given up ------------------------------------------------------------------------------

    def give_up(self, sink: str, stream: str, batch: int, attempts: int, error: str) -> None:
        """Record the decision, durably, before the deliveries become dead letters: the batch is not tried again."""
        value = json.dumps({"batch": batch, "attempts": attempts, "error": error})
        with self.database.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"given-up/{sink}/{stream}", value))

    def given_up(self, sink: str, stream: str, batch: int) -> tuple[int, str] | None:
        """Return the attempts and the error of a batch that a run has begun to give up; None for other batches."""
        found = self.database.value("SELECT value FROM meta WHERE key = ?", (f"given-up/{sink}/{stream}",))
        decision = json.loads(found) if found is not None else None
        return (decision["attempts"], decision["error"]) if decision and decision["batch"] == batch else None

    # -- what a sink must know of its last attempt --------------------------------------------------------------------

    def remember(self, sink: str, name: str, value: str) -> None:
        """Keep a value for a sink, durably, in the place of the one before."""
        with self.database.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"sink/{sink}/{name}", value))

    def remembered(self, sink: str, name: str) -> str | None:
        found = self.database.value("SELECT value FROM meta WHERE key = ?", (f"sink/{sink}/{name}",))
        return None if found is None else str(found)

    # -- health -------------------------------------------------------------------------------------------------------

    def failing(self, sink: str, error: str, since: float, attempts: int) -> None:
        with self.database.transaction() as db:
            db.execute("INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?)", (sink, since, attempts, error))

    def well(self, sink: str) -> None:
        if self.database.value("SELECT 1 FROM health WHERE sink = ?", (sink,)):
            with self.database.transaction() as db:
                db.execute("DELETE FROM health WHERE sink = ?", (sink,))

    def health(self, sink: str) -> tuple[float, int, str] | None:
        """Since when a sink fails, how often it has, and why; None if it does not."""
        rows = self.database.rows("SELECT since, attempts, error FROM health WHERE sink = ?", (sink,))
        return (rows[0]["since"], rows[0]["attempts"], rows[0]["error"]) if rows else None

    # -- the queue ----------------------------------------------------------------------------------------------------

    def enqueue(self, sink: str, stream: str, batch: int, pieces: Iterable[Piece], target: TargetOf) -> None:
        """Take a batch once: its deliveries and the fact that they were taken become durable together.

        ``target`` names, for a subscriber, what is called at its own pace.
        """
        if self.enqueued(sink, stream, batch):
            return
        now = time.time()
        with self.database.transaction() as db:
            for piece in pieces:
                _insert(
                    db,
                    piece,
                    "INSERT OR IGNORE INTO queue"
                    f" (sink, delivery, target, created, next, {_COMMON}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    lambda delivery, subscriber, _: (sink, delivery, target(subscriber), now, now),
                )
            self.advance(db, f"{sink}/queue", stream, batch)

    def enqueued(self, sink: str, stream: str, batch: int) -> bool:
        """Whether a batch has entered the queue of a sink."""
        return self.cursor(f"{sink}/queue", stream) >= batch

    def queued(self, sink: str) -> int:
        return int(self.database.value("SELECT count(*) FROM queue WHERE sink = ?", (sink,)))

    def queue_trouble(self, sink: str) -> tuple[float, int, str] | None:
        """Of the deliveries that were tried in vain: since when the first waits, most attempts, an error."""
        [row] = self.database.rows(
            "SELECT min(created) AS since, max(attempts) AS attempts, error FROM queue WHERE sink = ? AND attempts > 0",
            (sink,),
        )
        return None if row["since"] is None else (row["since"], row["attempts"], str(row["error"]))

    def targets(self, sink: str) -> dict[str, tuple[float, int]]:
        """Return, for each target that deliveries wait for, when it is next to be tried and how many wait."""
        query = "SELECT target, min(next) AS next, count(*) AS waiting FROM queue WHERE sink = ? GROUP BY target"
        return {row["target"]: (row["next"], row["waiting"]) for row in self.database.rows(query, (sink,))}

    def due(self, sink: str, target: str, now: float, limit: int, busy: Sequence[int] = ()) -> list[Waiting]:
        """Deliveries to a target whose time has come, the longest waiting first, but for the ``busy`` ones."""
        marks = ", ".join("?" * len(busy))
        rows = self.database.rows(
            "SELECT queue.*, content FROM queue JOIN bodies ON bodies.id = body"
            f" WHERE sink = ? AND target = ? AND next <= ? AND queue.id NOT IN ({marks})"
            " ORDER BY next, queue.id LIMIT ?",
            (sink, target, now, *busy, limit),
        )
        return [_waiting(row, row["created"], row["attempts"]) for row in rows]

    def next_due(self, sink: str, target: str, busy: Sequence[int] = ()) -> float | None:
        marks = ", ".join("?" * len(busy))
        query = f"SELECT min(next) FROM queue WHERE sink = ? AND target = ? AND id NOT IN ({marks})"
        found = self.database.value(query, (sink, target, *busy))
        return None if found is None else float(found)

    def settle(self, done: Iterable[int], later: Iterable[tuple[int, float, int, str]] = ()) -> None:
        """Forget what was sent; put off what was not: ``(id, next time, attempts, error)``."""
        with self.database.transaction() as db:
            db.executemany(
                "UPDATE queue SET next = ?, attempts = ?, error = ? WHERE id = ?",
                [(when, attempts, error, id) for id, when, attempts, error in later],
            )
            _delete(db, "queue", done)

    # -- what is held -------------------------------------------------------------------------------------------------

    def hold(self, db: sqlite3.Connection, sink: str, piece: Piece, committed: float) -> None:
        """Keep deliveries until ``max_delay`` after the commit of their batch."""
        delays = piece.deliveries.column("max_delay").to_pylist()
        _insert(
            db,
            piece,
            f"INSERT OR IGNORE INTO held (sink, delivery, due, alone, {_COMMON})"
            " VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)",
            lambda delivery, _, row: (sink, delivery, committed + delays[row] / 1000),
        )

    def put_back(self, sink: str, waiting: Waiting) -> None:
        """Hold a single delivery for a sink, due at once."""
        with self.database.transaction() as db:
            body = db.execute("INSERT INTO bodies (content) VALUES (?)", (waiting.content,)).lastrowid
            values = (
                sink, waiting.delivery, time.time(), waiting.stream, waiting.message, waiting.time,
                json.dumps(waiting.headers), waiting.subscription, waiting.subscriber, body,
            )  # fmt: skip
            added = db.execute(
                f"INSERT OR IGNORE INTO held (sink, delivery, due, alone, {_COMMON})"
                " VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)",
                values,
            ).rowcount
            if not added:  # it is there already
                db.execute("DELETE FROM bodies WHERE id = ?", (body,))

    def held(self, sink: str) -> int:
        return int(self.database.value("SELECT count(*) FROM held WHERE sink = ?", (sink,)))

    def held_due(self, sink: str, now: float) -> int:
        """How many of the held ones should have gone by now, or are on their way."""
        query = "SELECT count(*) FROM held WHERE sink = ? AND (due <= ? OR release IS NOT NULL)"
        return int(self.database.value(query, (sink, now)))

    def next_held(self, sink: str) -> float | None:
        """When the first of the held ones is due."""
        found = self.database.value("SELECT min(due) FROM held WHERE sink = ?", (sink,))
        return None if found is None else float(found)

    def of_release(self, sink: str, release: int) -> list[tuple[Waiting, bool]]:
        """Return the deliveries of a release, and for each whether it goes by itself."""
        rows = self.database.rows(
            "SELECT held.*, content FROM held JOIN bodies ON bodies.id = body"
            " WHERE sink = ? AND release = ? ORDER BY subscription, held.id",
            (sink, release),
        )
        return [(_waiting(row), bool(row["alone"])) for row in rows]

    def drop_release(self, sink: str, release: int) -> None:
        rows = self.database.rows("SELECT id FROM held WHERE sink = ? AND release = ?", (sink, release))
        with self.database.transaction() as db:
            _delete(db, "held", [row["id"] for row in rows])

    def close(self) -> None:
        self.database.close()


def _insert(db: sqlite3.Connection, piece: Piece, statement: str, first: _First) -> None:
    """Rows of a piece; ``first`` makes the columns that are not common to all tables."""
    messages: dict[int, tuple[object, ...]] = {}
    bodies: dict[int, int | None] = {}
    names = ("delivery", "row", "subscription", "subscriber")
    columns = [piece.deliveries.column(name).to_pylist() for name in names]
    payloads = piece.deliveries.column("payload")
    for place, (delivery, row, subscription, subscriber) in enumerate(zip(*columns, strict=True)):
        if row not in messages:
            messages[row] = _message(piece, row)
        if payloads[place].is_valid:
            body = _body(db, payloads[place].as_buffer())
        else:
            if row not in bodies:
                bodies[row] = _body(db, piece.messages.column("xml")[row].as_buffer())
            body = bodies[row]
        own = first(delivery, subscriber, place)
        added = db.execute(statement, (*own, *messages[row], subscription, subscriber, body)).rowcount
        if not added and payloads[place].is_valid:
            db.execute("DELETE FROM bodies WHERE id = ?", (body,))
    if bodies:
        # Where every delivery of a message was there already, its body is nobody's.
        _drop_bodies(db, [body for body in bodies.values() if body is not None])


def _body(db: sqlite3.Connection, content: object) -> int | None:
    return db.execute("INSERT INTO bodies (content) VALUES (?)", (memoryview(content),)).lastrowid  # type: ignore[arg-type]


def _message(piece: Piece, row: int) -> tuple[object, ...]:
    time = piece.messages.column("time")[row]
    headers = piece.messages.column("headers")[row].as_py()
    stream, message = (piece.messages.column(name)[row].as_py() for name in ("stream", "message"))
    return stream, message, time.value, json.dumps(dict(headers or ()))


def _delete(db: sqlite3.Connection, table: str, ids: Iterable[int]) -> None:
    bodies = []
    for id in ids:
        bodies += [row[0] for row in db.execute(f"SELECT body FROM {table} WHERE id = ?", (id,))]
        db.execute(f"DELETE FROM {table} WHERE id = ?", (id,))
    _drop_bodies(db, bodies)


def _drop_bodies(db: sqlite3.Connection, bodies: Iterable[int]) -> None:
    db.executemany(
        "DELETE FROM bodies WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM queue WHERE body = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM held WHERE body = ?1)",
        [(body,) for body in set(bodies)],
    )


def _waiting(row: sqlite3.Row, created: float = 0.0, attempts: int = 0) -> Waiting:
    return Waiting(
        row["id"], row["delivery"], row["stream"], row["message"], row["time"], json.loads(row["headers"]),
        row["subscription"], row["subscriber"], row["content"], created, attempts,
    )  # fmt: skip
