"""What has changed since a version, against a model that remembers every version."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast.store import Store, StoreError, import_jsonl

IDS = [f"s{i}" for i in range(6)]
QUERIES = ["/a", "/b[c = 1]", "//d"]


class Model:
    """Every version's active subscriptions: id -> query."""

    def __init__(self) -> None:
        self.all: dict[str, tuple[str, bool]] = {}
        self.versions: list[dict[str, str]] = [{}]

    def step(self, store: Store, op: str, id: str, query: str) -> None:
        before = dict(self.all)
        if op == "put" and id in self.all:
            store.replace(id, query)
            self.all[id] = query, True
        elif op == "put":
            store.subscribe(query, id=id)
            self.all[id] = query, True
        elif op == "import":
            pairs = {id: query, "s0": "/i"}
            lines = [json.dumps({"id": key, "query": value}).encode() for key, value in pairs.items()]
            import_jsonl(store, lines, replace=True)
            self.all.update({key: (value, True) for key, value in pairs.items()})
        elif id not in self.all:
            return
        elif op == "remove":
            store.unsubscribe(id)
            del self.all[id]
        else:
            (store.pause if op == "pause" else store.resume)(id)
            self.all[id] = self.all[id][0], op == "resume"
        if op == "put" or self.all != before:
            self.versions.append({key: query for key, (query, active) in self.all.items() if active})
        assert store.version == len(self.versions) - 1


def follows(store: Store, model: Model, since: int) -> None:
    active = dict(model.versions[since])
    changes = store.changes(since)
    for id in changes.removed:
        del active[id]  # exactly those that were there
    for record in changes.added:
        assert record.id not in active and record.state == "active"
        active[record.id] = record.query
    assert active == model.versions[-1]
    assert changes.version == len(model.versions) - 1


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "pause", "resume", "import"]), st.sampled_from(IDS), st.sampled_from(QUERIES)
    ),
    max_size=25,
)


@settings(max_examples=30, deadline=None)
@given(steps)
def test_changes_lead_from_any_version_to_now(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('store') / 's.db'}") as store:
        model = Model()
        for step in steps:
            model.step(store, *step)
        for since in range(len(model.versions)):
            follows(store, model, since)
        version, records = store.load()
        assert {r.id: r.query for r in records} == model.versions[version]


def test_the_same_in_postgresql(postgresql_url: str) -> None:
    draw = random.Random(7)
    with Store.open(postgresql_url) as store:
        model = Model()
        for _ in range(60):
            op = draw.choice(["put", "put", "remove", "pause", "resume", "import"])
            model.step(store, op, draw.choice(IDS), draw.choice(QUERIES))
        for since in range(len(model.versions)):
            follows(store, model, since)


def test_a_version_that_was_never_there(store_url: str) -> None:
    with Store.open(store_url) as store:
        store.subscribe("/a")
        assert not store.changes(1)
        with pytest.raises(StoreError, match="version 1, and changes since 2"):
            store.changes(2)


def test_the_cost_of_a_change_is_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Both parts of the answer are read from an index, whatever the number of subscriptions."""
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('store') / 's.db'}") as store, store.database.reading() as c:
        for query in (
            "SELECT * FROM twigcast_subscriptions WHERE version > 5 AND state = 'active' ORDER BY version, id",
            "SELECT subscription FROM twigcast_ended WHERE version > 5 AND since <= 5 ORDER BY version, subscription",
        ):
            plan = " ".join(str(row) for row in c.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}"))
            assert "SEARCH" in plan and "SCAN" not in plan and "B-TREE" not in plan


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.open(store_url) as opened:
        yield opened


def ended(store: Store) -> tuple[int, int]:
    with store.database.reading() as connection:
        return tuple(  # type: ignore[return-value]
            connection.exec_driver_sql(f"SELECT count(*) FROM twigcast_{name}").scalar_one()
            for name in ("ended", "changes")
        )


def age(store: Store) -> None:
    """All that has happened was long ago."""
    with store.database.engine.connect() as connection:
        connection.exec_driver_sql("UPDATE twigcast_changes SET time = '2020-01-01T00:00:00.000+00:00'")
        connection.commit()


def test_what_is_too_old_is_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        store.subscribe("/a", id=f"s{number}")
        store.unsubscribe(f"s{number}")
    store.subscribe("/a", id="kept")
    assert store.prune() == 0 and ended(store) == (20, 41)
    age(store)
    before = store.version
    monkeypatch.setattr("twigcast.store.database.PRUNE_EVERY", 10)
    for number in range(9):
        store.subscribe("/b", id=f"n{number}")  # one of these makes room
    assert ended(store) == (0, 9)
    for since in (0, 3, before - 1):
        with pytest.raises(StoreError, match="forgotten") as raised:
            store.changes(since)
        assert raised.value.code == "history-pruned"
    assert [record.id for record in store.changes(before).added] == [f"n{number}" for number in range(9)]
    age(store)
    assert store.prune() == store.version and ended(store) == (0, 0)
    assert not store.changes(store.version)
    store.unsubscribe("kept")
    assert store.changes(store.version - 1).removed == ["kept"]


def test_imports_that_replace_do_not_pile_up(store: Store) -> None:
    for round in range(3):
        rows = [json.dumps({"id": f"s{i}", "query": f"/a/b{round}"}).encode() for i in range(300)]
        import_jsonl(store, rows, replace=True)
        age(store)
    import_jsonl(store, [b'{"id": "t%d", "query": "/a"}' % i for i in range(300)])
    assert ended(store) == (0, 1)


def test_a_subscription_that_keeps_failing_is_paused_with_the_reason(store: Store) -> None:
    store.subscribe("/a", id="a")
    store.subscribe("/b", id="b")
    version = store.version
    assert store.pause_failing("a", "failed on 3 of 3 messages", version)
    assert not store.pause_failing("a", "again", store.version)  # it is paused already
    assert not store.pause_failing("gone", "failed", version)
    record = store.subscription("a")
    assert (record.state, record.reason) == ("paused", "failed on 3 of 3 messages")
    assert store.paused_failing() == {"a": "failed on 3 of 3 messages"}
    assert store.changes(version).removed == ["a"]
    assert store.resume("a") == 1 and store.paused_failing() == {}
    # failures of what it was before do not count
    assert not store.pause_failing("a", "failed", version)
    store.pause("b")
    assert store.subscription("b").reason is None
