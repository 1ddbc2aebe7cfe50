"""Recent failures of subscriptions, counted with the dead letters: which of them keep failing and are to be paused."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from twigcast.delivery.database import Database
from twigcast.delivery.log import LogBatch
from twigcast.engine.failures import UNCOUNTED, PauseRule, Streak, pause_reason

MIGRATION = """
CREATE TABLE streaks (
    subscription TEXT PRIMARY KEY, failures INTEGER NOT NULL, since INTEGER NOT NULL, version INTEGER NOT NULL,
    reason TEXT NOT NULL, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID
"""
"""``version``: of the subscriptions, in the batch of the first failure. ``totals`` counts the messages matched."""

_MESSAGES = "SELECT value FROM totals WHERE name = 'messages'"


@dataclass(frozen=True, slots=True)
class Overdue:
    """A subscription that is to be paused, unless it has changed since ``version`` of the store."""

    subscription: str
    version: int
    reason: str


def count(db: sqlite3.Connection, batch: LogBatch, failures: list[dict[str, Any]], rule: PauseRule) -> None:
    """Count the failures of a batch, within the transaction that takes them."""
    row = db.execute(_MESSAGES).fetchone()
    before = 0 if row is None else int(row[0])
    messages = batch.counts.messages
    db.execute("INSERT OR REPLACE INTO totals VALUES ('messages', ?)", (before + messages,))
    by_subscription: dict[str, list[dict[str, Any]]] = {}
    for one in failures:
        if one["reason"] not in UNCOUNTED:
            by_subscription.setdefault(one["subscription"], []).append(one)
    for subscription, some in by_subscription.items():
        found = db.execute("SELECT failures, since, version FROM streaks WHERE subscription = ?", (subscription,))
        known = found.fetchone()
        streak = None if known is None else Streak(known["failures"], known["since"])
        grown = rule.count(streak, sum(one["count"] for one in some), before, messages)
        version = known["version"] if known is not None and grown.since == known["since"] else int(batch.version)
        values = (subscription, *grown, version, some[-1]["reason"], some[-1]["text"])
        db.execute("INSERT OR REPLACE INTO streaks VALUES (?, ?, ?, ?, ?, ?)", values)


def overdue(database: Database, rule: PauseRule) -> list[Overdue]:
    """Return the subscriptions that keep failing."""
    now = int(database.value(_MESSAGES) or 0)
    found = []
    for row in database.rows("SELECT * FROM streaks WHERE failures >= ?", (max(rule.after, 1),)):
        streak = Streak(row["failures"], row["since"])
        if rule.pauses(streak, now):
            reason = pause_reason(streak, now, row["reason"], row["text"])
            found.append(Overdue(row["subscription"], row["version"], reason))
    return found


def clear(database: Database, subscription: str) -> None:
    """Forget the failures of a subscription that was paused, or has changed: its count starts at zero."""
    with database.transaction() as db:
        db.execute("DELETE FROM streaks WHERE subscription = ?", (subscription,))
