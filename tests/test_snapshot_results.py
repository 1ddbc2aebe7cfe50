"""What subscriptions select survives a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast import Engine, Subscription
from twigcast.engine import compiler, snapshot
from twigcast.lang import shape

MESSAGE = b'<a xmlns:p="urn:p"><b k="1">x</b><b k="2"><p:c>y</p:c></b></a>'


def an_engine() -> Engine:
    """Return an engine with all kinds of selections, and what removed ones left behind."""
    subscriptions = [
        Subscription("path", "/a/b", result="nodes"),
        Subscription("pattern", "/a/b[@k = '2']", result="fragments"),
        Subscription("text", "/a/b[. = 'x'] | /a/b[position() = 2]", result="fragments"),
        Subscription("residual", "/a/b[last()]/preceding-sibling::b", result="fragments"),
        Subscription("match", "/a"),
        Subscription("transform", "<r>{for $b in //b return <k>{$b/@k}</k>}</r>"),
    ]
    made = Engine()
    before = [Subscription(f"{s.id} before", f"{s.query}[. = 'gone']", result=s.result) for s in subscriptions[:4]]
    made.add_many([*before, *subscriptions])
    for s in before:
        made.remove(s.id)
    return made


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object, **__: object) -> None:
        raise AssertionError("a query is parsed")

    for owner, name in (
        (snapshot, "parse"),
        (compiler, "parse"),
        (compiler, "parse_transform"),
        (shape.Shapes, "split"),
        (compiler.Compiler, "split"),
        (Engine, "_transform"),
    ):
        monkeypatch.setattr(owner, name, parse)


def test_results_survive_a_snapshot(tmp_path: Path) -> None:
    engine = an_engine()
    engine.save(tmp_path / "s")
    opened = Engine.open(tmp_path / "s")
    assert opened.select(MESSAGE) == engine.select(MESSAGE)
    assert {s.id for s in opened.select(MESSAGE) if s.nodes or s.fragments} == {"path", "pattern", "text", "residual"}
    opened.remove("pattern")
    assert [s.id for s in opened.select(MESSAGE)] == ["path", "text", "residual", "match", "transform"]


def test_a_selection_with_a_new_constant_goes_on(tmp_path: Path) -> None:
    an_engine().save(tmp_path / "s")
    opened = Engine.open(tmp_path / "s")
    opened.add("/a/b[@k = '1']", id="other", result="fragments")
    found = {one.id: one.fragments for one in opened.select(MESSAGE)}
    assert found["other"] == [b'<b xmlns:p="urn:p" k="1">x</b>']
    assert found["pattern"] == [b'<b xmlns:p="urn:p" k="2"><p:c>y</p:c></b>']


def test_opening_and_compacting_parse_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = an_engine()
    expected = made.select(MESSAGE)
    made.save(tmp_path / "s")
    forbid_parsing(monkeypatch)
    opened = Engine.open(tmp_path / "s")
    assert opened.select(MESSAGE) == expected
    snapshot.compact(opened)
    assert opened.select(MESSAGE) == expected
