"""Changes on top of a base."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from test_snapshot_kinds import answers, engine_of, ids, query, sealed
from twigcast import Engine, Subscription, TwigcastError
from twigcast.engine import delta


@pytest.mark.parametrize("seed", range(3))
def test_base_and_deltas_make_the_whole(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    engine = engine_of(random, 200)
    engine.save(tmp_path / "base")
    follower = Engine.open(tmp_path / "base")
    for step in range(6):
        since = engine.version
        for i in range(20):
            if random.random() < 0.5:
                engine.remove(random.choice([x for x in ids(engine) if x is not None]))
            else:
                count = random.randrange(4)
                engine.add_many(Subscription(f"s{seed} {step} {i} {j}", query(random)) for j in range(count))
        assert engine.version > since
        engine.save_delta(tmp_path / "delta", since)
        follower.apply(tmp_path / "delta")
        assert follower.version == engine.version
        assert ids(follower) == ids(engine) and answers(follower) == answers(engine)
        follower.apply(tmp_path / "delta")  # once more changes nothing
        assert follower.version == engine.version
        if step == 3:
            follower.save(tmp_path / "later")
            follower = Engine.open(tmp_path / "later")
    # all of it at once, on the first base
    first = Engine.open(tmp_path / "base")
    engine.save_delta(tmp_path / "delta", first.version)
    first.apply(tmp_path / "delta")
    assert ids(first) == ids(engine) and answers(first) == answers(engine)


def test_a_delta_carries_all_that_a_subscription_has(tmp_path: Path) -> None:
    engine = Engine(namespaces={"x": "urn:x"})
    engine.save(tmp_path / "base")
    since = engine.version
    engine.add("/y:a", id=7, namespaces={"y": "urn:y"})
    engine.add("/a", id="7", default_namespace="urn:d")
    engine.add("/x:a[//b]", id="é", dialect="tian")
    engine.save_delta(tmp_path / "delta", since)
    opened = Engine.open(tmp_path / "base")
    opened.apply(tmp_path / "delta")
    assert opened.match(b"<a xmlns='urn:y'/>") == [7]
    assert opened.match(b"<a xmlns='urn:d'/>") == ["7"]
    assert opened.match(b"<a xmlns='urn:x'><b xmlns=''/></a>") == ["é"]


def test_a_delta_fits_one_base_only(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("/a", id=1)
    engine.save(tmp_path / "base")
    engine.add("/b", id=2)
    engine.save_delta(tmp_path / "delta", 1)
    other = Engine()
    other.add("/c", id=1)
    other.save(tmp_path / "other")
    diverged = Engine.open(tmp_path / "base")
    diverged.add("/d", id=2)
    for follower in (Engine(), other, Engine.open(tmp_path / "other"), diverged):
        before = follower.version, answers(follower)
        with pytest.raises(TwigcastError) as caught:
            follower.apply(tmp_path / "delta")
        assert caught.value.code == "delta-base" and caught.value.hint
        assert (follower.version, answers(follower)) == before


def test_what_is_not_known_any_more_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.add("/a")
    with pytest.raises(TwigcastError) as caught:
        engine.save_delta(tmp_path / "delta", 0)
    assert caught.value.code == "unknown-version" and "no base" in str(caught.value.hint)
    engine.save(tmp_path / "base")
    monkeypatch.setattr(delta, "MAX_BYTES", 2000)
    for _ in range(200):
        engine.add("/a")
    with pytest.raises(TwigcastError):
        engine.save_delta(tmp_path / "delta", 1)
    engine.save(tmp_path / "later")
    since = engine.version
    engine.add("/b")
    engine.save_delta(tmp_path / "delta", since)
    opened = Engine.open(tmp_path / "later")
    opened.apply(tmp_path / "delta")
    assert len(opened) == len(engine)
    monkeypatch.setattr(delta, "MAX_BATCH", 10)
    engine.add_many(Subscription(f"s{i}", "/a") for i in range(20))
    with pytest.raises(TwigcastError):
        engine.save_delta(tmp_path / "delta", since)
    engine.save(tmp_path / "base")
    engine.save_delta(tmp_path / "delta", engine.version)


def test_a_delta_is_applied_whole_or_not_at_all(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("/a", id=1)
    engine.save(tmp_path / "base")
    engine.add_many([Subscription("x", "/b"), Subscription("y", "/c")])
    engine.remove(1)
    engine.save_delta(tmp_path / "delta", 1)
    header, lines = (part.to_pybytes() for part in delta.FORMAT.read(tmp_path / "delta"))
    for old, new in [
        (b'"/b"', b'"/["'),
        (b'"x"', b'"y"'),
        (b"\n1\n", b"\n2\n"),
        (b'"y"', b"[5]"),
        (b'"id"', b'"ie"'),
        (b'"/c"', b"5"),
        (b'"/c"', b'"/c","namespaces":{"a":1}'),
        (b'"/c"', b'"/c","namespaces":[5]'),
        (b'"/c"', b'"/c","dialect":[]'),
        (b"\n1\n", b"\n 1\n"),
        (b"\n1\n", b"\n1\n1\n"),
        (b"\n1\n", b"\n1\n[]\n"),
        (b"\n1\n", b"\n1\ntrue\n"),
        (b"\n1\n", b"\n1"),
    ]:
        assert old in lines
        changed = lines.replace(old, new)
        (since, tag), (to, _) = (json.loads(header)[key] for key in ("since", "to"))
        more = {"since": [since, tag], "to": [to + changed.count(b"\n") - lines.count(b"\n"), crc32(changed, tag)]}
        delta.FORMAT.write(tmp_path / "delta", [json.dumps(more).encode(), changed])
        opened = Engine.open(tmp_path / "base")
        with pytest.raises(TwigcastError):
            opened.apply(tmp_path / "delta")
        assert opened.version == 1 and opened.match(b"<a/>") == [1] and len(opened) == 1


def test_no_damaged_delta_is_accepted(tmp_path: Path) -> None:
    random = Random(2)
    engine = engine_of(random, 50)
    engine.save(tmp_path / "base")
    since = engine.version
    engine.add_many(Subscription(f"s-{i}", query(random)) for i in range(20))
    engine.save_delta(tmp_path / "delta", since)
    whole = (tmp_path / "delta").read_bytes()
    opened = Engine.open(tmp_path / "base")
    for _ in range(200):
        at = random.randrange(len(whole))
        (tmp_path / "delta").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(TwigcastError):
            opened.apply(tmp_path / "delta")
    for _ in range(500):
        at = random.randrange(24, len(whole))
        changed = sealed(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        (tmp_path / "delta").write_bytes(changed)
        follower = Engine.open(tmp_path / "base")
        try:
            follower.apply(tmp_path / "delta")
        except TwigcastError:
            pass
        else:
            assert changed == whole or answers(follower) == answers(engine)
