"""A compiled set in a file: the same answers after opening; anything else is refused in words."""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from support import engine_for, random_document, random_query, subscription
from twigcast import Engine, Limits, TwigcastError


def test_an_opened_engine_answers_as_the_saved_one(tmp_path: Path) -> None:
    random = Random(5)
    engine = engine_for(limits=Limits(max_depth=77))
    engine.add_many(subscription(i, random_query(random)) for i in range(400))
    for i in range(0, 400, 3):
        engine.remove(i)
    documents = [random_document(random, 50) for _ in range(10)]
    engine.save(tmp_path / "new" / "engine")
    opened = Engine.open(tmp_path / "new" / "engine")
    assert (opened.limits, opened.namespaces) == (engine.limits, engine.namespaces)
    assert len(opened) == len(engine)
    for _ in range(7):
        assert [opened.match(d) for d in documents] == [engine.match(d) for d in documents]
    opened.add("/x:a", id="late")
    opened.save(tmp_path / "engine")
    assert "late" in Engine.open(str(tmp_path / "engine"))


def test_ids_keep_their_type(tmp_path: Path) -> None:
    engine = Engine()
    ids = [1, "1", "x", -(2**63), 2**63 - 1, "é€", ""]
    for id in ids:
        engine.add("/a", id=id)
    engine.save(tmp_path / "engine")
    assert Engine.open(tmp_path / "engine").match(b"<a/>") == ids


def test_the_empty_engine_can_be_saved(tmp_path: Path) -> None:
    Engine().save(tmp_path / "engine")
    opened = Engine.open(tmp_path / "engine")
    assert len(opened) == 0 and opened.match(b"<a/>") == []
    assert opened.add("/a") == 1 and opened.match(b"<a/>") == [1]


def saved(path: Path) -> bytes:
    engine = Engine()
    for i in range(50):
        engine.add(f"//a/b{i}", id=i)
    engine.save(path)
    return path.read_bytes()


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    whole = saved(path)
    random = Random(1)
    for _ in range(200):
        at = random.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(TwigcastError) as caught:
            Engine.open(path)
        assert caught.value.code in ("not-a-snapshot", "snapshot-version", "snapshot-damaged")
    for length in [0, 1, 7, 8, 23, 24, 25, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(TwigcastError) as caught:
            Engine.open(path)
        assert caught.value.code in ("not-a-snapshot", "snapshot-damaged")
    path.write_bytes(whole + b"x")
    with pytest.raises(TwigcastError):
        Engine.open(path)


def test_a_body_that_is_no_snapshot_is_refused_even_with_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    header = saved(path)[:12]
    for body in (b"", b"nonsense", bytes(1000)):
        path.write_bytes(header + struct.pack("<IQ", zlib.crc32(body), len(body)) + body)
        with pytest.raises(TwigcastError) as caught:
            Engine.open(path)
        assert caught.value.code == "snapshot-damaged"


def test_another_version_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    whole = saved(path)
    path.write_bytes(whole[:8] + struct.pack("<I", 99) + whole[12:])
    with pytest.raises(TwigcastError) as caught:
        Engine.open(path)
    assert caught.value.code == "snapshot-version" and "99" in caught.value.text and caught.value.hint


def test_a_missing_file_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(TwigcastError) as caught:
            Engine.open(path)
        assert caught.value.code == "snapshot-unreadable" and str(path) in caught.value.text
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path, tmp_path / "file" / "engine"):
        with pytest.raises(TwigcastError) as caught:
            Engine().save(path)
        assert caught.value.code == "snapshot-unwritable"
    assert [p.name for p in tmp_path.iterdir()] == ["file"], "nothing is left lying about"


def test_a_reader_sees_a_whole_file_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    engine = Engine()
    engine.add_many([])
    for i in range(300):
        engine.add("//a", id=i)
    engine.save(path)

    def churn() -> None:
        for i in range(300):
            engine.remove(i)
            engine.add("//a", id=i)

    def save() -> None:
        for _ in range(15):
            engine.save(path)

    def read() -> None:
        for _ in range(15):
            opened = Engine.open(path)
            assert len(opened.match(b"<a/>")) == len(opened) >= 299

    with ThreadPoolExecutor(6) as pool:
        for job in [pool.submit(f) for f in (churn, save, save, read, read)]:
            job.result()
    assert [p.name for p in tmp_path.iterdir()] == ["engine"]
