"""Several programs on one store: nothing is lost, nothing is seen half."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from twigcast.store import Store, StoreError
from twigcast.store.urls import check_url

WRITER = """
import sys
from twigcast.store import Store
url, name, count = sys.argv[1:]
with Store.open(url) as store:
    for i in range(int(count)):
        store.subscribe(f"/a[b = {i}]", id=f"{name}-{i}")
        if i % 3 == 0:
            store.replace(f"{name}-{i}", "/c")
        if i % 3 == 1:
            store.unsubscribe(f"{name}-{i}")
"""


def test_writers_in_processes_and_readers_in_threads(store_url: str) -> None:
    """Three programs begin with an empty place at the same time; a reader follows their changes all the while."""
    count = 12
    command = [sys.executable, "-c", WRITER, store_url]
    writers = [subprocess.Popen([*command, f"w{n}", str(count)], stderr=subprocess.PIPE, text=True) for n in range(3)]
    failures: list[BaseException] = []

    def follow(done: threading.Event) -> None:
        try:
            with Store.open(store_url) as store:
                version, records = store.load()
                active = {r.id: r.query for r in records}
                last = False
                while True:
                    last = done.is_set()
                    changes = store.changes(version)
                    assert changes.version >= version
                    for id in changes.removed:
                        del active[id]
                    for record in changes.added:
                        assert record.id not in active
                        active[record.id] = record.query
                    version = changes.version
                    if last:
                        break
                    done.wait(0.05)
                assert active == {r.id: r.query for r in store.subscriptions()}
        except BaseException as error:
            failures.append(error)

    done = threading.Event()
    followers = [threading.Thread(target=follow, args=(done,)) for _ in range(2)]
    for thread in followers:
        thread.start()
    try:
        for writer in writers:
            _, errors = writer.communicate(timeout=120)
            assert writer.returncode == 0, errors
    finally:
        done.set()
        for thread in followers:
            thread.join()
    assert not failures, failures
    with Store.open(store_url) as store:
        each = sum(2 if i % 3 < 2 else 1 for i in range(count))
        assert store.version == 3 * each
        assert len(store) == 3 * sum(i % 3 != 1 for i in range(count))


def test_threads_share_a_store(store_url: str) -> None:
    with Store.open(store_url) as store:
        threads = [
            threading.Thread(target=lambda n=n: [store.subscribe("/a", id=f"{n}-{i}") for i in range(10)])  # type: ignore[misc]
            for n in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.version == len(store) == 60


def test_a_store_that_stays_locked(store_url: str) -> None:
    with Store.open(store_url, timeout=0.3) as store:
        engine = create_engine(check_url(store_url))
        with engine.connect() as other:
            if store.database.is_sqlite:
                other.execute(text("INSERT INTO twigcast_meta VALUES ('x', 'y')"))  # takes the lock, and keeps it
            else:
                other.execute(text("SELECT * FROM twigcast_meta FOR UPDATE"))
            assert store.version == 0  # readers do not wait
            with pytest.raises(StoreError) as raised:
                store.subscribe("/a")
            assert raised.value.code == "store-busy"
            other.rollback()
        engine.dispose()
        store.subscribe("/a")


def test_a_server_that_goes_away_and_comes_back(postgresql_url: str) -> None:
    with Store.open(postgresql_url) as store:
        store.subscribe("/a", id="x")
        engine = create_engine(check_url(postgresql_url))
        with engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
        engine.dispose()
        store.subscribe("/b", id="y")
        assert store.version == len(store) == 2


def test_wal(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 's.db'}") as store, store.database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
