"""Whatever takes longer than two seconds shows progress on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import time

import pytest

from twigcast.cli import progress as module
from twigcast.cli.progress import Progress, working


def be_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a fixture: the stream that is captured is there only while a test runs."""
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_what_can_be_counted_is_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    be_a_terminal(monkeypatch)
    assert list(Progress(3, "documents").over("abc")) == ["a", "b", "c"]
    shown = capsys.readouterr().err
    assert "3 of 3 documents, " in shown and shown.endswith("\r\x1b[K")
    lines = Progress(None, "lines")
    lines.advance(1000)
    assert "1,000 lines, " in capsys.readouterr().err


def test_what_cannot_be_counted_shows_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    be_a_terminal(monkeypatch)
    with working("loading 5 subscriptions"):
        time.sleep(0.1)
    shown = capsys.readouterr().err
    assert "loading 5 subscriptions, 0 s" in shown and shown.endswith("\r\x1b[K")


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with working("loading"):
        assert list(Progress(2).over("ab")) == ["a", "b"]
    assert capsys.readouterr().err == ""
