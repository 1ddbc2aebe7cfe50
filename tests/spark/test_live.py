"""A set of subscriptions that changes: the driver publishes, a worker catches up; no Spark needed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from fake_store import FakeStore

from twigcast.engine import Engine
from twigcast.errors import TwigcastError
from twigcast.spark import live
from twigcast.spark import workers as worker
from twigcast.spark.live import LiveSet
from twigcast.spark.workers import Snapshot, held_at

NAMES = "abcdefgh"


@pytest.fixture(autouse=True)
def fresh_worker() -> None:
    worker._held.clear()
    worker.opened.clear()
    worker.applied.clear()


def found(version: Snapshot, xml: bytes) -> dict[str, tuple[str | None, int | None]]:
    """What a worker at a version says: subscription -> (subscriber, max_delay)."""
    held = held_at(version)
    batch = pa.RecordBatch.from_pydict({"id": ["m"], "xml": [xml]})
    numbers = held.engine.match_batch(batch).column("matches").flatten()
    columns = (held.traits.take(name, numbers).to_pylist() for name in ("subscription", "subscriber", "max_delay"))
    return {id: (who, delay) for id, who, delay in zip(*columns, strict=True)}


def test_a_worker_catches_up_by_deltas(tmp_path: Path) -> None:
    store = FakeStore()
    for number in range(100):
        store.put(f"s{number}", f"/{NAMES[number % 8]}", subscriber=f"u{number}")
    alive = LiveSet(store, tmp_path / "s")
    first = alive.current()
    assert alive.current() == first
    assert len(found(first.shards[0], b"<a/>")) == 13
    store.put("new", "/a", subscriber="ann", max_delay=5000)
    store.drop("s0")
    second = alive.current()
    assert second.version == 102 and second.shards[0].base == first.shards[0].base
    assert found(second.shards[0], b"<a/>")["new"] == ("ann", 5000)
    assert "s0" not in found(second.shards[0], b"<a/>")
    store.put("new", "/b", subscriber="bob")
    third = alive.current()
    assert "new" not in found(third.shards[0], b"<a/>") and found(third.shards[0], b"<b/>")["new"] == ("bob", None)
    assert len(worker.opened) == 1 and len(worker.applied) == 2
    # Another stream's task, still at the version before, gets that one.
    assert found(second.shards[0], b"<a/>")["new"] == ("ann", 5000)
    assert found(third.shards[0], b"<b/>")["new"] == ("bob", None)
    assert len(worker.opened) == 2


@pytest.mark.parametrize("shards", [1, 3])
def test_any_history_gives_the_same_as_a_fresh_set(
    tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_DELTAS", 3)
    monkeypatch.setattr(live, "FOLD_BYTES", 1 << 14)
    dice = random.Random(shards)
    store = FakeStore()
    alive = LiveSet(store, tmp_path / "s", shards=shards)
    bases = set()
    for _ in range(60):
        for _ in range(dice.randrange(4)):
            id = f"s{dice.randrange(40)}"
            if id in store.records and dice.random() < 0.5:
                store.drop(id)
            else:
                result = dice.choice(["match", "fragments"])
                store.put(id, f"//{dice.choice(NAMES)}", subscriber=dice.choice([None, "u", "v"]), result=result)
        published = alive.current()
        if dice.random() < 0.3:
            continue  # a worker that gets no task of this version
        bases.update(shard.base for shard in published.shards)
        everything: dict[str, dict[str, tuple[str | None, int | None]]] = {name: {} for name in NAMES}
        for shard in published.shards:
            for name in NAMES:
                everything[name] |= found(shard, f"<{name}/>".encode())
        for name in NAMES:
            expected = {r.id: (r.subscriber, None) for r in store.records.values() if r.query == f"//{name}"}
            assert everything[name] == expected
    assert len(bases) > shards or shards > 1  # it was rebased on the way
    assert published.subscriptions == len(store.records)


def test_a_store_out_of_reach_leaves_the_last_version(tmp_path: Path) -> None:
    store = FakeStore()
    store.put("s", "/a")
    alive = LiveSet(store, tmp_path / "s")
    before = alive.current()
    store.broken = TwigcastError("store-unreachable", "no route to host")
    assert alive.current() == before and alive.failing == "no route to host"
    store.broken = None
    store.put("t", "/a")
    assert alive.current().version == 2 and alive.failing is None
    broken = FakeStore(broken=TwigcastError("store-unreachable", "no route to host"))
    broken.load = lambda: broken.version  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(TwigcastError, match="no route"):
        LiveSet(broken, tmp_path / "t").current()


def test_a_store_that_has_forgotten_is_loaded_afresh(tmp_path: Path) -> None:
    store = FakeStore()
    store.put("s", "/a")
    store.put("t", "/a")
    alive = LiveSet(store, tmp_path / "s")
    first = alive.current()
    store.drop("s")
    store.put("u", "/a")
    forgotten = TwigcastError("history-pruned", "forgotten")
    changes, load = store.changes, store.load

    def refuse(*_: object) -> NoReturn:
        raise forgotten

    store.changes = store.load = refuse  # type: ignore[method-assign,assignment]
    assert alive.current() == first and alive.failing == "forgotten"
    store.load = load  # type: ignore[method-assign]
    second = alive.current()
    assert alive.failing is None and (second.version, second.subscriptions) == (4, 2)
    assert set(found(second.shards[0], b"<a/>")) == {"t", "u"}
    assert set(found(first.shards[0], b"<a/>")) == {"s", "t"}  # a task may still ask for it
    store.changes = changes  # type: ignore[method-assign]
    store.drop("t")
    third = alive.current()
    assert third.shards[0].base == second.shards[0].base and set(found(third.shards[0], b"<a/>")) == {"u"}


def test_a_subscription_that_cannot_be_accepted_does_not_keep_out_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FakeStore()
    store.put("good", "/a")
    store.put("bad", "/a[[")
    published = LiveSet(store, tmp_path / "s").current()
    assert list(found(published.shards[0], b"<a/>")) == ["good"]
    assert "'bad' is left out" in caplog.text


def test_a_worker_that_outlives_a_run_is_not_misled(tmp_path: Path) -> None:
    for query in ("/a", "/b"):
        store = FakeStore()
        store.put("s", query)
        published = LiveSet(store, tmp_path / "s").current()
        assert list(found(published.shards[0], f"<{query[1:]}/>".encode())) == ["s"]


def test_only_one(tmp_path: Path) -> None:
    store = FakeStore()
    store.put("s", "/a")
    store.put("t", "/a")
    assert list(found(LiveSet(store, tmp_path / "s", only="t").current().shards[0], b"<a/>")) == ["t"]


def test_a_change_costs_what_it_changes(tmp_path: Path) -> None:
    """Not the set: bytes written and read for one change are the same whatever the number of subscriptions."""
    sizes = []
    for count in (10, 5000):
        store = FakeStore()
        for number in range(count):
            store.put(f"s{number}", f"/a/b{number}")
        alive = LiveSet(store, tmp_path / str(count))
        alive.current()
        store.put("new", "/c")
        delta = alive.current().shards[0].deltas[-1]
        sizes.append([Path(file.path).stat().st_size for file in (delta.engine, delta.traits)])
    assert all(abs(small - large) < 64 for small, large in zip(*sizes, strict=True))
    assert isinstance(alive._shards[0].engine, Engine)


def test_a_correlation_whose_stream_must_not_be_is_paused_and_stops_nobody(tmp_path: Path) -> None:
    store = FakeStore()
    made = "SELECT <n>{{ $x }}</n> FROM {}/a->x PUBLISH {}"
    store.put("fine", made.format("orders", "derived"), kind="correlate", version=1)
    store.put("forges", made.format("orders", "payments"), kind="correlate", version=2)
    alive = LiveSet(store, tmp_path / "s", sources=["orders", "payments"])
    assert set(alive.current().correlations) == {"fine"}
    assert list(store.paused) == ["forges"] and store.paused["forges"].startswith("published-source: ")
    store.put("back", made.format("derived", "orders2"), kind="correlate", version=3)
    store.put("cycle", made.format("orders2", "derived"), kind="correlate", version=4)
    assert set(alive.current().correlations) == {"fine", "back"}
    assert store.paused["cycle"].startswith("stream-cycle: ")
    assert set(alive.current().correlations) == {"fine", "back"}
