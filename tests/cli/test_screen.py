"""What one sees of a run, without one: the live line, plain lines, and JSON."""

from __future__ import annotations

import importlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from twigcast.cli import screen as module
from twigcast.cli.replay import replay
from twigcast.cli.screen import JsonLines, Onlooker, Screen
from twigcast.cli.status import line_of, summary_of
from twigcast.delivery import Counts
from twigcast.spark.replay import Replayed

pytest.importorskip("pyspark")

QUIET = {"sink": "files", "lag": 0, "waiting": 0, "held": 0, "failed": 0, "failing_since": None, "error": None}
LETTER = {"kind": "delivery", "stream": "in", "sink": "hooks", "reason": "webhook-attempts", "count": 3}


def found(**changes: Any) -> dict[str, Any]:
    total = {"messages": 1200, "bytes": 1, "deliveries": 30, "dead_letters": 2}
    status = {"total": total, "busy": [], "version": 7, "subscriptions": 5, "unmatched": 0, "store": None}
    return {**status, "sinks": [QUIET], "new_dead_letters": [], **changes}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVERY": 0.01, "PLAIN_EVERY": 0.0, "PATIENCE": 0.05}.items():
        monkeypatch.setattr(module, name, value)


def showing(monkeypatch: pytest.MonkeyPatch, screen: Onlooker, status: dict[str, Any]) -> None:
    """Let the screen look at a run with this status."""
    monkeypatch.setattr("twigcast.spark.watch.status_of", lambda run, running: status)
    screen.on_start(object())  # type: ignore[arg-type]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_line_says_what_is_being_done() -> None:
    assert line_of(found(), 0) == (
        "waiting for messages: 1,200 messages, 30 deliveries, 2 dead letters, 5 subscriptions (version 7)"
    )
    assert line_of(found(busy=["in", "out"]), 12.3).startswith("matching in, out: 1,200 messages, 12/s, ")
    assert line_of(found(sinks=[{**QUIET, "lag": 1}]), 0).startswith("delivering: ")
    waits = line_of(found(sinks=[{**QUIET, "waiting": 4}]), 0)
    assert waits.startswith("delivering: ") and waits.endswith("; files: 4 waiting")


def test_the_line_counts_failures_by_sink_and_reason() -> None:
    failing = {**QUIET, "sink": "hooks", "failed": 9, "failing_since": time.time() - 100, "error": "HTTP status 500"}
    line = line_of(found(new_dead_letters=[LETTER], sinks=[QUIET, failing], store="gone"), 0)
    assert "5 dead letters (sink hooks: webhook-attempts 3)" in line
    assert "; hooks: 9 failed deliveries, failing for 100 s: HTTP status 500" in line
    assert line.endswith("; the store cannot be reached: gone")


def test_nobody_subscribed_is_said_loudly() -> None:
    assert "NO ACTIVE SUBSCRIPTIONS: 8 messages reached nobody" in line_of(found(subscriptions=0, unmatched=8), 0)
    *_, last = summary_of(found(unmatched=8))
    assert last.startswith("warning: 8 messages were consumed while the store had no active subscriptions")


def test_a_stage_shows_how_long_it_takes(at_once: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(Console(file=io.StringIO())) as screen:
        screen.say("starting Spark")
        wait_for(lambda: "starting Spark, " in capsys.readouterr().err)


def test_failures_between_batches_are_shown(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Screen(Console(file=io.StringIO())) as screen:
        showing(monkeypatch, screen, found(new_dead_letters=[LETTER]))
        wait_for(lambda: "sink hooks: webhook-attempts 3" in capsys.readouterr().err)
        screen.on_end(object())  # type: ignore[arg-type]
    assert screen.last is not None and summary_of(screen.last)[1] == "dead letters of sink hooks: webhook-attempts 3"


def test_events_as_json(at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with JsonLines() as screen:
        screen.say("starting Spark")
        showing(monkeypatch, screen, found(new_dead_letters=[LETTER], sinks=[{**QUIET, "failed": 9}]))
        time.sleep(0.2)
        screen.on_end(object())  # type: ignore[arg-type]
    start, failures = [json.loads(line) for line in capsys.readouterr().err.splitlines()]  # each change once
    assert start["event"] == "starting Spark" and start["time"].endswith("Z")
    assert (failures["level"], failures["event"]) == ("warning", "failures")
    assert failures["dead_letters"] == [LETTER] and failures["failed_deliveries"] == {"files": 9}


def test_a_replay_shows_how_long_it_takes(tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    stream = f'[streams.in]\nsource = "directory"\npath = "{tmp_path}/in"\n'
    sink = f'[sinks.files]\nkind = "directory"\npath = "{tmp_path}/files"\n'
    (tmp_path / "pipeline.toml").write_text(f'[state]\npath = "{tmp_path}/state"\n{stream}{sink}')

    def slow_session(*_: Any, **__: Any) -> None:
        time.sleep(0.3)

    def slow_replay(settings: Any, wanted: Any, start: Any, on_batch: Any) -> Replayed:
        start()
        on_batch("in", Counts(messages=3))
        time.sleep(0.3)
        return Replayed(Counts(messages=3), {}, True)

    monkeypatch.setattr(importlib.import_module("twigcast.spark.pipeline"), "pipeline_session", slow_session)
    monkeypatch.setattr(importlib.import_module("twigcast.spark.replay"), "replay", slow_replay)
    ended = CliRunner().invoke(replay, [str(tmp_path / "pipeline.toml"), "--since", "1h"], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    lines = ended.output.splitlines()
    assert "starting Spark, 0 s" in lines and "replaying: 3 messages, in, 0 s" in lines
    assert "3 messages, 0 deliveries, 0 dead letters" in lines
