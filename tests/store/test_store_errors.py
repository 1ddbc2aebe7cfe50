"""What is wrong with a store is told in plain words, without passwords."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from twigcast.errors import OptionError
from twigcast.store import Store, StoreError
from twigcast.store.urls import check_url, resolve, shown


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everything; somebody else may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    """A folder that anybody may enter; pytest's own are private."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and "pytest" in str(folder):
            folder.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    "url",
    ["mysql://u:hidden@h/d", "twigcast.db", "", "sqlite://", "sqlite:///:memory:", "postgresql://u:hidden@h", "http://h/x",
     "postgresql+psycopg2://u:hidden@h/d", "sqlite://host/file.db", "postgresql://u:hidden@h:port/d",
     "postgresql://u:hid@hidden/x@h/d", "postgresql://u:hid@hidden@h/d"],
)  # fmt: skip
def test_urls_of_no_store(url: str) -> None:
    with pytest.raises(OptionError) as raised:
        Store.open(url)
    assert raised.value.code == "bad-store-url" and raised.value.hint
    assert "hidden" not in str(raised.value)


def test_urls() -> None:
    assert check_url("postgres://u:p%40w@h:5/d?sslmode=require") == "postgresql+psycopg://u:p%40w@h:5/d?sslmode=require"
    assert shown("postgresql://u:hidden@h/d?password=hidden") == "postgresql://u:***@h/d"
    assert resolve("sqlite:///x.db", Path("/etc")) == "sqlite:////etc/x.db"
    assert resolve("sqlite:////x.db", Path("/etc")) == "sqlite:////x.db"


def test_there_is_no_store(store_url: str) -> None:
    with pytest.raises(StoreError) as raised:
        Store.open(store_url, create=False)
    assert raised.value.code == "no-store" and "--store" in str(raised.value)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        Store.open(f"sqlite:///{tmp_path / 'no' / 'x.db'}")
    assert raised.value.code == "store-unreachable" and "folder" in str(raised.value)


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("<a/>" * 1000)
    with pytest.raises(StoreError) as raised:
        Store.open(f"sqlite:///{tmp_path / 'x.db'}")
    assert raised.value.code == "not-a-store"
    assert (tmp_path / "x.db").read_text() == "<a/>" * 1000


def test_a_file_that_may_not_be_written(readable: Path) -> None:
    file = readable / "x.db"
    with Store.open(f"sqlite:///{file}") as store:
        store.subscribe("/a", id="x")
    file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    with without_privileges():
        with pytest.raises(StoreError) as raised, Store.open(f"sqlite:///{file}") as store:
            store.subscribe("/b")
        assert raised.value.code in ("store-read-only", "store-unreachable")
        assert "permissions" in str(raised.value) or "writable" in str(raised.value)


def test_a_folder_that_may_not_be_written(readable: Path) -> None:
    (readable / "locked").mkdir(mode=0o555)
    with without_privileges(), pytest.raises(StoreError) as raised:
        Store.open(f"sqlite:///{readable / 'locked' / 'x.db'}")
    assert raised.value.code == "store-unreachable"


def test_a_newer_store(store_url: str) -> None:
    Store.open(store_url).close()
    engine = create_engine(check_url(store_url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE twigcast_meta SET value = '99' WHERE key = 'schema'"))
    engine.dispose()
    with pytest.raises(StoreError) as raised:
        Store.open(store_url)
    assert raised.value.code == "newer-store" and "99" in str(raised.value) and "upgrade" in str(raised.value)


def test_no_server(free_port: int) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as raised:
        Store.open(f"postgresql://u:hidden@127.0.0.1:{free_port}/d")
    assert raised.value.code == "store-unreachable"
    assert f"u:***@127.0.0.1:{free_port}/d" in str(raised.value) and "hidden" not in str(raised.value)


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_says_no(postgresql_server: Any) -> None:
    for url, words in {
        postgresql_server.url("postgres", password="hidden-one"): "password authentication failed",
        postgresql_server.url("nosuchdatabase"): "nosuchdatabase",
    }.items():
        with pytest.raises(StoreError) as raised:
            Store.open(url)
        assert raised.value.code == "store-unreachable" and words in str(raised.value)
        assert "hidden-one" not in str(raised.value) and "s3cret" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_a_database_that_may_not_be_written(postgresql_url: str) -> None:
    Store.open(postgresql_url).close()
    with Store.open(f"{postgresql_url}%20-cdefault_transaction_read_only%3Don") as store:
        assert store.version == 0
        with pytest.raises(StoreError) as raised:
            store.subscribe("/a")
    assert raised.value.code == "store-read-only"


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as raised:
        Store.open("postgresql://u:hidden@127.0.0.1/d")
    assert raised.value.code == "no-driver" and "twigcast[postgres]" in str(raised.value)


def test_a_failure_does_not_tell_values(store_url: str) -> None:
    secret = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"
    with Store.open(store_url) as store:
        with store.database.engine.begin() as connection:
            connection.execute(text("DROP TABLE twigcast_changes"))
        with pytest.raises(StoreError) as raised:
            store.add_subscriber("x", targets={"webhook": {"url": "https://h", "secret": secret}})
        assert secret not in str(raised.value) and secret not in repr(raised.value)
        assert raised.value.__suppress_context__
        assert store.subscribers() == []
