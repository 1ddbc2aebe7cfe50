"""Listing a folder: what is found, what is skipped, what is remembered, and how files are opened. Without Spark."""

from __future__ import annotations

import logging
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from earlier_checkpoints import old_checkpoint

from twigcast.common.globs import glob_pattern
from twigcast.delivery.database import Database
from twigcast.errors import MessageError, OptionError, StateDamaged, TwigcastError
from twigcast.spark.sources import scan
from twigcast.spark.sources.directory import Folder, read_file, unpack
from twigcast.spark.sources.files import LoadFiles
from twigcast.spark.sources.following import Following, clear
from twigcast.spark.sources.listing import MIGRATIONS, Entry, Listing
from twigcast.spark.sources.scan import Scanner


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "site" / "in"
    folder.mkdir(parents=True)
    return folder


def put(inbox: Path, *names: str, content: str = "<a/>") -> None:
    for name in names:
        path = inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def found(inbox: Path, **options: bool) -> tuple[list[str], int]:
    """The paths that a scan finds, and how many links it skips."""
    files, skipped = Scanner(str(inbox), **options).scan(())
    return sorted(file.path for file in files), skipped.links


# Scanning


def test_what_is_found(inbox: Path) -> None:
    put(inbox, "a.xml", "sub/deep/b.xml", "[1].xml", "ü.xml", ".hidden", "_hidden", "x.tmp", ".dir/x.xml", "_dir/x.xml")
    os.close(os.open(os.fsencode(inbox) + b"/\xff.xml", os.O_CREAT))
    os.utime(inbox / "sub/deep/b.xml", (1, 1))
    files, skipped = Scanner(str(inbox)).scan(())
    assert files[0].path == "sub/deep/b.xml", "oldest first"
    assert sorted(file.path for file in files) == ["[1].xml", "a.xml", "sub/deep/b.xml", "ü.xml"]
    assert skipped.names == 1
    assert Scanner(str(inbox)).scan({"a.xml", "ü.xml", "[1].xml", "sub/deep/b.xml"})[0] == []


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.xml", ["a.xml", ".xml"], ["a.xml.gz", "axml"]),
        ("*.{xml,json}", ["a.xml", "b.json"], ["a.txt", "a.{xml"]),
        ("a?[0-9].xml", ["ab1.xml"], ["ab.xml", "aba.xml"]),
        ("[^a]*", ["b"], ["a", "ab"]),
        ("[!a]*", ["b"], ["a"]),
        (r"\*.xml", ["*.xml"], ["a.xml"]),
        ("a(b|c)+", ["a(b|c)+"], ["ab"]),
    ],
)
def test_globs(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = glob_pattern(glob)
    assert all(pattern.fullmatch(name) for name in yes) and not any(pattern.fullmatch(name) for name in no)


def test_links_are_skipped_and_counted(inbox: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(inbox, "a.xml", "sub/b.xml")
    (inbox / "passwd.xml").symlink_to("/etc/passwd")
    (inbox / "loop").symlink_to(inbox)
    (inbox / "sub" / "root").symlink_to("/")
    (inbox / "same.xml").symlink_to(inbox / "a.xml")
    assert found(inbox) == (["a.xml", "sub/b.xml"], 4)
    with caplog.at_level(logging.WARNING):
        Listing(tmp_path / "state", inbox, name="stream 'in'").look()
    assert "stream 'in': skipped 4 symbolic links (see follow_links)" in caplog.text


def test_links_that_stay_inside_can_be_followed(inbox: Path, tmp_path: Path) -> None:
    put(inbox, "a.xml", "sub/b.xml", "_store/c.xml")
    put(tmp_path, "outside/x.xml")
    (inbox / "same.xml").symlink_to("a.xml")
    (inbox / "store").symlink_to("_store")
    (inbox / "out.xml").symlink_to(tmp_path / "outside" / "x.xml")
    (inbox / "out").symlink_to(tmp_path / "outside")
    (inbox / "nowhere.xml").symlink_to("absent.xml")
    (inbox / "loop").symlink_to(".")
    (inbox / "sub" / "up").symlink_to("..")
    (inbox / "sub" / "self").symlink_to("self")
    (inbox / "_store" / "to-sub").symlink_to("../sub")
    (inbox / "sub" / "to-store").symlink_to("../_store")
    paths, skipped = found(inbox, follow_links=True)
    assert paths == ["a.xml", "same.xml", "store/c.xml", "sub/b.xml", "sub/to-store/c.xml"]
    assert skipped == 8  # out.xml, out, nowhere, loop, up, self, and to-sub by two ways


def test_folders_that_have_not_changed_are_not_listed(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(inbox, "a.xml", "sub/b.xml")
    clock = [1000.0]
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(scan.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(scan.os, "scandir", lambda path: listed.append(Path(path).name) or scandir(path))
    scanner = Scanner(str(inbox))
    known = {file.path for file in scanner.scan(())[0]}
    for seconds in (1, 1, 1):  # dates must stand still for a while before they are trusted
        clock[0] += seconds
        scanner.scan(known)
    assert listed == ["in", "sub"] * 4
    clock[0] += 1
    assert scanner.scan(known)[0] == [] and len(listed) == 8
    put(inbox, "sub/c.xml")
    assert [file.path for file in scanner.scan(known)[0]] == ["sub/c.xml"] and listed[8:] == ["sub"]
    clock[0] += 60
    scanner.scan(known)
    assert sorted(listed[9:]) == ["in", "sub"], "once a minute all folders are listed"


# Opening


def read(inbox: Path, path: str, **options: bool) -> bytes:
    with Folder(str(inbox), **options).open(path) as file:
        return read_file(file, 100)


def test_opening_files(inbox: Path) -> None:
    put(inbox, "a.xml", "sub/b.xml", content="12345")
    assert read(inbox, "a.xml") == read(inbox, "sub/b.xml") == b"12345"
    for path, words in (("absent", "No such file"), ("sub", "not a regular file"), ("sub/../a.xml", "leads out")):
        with pytest.raises(MessageError, match=words):
            read(inbox, path)
    put(inbox, "long", content="x" * 101)
    with pytest.raises(MessageError, match="101 bytes, the limit is 100"):
        read(inbox, "long")
    with pytest.raises(MessageError, match="more than 4 bytes"):
        import gzip

        unpack(gzip.compress(b"12345"), 4)


def test_a_link_that_takes_the_place_of_a_file_is_not_followed(inbox: Path, tmp_path: Path) -> None:
    """Between listing and opening: the file itself, or a folder on the way to it."""
    put(tmp_path, "secret/b.xml", content="secret")
    put(inbox, "a.xml", "sub/b.xml")
    listing = Listing(tmp_path / "state", inbox)
    paths = next_paths(listing)
    assert sorted(paths) == ["a.xml", "sub/b.xml"]
    (inbox / "a.xml").unlink()
    (inbox / "a.xml").symlink_to(tmp_path / "secret" / "b.xml")
    (inbox / "sub").rename(inbox / "_gone")
    (inbox / "sub").symlink_to(tmp_path / "secret")
    rows = pa.RecordBatch.from_pydict({"path": paths})
    for follow_links in (False, True):
        [batch] = LoadFiles(str(inbox), follow_links=follow_links)([rows])
        assert batch.column("xml").null_count == 2
        assert {error["code"] for error in batch.column("error").to_pylist()} == {"unreadable"}
        assert "secret" not in str(batch.to_pylist())
    (inbox / "a.xml").unlink()
    (inbox / "a.xml").symlink_to("_gone/b.xml")
    assert read(inbox, "a.xml", follow_links=True) == b"<a/>"


# The log


def next_paths(listing: Listing) -> list[str]:
    """Look for files, and return those of the next micro-batch."""
    listing.look()
    entry = listing.take(listing.next)
    return [] if entry is None else entry.paths


def test_micro_batches_are_written_down_once(inbox: Path, tmp_path: Path) -> None:
    put(inbox, *(f"{n}.xml" for n in range(6)))
    for n in range(6):
        os.utime(inbox / f"{n}.xml", (n, n))
    state = tmp_path / "state"
    listing = Listing(state, inbox, max_files=2)
    assert listing.look() == 6 and listing.next == 0
    first = listing.take(0)
    assert first is not None and first.paths == ["0.xml", "1.xml"] and listing.next == 1
    again = Listing(state, inbox, max_files=3)
    assert again.look() == 0 and again.take(0) == first, "the same files, and the same time of arrival"
    second = again.take(1)
    assert second is not None and second.paths == ["2.xml", "3.xml", "4.xml"], "what waits is not cut yet"
    put(inbox, "6.xml", "0.xml")  # the second one is not new
    (inbox / "1.xml").unlink()
    assert again.look() == 1
    third, fourth = again.take(2, done=1), again.take(3)
    assert third is not None and third.paths == ["5.xml"], "files of another arrival are another micro-batch"
    assert fourth is not None and fourth.paths == ["6.xml"]
    assert listing.look() == 0 and listing.take(4) is None, "another process has listed it meanwhile"
    with pytest.raises(StateDamaged, match="ends before batch 4"):
        listing.take(5)


def test_a_log_that_was_cut_when_it_was_listed_goes_on(inbox: Path, tmp_path: Path) -> None:
    """As the first version of these tables has it."""
    put(inbox, "0.xml", "1.xml", "2.xml")
    database = Database(tmp_path / "state" / "listing.db", MIGRATIONS[:1])
    with database.transaction() as db:
        db.execute("INSERT INTO about VALUES (?, '../site/in', 2, -1)", (str(inbox),))
        db.executemany("INSERT INTO entries VALUES (?, 7)", [(0,), (1,)])
        db.executemany("INSERT INTO files VALUES (?, ?, 1, 1, 1, 0)", [("0.xml", 0), ("1.xml", 1)])
    database.close()
    listing = Listing.opened(tmp_path / "state", inbox, -1, tmp_path / "log")
    assert listing.look() == 1
    taken = [listing.take(number) for number in range(4)]
    assert [entry and entry.paths for entry in taken] == [["0.xml"], ["1.xml"], ["2.xml"], None]


def test_files_are_moved_or_deleted(inbox: Path, tmp_path: Path) -> None:
    put(inbox, "a.xml", "sub/b.xml", "c.xml", "gone.xml", "large.xml")
    listing = Listing(tmp_path / "state", inbox)
    next_paths(listing)
    (inbox / "gone.xml").unlink()
    fresh = inbox / "new.tmp"
    fresh.write_text("<another/>")
    fresh.rename(inbox / "c.xml")  # has not been read
    listing.keep(["large.xml"])
    put(tmp_path, "done/a.xml")
    [entry] = listing.finished(0)
    clear(listing, entry, tmp_path / "done")
    assert sorted(p.name for p in inbox.rglob("*.xml")) == ["c.xml", "large.xml"]
    assert sorted(str(p.relative_to(tmp_path / "done")) for p in (tmp_path / "done").rglob("*.xml*")) == [
        "a.xml",
        "a.xml.1",
        "sub/b.xml",
    ]
    assert listing.finished(0) == []
    assert next_paths(listing) == ["c.xml"], "names are free again, except that of a file that was kept"
    [entry] = listing.finished(1)
    clear(listing, entry, None)
    assert [p.name for p in inbox.rglob("*.xml")] == ["large.xml"]


def test_folder_and_state_move_together(inbox: Path, tmp_path: Path) -> None:
    put(inbox, "a.xml")
    Listing(inbox.parent / "state", inbox).look()
    site = inbox.parent.rename(tmp_path / "moved")
    assert Listing(site / "state", site / "in").look() == 0
    (tmp_path / "other").mkdir()
    with pytest.raises(OptionError, match="the state is that of the folder"):
        Listing(site / "state", tmp_path / "other")


def damaged(state: Path, inbox: Path, last: int, log: Path) -> str:
    with pytest.raises(StateDamaged) as caught:
        Listing.opened(state, inbox, last, log).close()
    assert caught.value.code == "state-damaged" and caught.value.hint
    return caught.value.text


def test_damage_is_noticed(inbox: Path, tmp_path: Path) -> None:
    state, log, file = tmp_path / "state", tmp_path / "log", tmp_path / "state" / "listing.db"
    put(inbox, "0.xml")
    listing = Listing.opened(state, inbox, -1, log)
    next_paths(listing)
    early = tmp_path / "early"
    listing.close()
    shutil.copytree(state, early)
    put(inbox, "1.xml")
    listing = Listing.opened(state, inbox, 0, log)
    listing.look()
    listing.take(1, done=0)
    listing.close()
    assert damaged(state, inbox, -1, log) == f"{log} ends with batch -1, but batch 0 has been committed to it"
    assert damaged(early, inbox, 1, log) == f"{early}/listing.db ends before batch 1, which has been delivered"
    file.write_bytes(b"not a database" * 100)
    # SQLite finds this on one page or another, and says so in different words.
    assert re.search(r"listing\.db (is damaged|cannot be read)", damaged(state, inbox, 1, log))
    file.write_bytes(b"")
    assert "listing.db is empty" in damaged(state, inbox, 1, log)
    file.unlink()
    assert "listing.db is missing" in damaged(state, inbox, 1, log)
    Listing.opened(state, inbox, -1, log).close()  # nothing has been delivered: from the beginning


# Checkpoints of f693179, whose files Spark listed


def test_an_old_checkpoint_is_taken_over(inbox: Path, tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    names = [f"{n:02} %20ü.xml" for n in range(13)]
    put(inbox, *names)
    # Look 12 was made before the crash, but is in no micro-batch; micro-batch 11 began and was not delivered.
    old_checkpoint(state, inbox, [[name] for name in names], list(range(12)))
    (state / "commits" / "11").unlink()
    for name in [str(n) for n in range(9)]:
        (state / "sources" / "0" / name).unlink()  # Spark deletes what it has merged
    listing = Listing.opened(state, inbox, 10, log)
    assert listing.next == 11
    assert next_paths(listing) == names[11:] and listing.next == 12
    listing.close()
    assert sorted(path.name for path in state.iterdir()) == ["listing.db"]
    assert Listing.opened(state, inbox, 10, log).look() == 0


def test_an_old_checkpoint_that_is_damaged_or_was_moved(inbox: Path, tmp_path: Path) -> None:
    log, old = tmp_path / "log", tmp_path / "old"
    put(inbox, "0.xml", "1.xml")
    old_checkpoint(old, inbox, [["0.xml"], ["1.xml"]], [0, 1])
    for file in ("offsets/1", "commits/1", "sources/0/1", "sources/0/0", "metadata"):
        for cut in (False, True):
            state = tmp_path / f"{file.replace('/', '-')}-{cut}"
            shutil.copytree(old, state)
            (state / file).write_bytes(b"") if cut else (state / file).unlink()
            if (file, cut) == ("commits/1", False):  # as after a kill: the log has the batch
                assert Listing.opened(state, inbox, 1, log).next == 2
                continue
            assert str(state / file) in damaged(state, inbox, 1, log)
            assert (state / "sources").is_dir(), "nothing has been deleted"
    other = tmp_path / "other"
    other.mkdir()
    assert "is not where the files were read from" in damaged(old, other, 1, log)


# Following


def test_a_crash_at_any_point_neither_loses_nor_repeats(inbox: Path, tmp_path: Path) -> None:
    """Before the listing is written, before a batch is committed, after it, and before files are cleared away."""
    committed: list[Entry] = []
    begun: dict[int, Entry] = {}
    countdown = [0]

    def tick() -> None:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise KeyboardInterrupt

    def batch(entry: Entry) -> None:
        tick()
        assert begun.setdefault(entry.number, entry) == entry, "a repeated batch has the same files and the same time"
        assert entry.number == len(committed)
        tick()
        committed.append(entry)
        tick()

    def run(crash_after: int) -> None:
        countdown[0] = crash_after
        listing = Listing.opened(tmp_path / "state", inbox, len(committed) - 1, tmp_path / "log", max_files=2)

        def tidy() -> None:
            for entry in listing.finished(len(committed) - 1):
                tick()
                clear(listing, entry, None)
                tick()

        following = Following(listing, batch, lambda: len(committed) - 1, interval=None, tidy=tidy).start()
        with suppress(TwigcastError):
            following.awaitTermination(10)
        listing.close()

    names = [f"{n:03}.xml" for n in range(60)]
    for start in range(0, 60, 5):
        put(inbox, *names[start : start + 5])
        run(start // 5 + 1)
    run(10**6)
    assert sorted(path for entry in committed for path in entry.paths) == names
    assert not list(inbox.iterdir())
