"""Files of the state that are lost, cut short, changed or another folder's: the run goes on rightly, or refuses."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import SINKS, commit, expected, in_files, in_lake, in_lines, pipeline, some
from hooks import serving

from twigcast import config
from twigcast.delivery import Log
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.runner import Runner
from twigcast.errors import StateDamaged

HOOK = {"kind": "webhook", "allow": ["127.0.0.0/8"], "timeout": 2, "max_attempts": 100, "breaker_pause": 0.1}
ROWS = [(number, some(number, 6)) for number in range(4)]


def settings_of(folder: Path, url: str) -> config.Pipeline:
    return pipeline(folder, {**SINKS, "hook": {**HOOK, "url": url}})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline's folder: two batches delivered and forgotten, but for webhooks, which wait; two more in the log."""
    folder = tmp_path_factory.mktemp("damage") / "site"
    settings = settings_of(folder, "http://127.0.0.1:1")
    for number, rows in ROWS[:2]:
        commit(settings, number, rows, dead=[(f"bad{number}", b"<")])
    with Runner(settings) as runner:
        assert not runner.drain(patience=0.5)
        assert Log(settings.state.log, "s").forgotten == 1 and runner.status()[3].waiting == 12
    for number, rows in ROWS[2:]:
        commit(settings, number, rows, dead=[(f"bad{number}", b"<")])
    return folder


def deliver(folder: Path) -> list[str]:
    """Run until everything is delivered; the ids that the webhook accepted."""
    with serving() as hooks:
        settings = settings_of(folder, hooks.url)
        with Log(settings.state.log, "s").claimed(), Runner(settings) as runner:
            assert runner.drain(patience=5), [status.error for status in runner.status()]
            assert sorted(letter.message or "" for letter in runner.dead.letters()) == ["bad0", "bad1", "bad2", "bad3"]
        return [request.headers["webhook-id"] for request in hooks.accepted]


def check_all(folder: Path, called: list[str]) -> None:
    """Each of the 24 deliveries is in each sink once, counting what was there before."""
    ids = [line["delivery"] for line in in_lines(folder / "lines")]
    assert len(set(ids)) == len(ids) == 24
    assert sorted(row["delivery"] for row in in_lake(folder / "lake")) == sorted(ids)
    assert sorted(id for _, id in in_files(folder / "files")) == sorted(ids) == sorted(called)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """Change bytes all over a file, the first one included."""
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), max(1, len(content) // 16)):
        content[place] ^= 0x5A
    path.write_bytes(content)


def flip_inside(path: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x01
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def put_older(path: Path) -> None:
    """Put a file of an earlier time in its place: here, a database that knows of no progress."""
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM cursors")


def put_foreign(path: Path) -> None:
    """Put the file of another state folder in its place."""
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = 'another' WHERE key = 'state'")


def put_new(path: Path) -> None:
    """Put a database in its place that was just made."""
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (a)")


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


LEDGER, NEXT, PART = "log/s/batch-00000002.json", "log/s/batch-00000003.json", "log/s/batch-00000002/0000"
REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    *(("outbox.db", damage, "outbox.db") for damage in (remove, empty, flip, cut, put_older, put_foreign, put_new)),
    *(("dead.db", damage, "dead.db") for damage in (remove, empty, flip, cut, put_older, put_foreign, put_new)),
    *((LEDGER, damage, LEDGER) for damage in (remove, empty, flip, cut, flip_inside)),
    *((NEXT, damage, NEXT) for damage in (empty, flip, cut, flip_inside)),
    *((f"{PART}.{kind}.parquet", damage, f"{PART}.{kind}.parquet")
        for kind in ("messages", "deliveries", "dead") for damage in (remove, empty, flip, cut)),
    ("log/s/batch-00000002", remove, PART),
    ("log/s/forgotten.json", remove, "log/s/forgotten.json"),
    *(("log/s/forgotten.json", damage, "log/s/forgotten.json") for damage in (empty, flip, cut, flip_inside)),
    ("log/s", remove, "log/s"),
    ("log", remove, "log/s"),
    *(("identity.json", damage, "identity.json") for damage in (empty, flip, cut, flip_inside)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "named"), REFUSED, ids=lambda v: getattr(v, "__name__", str(v)))
def test_damage_is_refused(site: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], named: str) -> None:
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    damage(folder / "state" / name)
    settings = settings_of(folder, "http://127.0.0.1:1")
    with pytest.raises(StateDamaged) as raised, Runner(settings) as runner:
        runner.drain(patience=5)  # contents of parts are checked when they are read
    assert raised.value.code == "state-damaged" and raised.value.hint
    assert str(folder / "state" / named) in raised.value.text
    # Nothing was destroyed that would be needed once the file is back.
    shutil.rmtree(folder / "state")
    shutil.copytree(site / "state", folder / "state")
    check_all(folder, deliver(folder))


GOES_ON: list[tuple[str, Callable[[Path], None]]] = [
    ("state/identity.json", remove),
    ("state/log/s/lock", remove),
    ("state/log/s/lock", empty),
    ("lake/.twigcast", remove),
    ("files/.twigcast", remove),
]


@pytest.mark.parametrize(("name", "damage"), GOES_ON, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_file_that_is_not_needed(site: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    damage(folder / name)
    check_all(folder, deliver(folder))


@pytest.mark.parametrize("damage", [empty, flip, cut])
def test_a_sinks_own_marker(site: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """The sink says what is wrong and what to do, the others go on; done so, it goes on as well."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    [marker] = (folder / "lake" / ".twigcast").glob("*/s.json")
    damage(marker)
    settings = settings_of(folder, "http://127.0.0.1:1")
    with Runner(settings) as runner:
        runner.drain(patience=0.5)
        assert str(marker) in str(runner.status()[2].error)
        assert len(in_lines(folder / "lines")) == 24
    marker.unlink()
    check_all(folder, deliver(folder))


@pytest.mark.parametrize("copy", [shutil.move, shutil.copytree])
def test_a_folder_that_was_moved_goes_on_where_it_was(
    site: Path, tmp_path: Path, copy: Callable[[Path, Path], object]
) -> None:
    before = tmp_path / "before"
    shutil.copytree(site, before)
    folder = tmp_path / "elsewhere" / "site"
    folder.parent.mkdir()
    copy(before, folder)
    check_all(folder, deliver(folder))
    assert not any(path.name.startswith("batch-") and path.is_dir() for path in (folder / "state/log/s").iterdir())


def test_a_restored_folder_goes_on_where_it_was(site: Path, tmp_path: Path) -> None:
    """A backup of the state, put back after later batches were delivered: sinks know what they have."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    called = deliver(folder)
    shutil.rmtree(folder / "state")
    shutil.copytree(site / "state", folder / "state")
    again = deliver(folder)
    check_all(folder, sorted({*called, *again}))


def test_a_large_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twigcast.delivery.dead.LARGE", 10)
    settings = pipeline(tmp_path)
    commit(settings, 0, [], dead=[("bad", b"<" * 100)])
    with Runner(settings) as runner:
        assert runner.drain()
    [file] = (settings.state.path / "dead").iterdir()
    dead = DeadLetters(settings.state.dead)
    assert dead.original(1) == b"<" * 100
    for damage in (flip_inside, cut, empty, remove):
        damage(file)
        with pytest.raises(StateDamaged, match=file.name):
            dead.original(1)
    dead.close()


def test_a_state_folder_of_an_earlier_version(site: Path, tmp_path: Path) -> None:
    """It has no identity but the outbox's; the first opening writes it down, and notices an outbox that is gone."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    (folder / "state" / "identity.json").unlink()
    with sqlite3.connect(folder / "state" / "dead.db") as database:
        database.execute("DELETE FROM meta WHERE key = 'state'")
    outbox = (folder / "state" / "outbox.db").rename(tmp_path / "outbox.db")
    with pytest.raises(StateDamaged, match=r"outbox\.db is missing"):
        Runner(settings_of(folder, "http://127.0.0.1:1"))
    outbox.rename(folder / "state" / "outbox.db")
    check_all(folder, deliver(folder))
    assert (folder / "state" / "identity.json").exists()


def test_a_sink_that_was_away_may_come_back(tmp_path: Path) -> None:
    """Its cursor is older than the log, as that of an outbox from a backup would be; but the log went on without it."""
    few = pipeline(tmp_path, {"lines": SINKS["lines"]})
    both = pipeline(tmp_path, {"lines": SINKS["lines"], "lake": SINKS["lake"]})
    for number, settings in enumerate((both, few, few, both)):
        commit(settings, number, some(number, 3))
        with Runner(settings) as runner:
            assert runner.drain()
        time.sleep(0.01)
    assert len(in_lines(tmp_path / "lines")) == 12 and len(in_lake(tmp_path / "lake")) == 6
    assert expected([Log(both.state.log, "s")]) == []
