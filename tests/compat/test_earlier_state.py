"""What commit f693179 wrote still opens: snapshot, delta, outbox, dead letters."""

from __future__ import annotations

import lzma
import sqlite3
from pathlib import Path

import pytest

from twigcast import Engine, TwigcastError
from twigcast.delivery import Log
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.files import read_identity
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.state import open_databases
from twigcast.errors import StateDamaged


def test_a_snapshot_and_its_delta(earlier_folder: Path) -> None:
    engine = Engine.open(earlier_folder / "base.snapshot")
    engine.apply(earlier_folder / "change.delta")
    found = {one.id: one for one in engine.select(b'<a><b>1</b><c>3</c><d><b/></d><p:b xmlns:p="urn:a"/><later/></a>')}
    assert set(found) == {"twig", 7, "nodes", "fragments", "transform", "tian", "later"}
    assert found["fragments"].fragments == [b'<p:b xmlns:p="urn:a"/>']
    assert found["transform"].payload == b"<r><b>1</b><b/></r>"


def test_a_snapshot_that_has_texts_of_what_is_selected(tmp_path: Path) -> None:
    """Format 5 has no selectors in the kernel's part. Saved again, it needs no text any more."""
    path = tmp_path / "format-5.snapshot"
    path.write_bytes(lzma.decompress((Path(__file__).parent / "format-5.snapshot.xz").read_bytes()))
    opened = Engine.open(path)
    opened.save(tmp_path / "now.snapshot")
    for engine in (opened, Engine.open(tmp_path / "now.snapshot")):
        found = {one.id: one for one in engine.select(b'<a><b>1</b><c>3</c><p:b xmlns:p="urn:a"/></a>')}
        assert set(found) == {"twig", "fragments", "residual", "row", "transform", 7}
        assert found["fragments"].fragments == [b'<p:b xmlns:p="urn:a"/>']
        assert found["residual"].nodes == found["row"].nodes and len(found["row"].nodes or ()) == 1
        assert found["transform"].payload == b"<r><b>1</b></r>"


def test_the_outbox_and_the_dead_letters(earlier_folder: Path) -> None:
    state = earlier_folder / "twigcast-state"
    outbox, dead = Outbox(state / "outbox.db"), DeadLetters(state / "dead.db")
    assert outbox.cursor("files", "orders") == 1 and outbox.cursor("calls", "correlations") == 1
    assert outbox.database.value("SELECT count(*) FROM queue") == 11
    assert [(letter.message, letter.kind) for letter in dead.letters()] == [("bad.xml", "message")]


def test_the_state_folder_gets_its_identity(earlier_folder: Path) -> None:
    state = earlier_folder / "twigcast-state"
    logs = {name: Log(state / "log", name) for name in ("orders", "correlations")}
    outbox, dead = open_databases(state / "outbox.db", state / "dead.db", logs)
    assert outbox.state == dead.database.state == read_identity(state) == "84796d07"
    outbox.close()
    dead.close()


def test_an_outbox_that_is_gone_is_noticed(earlier_folder: Path) -> None:
    state = earlier_folder / "twigcast-state"
    (state / "outbox.db").unlink()
    with pytest.raises(StateDamaged, match=r"outbox\.db is missing"):
        open_databases(state / "outbox.db", state / "dead.db", {"orders": Log(state / "log", "orders")})


def test_a_database_of_a_later_version_is_refused(earlier_folder: Path) -> None:
    path = earlier_folder / "twigcast-state" / "outbox.db"
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    with pytest.raises(TwigcastError, match=r"outbox\.db: a newer Twigcast made it") as raised:
        Outbox(path)
    assert raised.value.code == "newer-state" and raised.value.hint is not None
