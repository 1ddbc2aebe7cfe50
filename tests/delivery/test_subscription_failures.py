"""Failures of subscriptions on their way from the log into the dead letters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from twigcast.delivery import Log, LogWriter, streaks
from twigcast.delivery.dead import DeadLetters
from twigcast.engine.failures import PauseRule, Streak
from twigcast.errors import OptionError


def failing(*rows: tuple[str, str, str]) -> pa.RecordBatch:
    names = ("subscription", "reason", "message")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    more = {"subscriber": ["ann"] * len(rows), "text": ["too much"] * len(rows)}
    times = pa.nulls(len(rows), pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict({**columns, **more, "time": times})


def commit(log: Log, batch: int, messages: int, *rows: tuple[str, str, str], version: int = 1) -> None:
    with LogWriter(str(log.staging), log.stream).part() as part:
        part.fail(failing(*rows))
        part.counts.messages = messages
    log.commit(batch, version, [part.report])


def test_a_letter_for_each_subscription_and_reason(tmp_path: Path) -> None:
    dead = DeadLetters(tmp_path / "dead.db")
    with Log(tmp_path, "s").claimed() as log:
        commit(log, 0, 10, ("a", "costly", "m1"), ("a", "costly", "m2"), ("b", "costly", "m2"), ("a", "other", "m3"))
        commit(log, 1, 10, ("a", "costly", "m9"))
        assert log.committed(0) is not None and log.committed(0).failures == 4  # type: ignore[union-attr]
        for batch in [*log.batches(), *log.batches()]:  # again is harmless
            dead.take(batch)
    found = {(one.subscription, one.reason): one for one in dead.letters(kind="subscription")}
    assert {key: one.attempts for key, one in found.items()} == {
        ("a", "costly"): 3,
        ("b", "costly"): 1,
        ("a", "other"): 1,
    }
    letter = found["a", "costly"]
    assert (letter.first_message, letter.message, letter.subscriber) == ("m1", "m9", "ann")
    assert dead.original(letter.id) is None
    with pytest.raises(OptionError, match="not-redrivable"):
        dead.redrive(letter, None, tmp_path)  # type: ignore[arg-type]
    dead.close()


def test_a_subscription_that_keeps_failing_is_overdue(tmp_path: Path) -> None:
    dead, rule = DeadLetters(tmp_path / "dead.db"), PauseRule(3, 10)
    with Log(tmp_path, "s").claimed() as log:
        commit(log, 0, 5, ("a", "costly", "m1"), ("b", "message-refused", "m1"), version=7)
        commit(log, 1, 5, ("a", "costly", "m2"), ("a", "other", "m3"), *[("b", "message-refused", "m")] * 5, version=8)
        for batch in log.batches():
            dead.take(batch, rule)
    (one,) = streaks.overdue(dead.database, rule)
    assert (one.subscription, one.version) == ("a", 7)
    assert one.reason == "failed on 3 of 10 messages: other: too much"
    streaks.clear(dead.database, "a")
    assert streaks.overdue(dead.database, rule) == []
    dead.close()


def test_failures_far_apart_pause_nothing() -> None:
    rule = PauseRule(3, 10)
    streak = None
    for number in range(0, 1000, 5):
        streak = rule.count(streak, 1, number)
        assert not rule.pauses(streak, number + 1)
    # a batch may be larger than the window: then the share counts
    assert not rule.pauses(rule.count(None, 20, 0, 100), 100)
    assert rule.pauses(rule.count(None, 30, 0, 100), 100)
    assert not PauseRule(0, 10).pauses(Streak(1000, 0), 1000)


@pytest.mark.parametrize("values", [(-1, 10), (11, 10), (1, 0), (True, 10), ("3", 10)])
def test_a_rule_has_to_make_sense(values: tuple[int, int]) -> None:
    with pytest.raises(OptionError, match="bad-pause"):
        PauseRule(*values)
