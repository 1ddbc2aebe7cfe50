from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twigcast.engine.files import SubscriptionFileError
from twigcast.store import Store, StoreError, export_jsonl, import_jsonl
from twigcast.store.records import PublisherRecord


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.open(store_url) as store:
        yield store


def lines(*objects: Any) -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in objects]


FULL = {
    "id": "full",
    "subscriber": "alice",
    "query": "//p:a[b = 'é']",
    "namespaces": {"p": "urn:x"},
    "default_namespace": "urn:d",
    "dialect": "tian",
    "result": "fragments",
    "stream": "orders",
    "max_delay": "5 min",
    "state": "paused",
}


def test_what_no_publisher_of_a_stream_can_send_is_refused(store: Store) -> None:
    text = "<!ELEMENT order (item*)><!ELEMENT item (#PCDATA)>"
    store.put_publisher(PublisherRecord("shop", "orders", text, "dtd"))
    right = [{"id": f"r{n}", "query": f'/order[item = "{n}"]', "stream": "orders"} for n in range(4)]
    wrong = [{"id": f"w{n}", "query": f'/order[itm = "{n}"]', "stream": "orders"} for n in range(4)]
    with pytest.raises(SubscriptionFileError) as caught:
        import_jsonl(store, lines(*right, *wrong, {"id": "x", "query": "/order[", "stream": "orders"}))
    assert [line for line, _ in caught.value.problems] == [9]
    assert len(store) == 0
    done = import_jsonl(store, lines(*right, *wrong))
    assert (done.added, done.never, [line for line, _ in done.never_lines]) == (4, 4, [5, 6, 7, 8])
    assert {error.code for _, error in done.never_lines} == {"never-matches"}
    assert done.never_lines[1][1].source == '/order[itm = "1"]'
    assert import_jsonl(store, lines(*right, *wrong), replace=True, allow_never=True).added == 4
    store.unsubscribe(*(record.id for record in list(store.subscriptions())))
    # of other streams, and of all of them, nothing is known
    others = [{**wrong[0], "stream": "other"}, {"id": "any", "query": "/order[itm]"}]
    assert import_jsonl(store, lines(*right, *others)).added == 6


def test_what_is_exported_can_be_imported(store: Store, tmp_path: Path) -> None:
    done = import_jsonl(store, lines(FULL, {"id": "x", "query": "/a\t[b]"}), add_subscribers=True)
    assert (done.added, done.subscribers, done.version, store.version) == (2, 1, 1, 1)
    exported = list(export_jsonl(store))
    assert [json.loads(line) for line in exported] == [FULL, {"id": "x", "query": "/a\t[b]"}]
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        import_jsonl(other, [line.encode() for line in exported], add_subscribers=True)
        assert list(export_jsonl(other)) == exported
        assert [r._replace(version=0) for r in other.subscriptions()] == [
            r._replace(version=0) for r in store.subscriptions()
        ]


def test_lines_as_files_have_them(store: Store) -> None:
    text = b'\xef\xbb\xbf{"query": "/a"}\r\n\n  \n{"query": "/b", "id": 7, "subscriber": null}\n{"query": "/c"}'
    import_jsonl(store, text.splitlines(keepends=True))
    assert {r.id: r.query for r in store.subscriptions()} == {"1": "/a", "7": "/b", "5": "/c"}
    assert import_jsonl(store, []).version == store.version == 1


def test_every_bad_line_is_told_and_nothing_stored(store: Store) -> None:
    bad = [
        b'{"query": "/a"}\n',
        b'{"query": "/a[b"}\n',
        b'{"query": "/a"\n',
        b'{"query": "\xff"}\n',
        b'{"query": "/a", "id": [1]}\n',
        b'{"query": "/a", "max_delay": "soon"}\n',
        b'{"query": "/a", "sate": "paused"}\n',
        b'{"query": "/a", "kind": "transform"}\n',
        b'{"id": "x"}\n',
        b"[1]\n",
        b'{"query": "/a", "namespaces": {"p": 1}}\n',
        b'{"query": "/a", "subscriber": "../x"}\n',
        b'{"query": "\\ud800"}\n',
        b'{"query": "/a", "id": ' + b"9" * 5000 + b"}\n",
        b"[" * 100_000 + b"\n",
        b'{"query": "/p:a", "namespaces": {"q": "urn:x"}}\n',
        b'{"query": "count(/a)", "result": "nodes"}\n',
        b'{"query": 3}\n',
    ]
    with pytest.raises(SubscriptionFileError) as raised:
        import_jsonl(store, bad, name="subs.jsonl")
    assert [line for line, _ in raised.value.problems] == list(range(2, len(bad) + 1))
    said = str(raised.value)
    assert "subs.jsonl:2: " in said and "/a[b" in said and "^" in said and "did you mean 'state'" in said
    assert (len(store), store.version) == (0, 0)


def test_a_file_of_the_wrong_kind_is_given_up_soon(store: Store) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"/a/b\n"

    with pytest.raises(SubscriptionFileError) as raised:
        import_jsonl(store, endless())
    assert len(str(raised.value)) < 10_000


def test_ids_must_be_new(store: Store) -> None:
    store.subscribe("/a", id="x")
    with pytest.raises(SubscriptionFileError, match="line 1 already") as raised:
        import_jsonl(store, lines({"query": "/a", "id": "y"}, {"query": "/b"}, {"query": "/a", "id": "y"}))
    assert [line for line, _ in raised.value.problems] == [3]
    with pytest.raises(SubscriptionFileError, match="in the store already") as raised:
        import_jsonl(store, lines({"query": "/a", "id": "y"}, {"query": "/b", "id": "x"}))
    assert [line for line, _ in raised.value.problems] == [2]
    with pytest.raises(SubscriptionFileError, match="no subscriber 'bob'"):
        import_jsonl(store, lines({"query": "/a", "id": "y", "subscriber": "bob"}))
    assert (len(store), store.version, store.subscribers()) == (1, 1, [])


def test_all_kinds_of_bad_lines_at_once(store: Store) -> None:
    store.subscribe("/a", id="there")
    good = [{"query": f"/a/b{i}", "id": f"g{i}"} for i in range(40)]
    bad = [
        {"query": "/a[", "id": "g1"},
        {"query": "/a", "id": "g2"},
        {"query": "/a", "id": "there"},
        {"query": "/a", "id": "n1", "subscriber": "bob"},
        {"query": "/a", "id": "n2", "subscriber": "bob"},
        {"query": "/a", "id": "g2"},
        *({"query": f"/a[{i}", "id": f"b{i}"} for i in range(30)),
    ]
    with pytest.raises(SubscriptionFileError) as raised:
        import_jsonl(store, lines(*good, *bad), name="subs.jsonl")
    assert [line for line, _ in raised.value.problems] == list(range(41, 77))
    said = str(raised.value)
    assert all(f"subs.jsonl:{line}: " in said for line in range(41, 77)) and "more bad lines" not in said
    assert said.count("there is no subscriber 'bob'") == 2 and said.count("is that of line 3 already") == 2
    assert (len(store), store.version) == (1, 1)
    assert import_jsonl(store, lines(*good)).added == 40


def test_the_reason_of_a_pause_is_kept(store: Store) -> None:
    reason = "failed on 3 of 3 messages: query-too-costly:\nit takes too long"
    store.subscribe("/a", id="failing")
    assert store.pause_failing("failing", reason, store.version)
    exported = [line.encode() for line in export_jsonl(store)]
    assert json.loads(exported[0]) == {"id": "failing", "query": "/a", "state": "paused", "reason": reason}
    assert import_jsonl(store, exported, replace=True).unchanged == 1
    store.unsubscribe("failing")
    import_jsonl(store, exported)
    assert store.paused_failing() == {"failing": reason} and store.subscription("failing").reason == reason
    assert import_jsonl(store, lines({"id": "failing", "query": "/b", "state": "paused"}), replace=True).replaced == 1
    assert store.subscription("failing").reason is None
    for wrong in ({"state": "paused", "reason": 7}, {"reason": reason}, {"state": "paused", "reason": "\0"}):
        with pytest.raises(SubscriptionFileError) as caught:
            import_jsonl(store, lines({"id": "x", "query": "/a", **wrong}))
        assert [error.code for _, error in caught.value.problems] == ["bad-reason"]


def test_replace_touches_only_what_differs(store: Store) -> None:
    for id in "abc":
        store.subscribe("/q", id=id)
    store.pause("b")
    before = store.version
    done = import_jsonl(
        store,
        lines(
            {"query": "/q", "id": "a"},
            {"query": "/q", "id": "b"},
            {"query": "/r", "id": "c"},
            {"query": "/q", "id": "d"},
        ),
        replace=True,
    )
    assert (done.added, done.replaced, done.unchanged) == (1, 2, 1)
    changes = store.changes(before)
    assert (sorted(r.id for r in changes.added), changes.removed) == (["b", "c", "d"], ["c"])
    again = import_jsonl(store, [line.encode() for line in export_jsonl(store)], replace=True)
    assert (again.unchanged, again.version, store.version) == (4, before + 1, before + 1)


def test_others_may_write_while_an_import_is_read(store: Store, store_url: str) -> None:
    half, go = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        for i in range(30_000):
            if i == 20_000:
                half.set()
                assert go.wait(60)
            yield b'{"query": "/a", "id": "i%d"}\n' % i

    importing = threading.Thread(target=lambda: import_jsonl(store, slow()))
    importing.start()
    try:
        assert half.wait(60)
        with Store.open(store_url, timeout=5) as other:
            other.subscribe("/b", id="mine")
            assert len(other) == 1
    finally:
        go.set()
        importing.join()
    assert (len(store), store.version) == (30_001, 2)


CRASH = """
import os, signal, sys
from twigcast.store import Store, import_jsonl
from twigcast.store.database import Database
url, when = sys.argv[1:]
store = Store.open(url)
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
def lines():
    for i in range(25_000):
        if when == "reading" and i == 24_000:
            die()
        yield b'{"query": "/a[b = %d]", "id": "i%d", "subscriber": "alice"}' % (i, i)
if when == "storing":
    Database._finish = die
import_jsonl(store, lines(), add_subscribers=True)
"""


@pytest.mark.parametrize("when", ["reading", "storing"])
def test_a_crash_leaves_nothing_half_done(store_url: str, when: str) -> None:
    with Store.open(store_url) as store:
        store.subscribe("/a", id="before")
    done = subprocess.run([sys.executable, "-c", CRASH, store_url, when], capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    with Store.open(store_url) as store:
        assert ([r.id for r in store.subscriptions()], store.version, store.subscribers()) == (["before"], 1, [])
        store.subscribe("/a", id="after")
        assert import_jsonl(store, lines({"query": "/a", "id": "i1"})).version == 3


def test_the_connection_of_an_import_leaves_nothing_behind(store: Store) -> None:
    for i in range(8):
        import_jsonl(store, lines({"query": "/a", "id": f"x{i}"}))
        with pytest.raises(SubscriptionFileError):
            import_jsonl(store, lines({"query": "/a["}))
    assert len(store) == 8


def test_a_full_disk_is_told(store: Store) -> None:
    if not store.database.is_sqlite:
        pytest.skip("SQLite can be told how large a file may become")
    with store.database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match="disk is full"):
        for i in range(2_000):
            store.subscribe(f"/a[b = '{'x' * 500}']", id=f"s{i}")
    assert store.version == len(store)


@pytest.mark.slow
def test_a_million_in_a_minute(tmp_path: Path) -> None:
    """Processor time, because tests share their machine; `twigcast import` and `export` are these two calls."""
    queries = [
        '/stock[symbol = "S{}"]/price',
        "/order[customer/@id = {} and total > 3]",
        "//a{}/b",
        '//i[contains(t, "{}")]',
    ]
    text = (
        b'{"id": "q%07d", "subscriber": "u%d", "query": %s}\n'
        % (i, i % 1000, json.dumps(queries[i % 4].format(i % 50_000)).encode())
        for i in range(1_000_000)
    )
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        began = time.process_time()
        assert import_jsonl(store, text, add_subscribers=True).added == 1_000_000
        imported = time.process_time()
        assert sum(1 for _ in export_jsonl(store)) == 1_000_000
        exported = time.process_time()
    assert imported - began < 60 and exported - imported < 60
