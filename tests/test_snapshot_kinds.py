"""Snapshots of every kind of subscription: the same answers and numbers, and an engine that goes on working."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription, TwigcastError

MESSAGES = [
    b"<stock><symbol>%s</symbol><price>%d</price><volume>%d</volume><note lang='%s'>%s</note></stock>"
    % (symbol, price, volume, lang, note)
    for symbol in (b"A", b"B", b" A", b"Z")
    for price, volume in ((1, 5), (5, 50), (9, 500))
    for lang, note in ((b"en", b"up"), (b"de", b"upward trend"))
] + [b"<a><b x='1'/><b x='2'/><c>5</c><d>6</d></a>", b"<a><a><b/>5.0</a></a>", b"<n:a xmlns:n='urn:n'>x</n:a>", b"<z/>"]

TEMPLATES = (
    "/stock[symbol = '{s}'][price > {n}][volume < {m}]",  # rows of a shape, reached by a string
    "/stock[price = {n}][volume > {m}]",  # by a number
    "/stock[symbol = '{s}' or price = {n}][volume > {m}]",  # by several
    "/stock[not(price > {n})][volume > {m}]",  # by a path alone
    "/stock[symbol = '{s}']",  # a path with a value at its end
    "//price[. = {n}]",
    "/stock[note/@lang = 'en']/symbol",
    "//stock[contains(note, '{t}')]",
    "//note[starts-with(., '{t}')][@lang != '{s}']",
    "/stock/*[{i}]",
    "//a[count(b) = {i}]",
    "/stock/symbol | //b/@x",
    "//{e}",
    "/a/@x | //{e}/text()",
    "//price[. + 1 > {n}]",  # residual
    "/a[c = d - {i}]",
    "//*[following::volume > {m}]",
    "//x:*",
)


def query(random: Random) -> str:
    return random.choice(TEMPLATES).format(
        s=random.choice("ABZ"),
        n=random.choice((-1, 0, 1, 1.5, 5, 9)),
        m=random.choice((4, 50, 400)),
        t=random.choice(("up", "trend", "")),
        i=random.randint(1, 3),
        e=random.choice("abcd"),
    )


def engine_of(random: Random, count: int) -> Engine:
    engine = Engine(namespaces={"x": "urn:n"})
    for start in range(0, count, 37):
        batch = range(start, min(count, start + 37))
        engine.add_many(Subscription(i if i % 3 else f"s{i}", query(random)) for i in batch)
        for _ in range(random.randrange(9)):
            engine.remove(random.choice([i for i in ids(engine) if i is not None]))
    return engine


def ids(engine: Engine) -> list[str | int | None]:
    return [int(i) if i is not None and i[0] != "s" else i for i in engine.ids.to_pylist()]


def answers(engine: Engine) -> list[list[str | int]]:
    return [engine.match(message) for message in MESSAGES]


@pytest.mark.parametrize("seed", range(4))
def test_all_kinds_of_subscriptions_come_back(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    engine = engine_of(random, 600)
    engine.save(tmp_path / "engine")
    opened = Engine.open(tmp_path / "engine")
    assert ids(opened) == ids(engine) and len(opened) == len(engine) and opened.version == engine.version
    assert answers(opened) == answers(engine) and any(answers(engine))
    batch = pa.record_batch({"id": list(range(len(MESSAGES))), "xml": MESSAGES})
    assert opened.match_batch(batch).equals(engine.match_batch(batch))
    shapes = len(opened.kernel.shapes())
    # both go on, with shapes old and new, and stay alike, numbers included
    for i in range(40):
        for id in random.sample([x for x in ids(engine) if x is not None], 5):
            engine.remove(id)
            opened.remove(id)
        more = [Subscription(f"s{seed} {i} {j}", query(random)) for j in range(7)]
        engine.add_many(more)
        opened.add_many(more)
        assert ids(opened) == ids(engine)
    assert answers(opened) == answers(engine)
    assert len(opened.kernel.shapes()) <= len(engine.kernel.shapes()) >= shapes
    opened.save(tmp_path / "again")
    assert answers(Engine.open(tmp_path / "again")) == answers(engine)


def test_a_known_shape_is_known_again(tmp_path: Path) -> None:
    engine = Engine()
    for i in range(5):
        engine.add(f"/stock[symbol = 'A'][price > {i}][volume > 1]", id=i)
    engine.save(tmp_path / "engine")
    opened = Engine.open(tmp_path / "engine")
    for i in range(5, 9):
        opened.add(f"/stock[symbol = 'A'][price > {i}][volume > 1]", id=i)
    assert len(opened.kernel.shapes()) == len(engine.kernel.shapes()) == 1
    assert opened.kernel.stats()[1] == engine.kernel.stats()[1], "no new bucket"
    assert opened.match(b"<stock><symbol>A</symbol><price>7</price><volume>9</volume></stock>") == list(range(7))
    for i in range(9):
        opened.remove(i)
    assert opened.match(MESSAGES[0]) == [] and opened.kernel.stats()[:2] == (0, 0)


def test_saving_is_repeatable_and_drops_what_nobody_uses(tmp_path: Path) -> None:
    engine = engine_of(Random(5), 300)
    for name in ("one", "two"):
        engine.save(tmp_path / name)
    Engine.open(tmp_path / "one").save(tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()
    for id in [i for i in ids(engine) if i is not None]:
        engine.remove(id)
    engine.save(tmp_path / "empty")
    opened = Engine.open(tmp_path / "empty")
    assert opened.kernel.shapes() == [] and len(opened) == 0 and answers(opened) == [[]] * len(MESSAGES)


def test_ids_of_an_opened_set_are_looked_up_either_way(tmp_path: Path) -> None:
    for given in (list(range(1000)), [f"s{i}" for i in range(1000)], [i if i % 2 else f"s{i}" for i in range(1000)]):
        engine = Engine()
        engine.add_many(Subscription(id, f"/a{i % 10}") for i, id in enumerate(given))
        engine.remove(given[31])
        engine.save(tmp_path / "engine")
        opened = Engine.open(tmp_path / "engine")
        for _ in range(40):  # a few from the array, then from a list
            assert opened.match(b"<a1/>") == [id for i, id in enumerate(given) if i % 10 == 1 and i != 31]
        assert len(opened) == 999 and given[31] not in opened and given[32] in opened
        opened = Engine.open(tmp_path / "engine")
        assert opened.ids.equals(engine.ids)
        with pytest.raises(TwigcastError):
            opened.add("/a", id=given[5])
        assert opened.add("/a") == engine.add("/a")


def sealed(whole: bytes) -> bytes:
    """With the checksum that fits."""
    body = whole[24:]
    return whole[:12] + struct.pack("<IQ", zlib.crc32(body), len(body)) + body


def test_whatever_a_file_holds_it_opens_or_is_refused(tmp_path: Path) -> None:
    random = Random(5)
    path = tmp_path / "engine"
    engine_of(random, 60).save(path)
    whole = path.read_bytes()
    opened = refused = 0
    for _ in range(1500):
        changed = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 8))):
            at = random.randrange(24, max(len(changed), 25))
            if at >= len(changed):
                break
            how = random.random()
            if how < 0.6:
                changed[at] ^= 1 << random.randrange(8)
            elif how < 0.9:
                at -= at % 4
                changed[at : at + 4] = struct.pack("<I", random.choice((0, 1, 2, 3, 255, 2**30, 2**31, 2**32 - 1)))
            elif how < 0.95:
                changed[at : at + 8] = random.randbytes(8)
            else:
                del changed[at : at + random.choice((1, 4, 8, 64, len(changed)))]
        path.write_bytes(sealed(bytes(changed)))
        try:
            engine = Engine.open(path)
            use(engine, random, tmp_path)
        except TwigcastError:
            refused += 1
        else:
            opened += 1
    assert opened > 20 and refused > 20


def use(engine: Engine, random: Random, folder: Path) -> None:
    answers(engine)
    engine.add_many(Subscription(f"new{i}", query(random)) for i in range(5))
    known = engine.ids.to_pylist()
    for id in [i for i in known if i is not None][:40]:
        if id in engine or not isinstance(id, str):
            engine.remove(id)
    answers(engine)
    engine.save(folder / "again")
    Engine.open(folder / "again")
