"""What subscriptions select survives a snapshot."""

from __future__ import annotations

from pathlib import Path

from twigcast import Engine

MESSAGE = b'<a xmlns:p="urn:p"><b k="1">x</b><b k="2"><p:c>y</p:c></b></a>'


def test_results_survive_a_snapshot(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("/a/b", id="path", result="nodes")
    engine.add("/a/b[@k = '2']", id="pattern", result="fragments")
    engine.add("/a/b[last()]/preceding-sibling::b", id="residual", result="fragments")
    engine.add("/a", id="match")
    engine.save(tmp_path / "s")
    opened = Engine.open(tmp_path / "s")
    assert opened.select(MESSAGE) == engine.select(MESSAGE)
    assert {s.id for s in opened.select(MESSAGE) if s.nodes or s.fragments} == {"path", "pattern", "residual"}
    opened.remove("pattern")
    assert [s.id for s in opened.select(MESSAGE)] == ["path", "residual", "match"]
