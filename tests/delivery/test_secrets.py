"""Who may read what Twigcast writes, and secrets that are kept elsewhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batches import commit, pipeline, some
from click.testing import CliRunner
from hooks import Request, serving

from twigcast.cli.subscriber import subscriber
from twigcast.common.private_files import tighten
from twigcast.common.references import absolute, resolve
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks.kafka import KafkaSink
from twigcast.errors import OptionError
from twigcast.store import Store
from twigcast.store.urls import resolve as resolve_url

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def secret_of(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


def is_signed(request: Request, key: bytes) -> bool:
    text = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return request.headers["webhook-signature"] == f"v1,{signature}"


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files are as open as the program makes them."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_state_is_for_its_owner(tmp_path: Path) -> None:
    settings = pipeline(tmp_path)
    commit(settings, 0, some(0))
    with Runner(settings) as runner:
        assert runner.drain()
        state = settings.state.path
        assert mode(state) == "700"
        databases = [path for path in state.iterdir() if path.name.startswith(("outbox.db", "dead.db"))]
        assert {path.name: mode(path) for path in databases} == {
            f"{name}.db{end}": "600" for name in ("outbox", "dead") for end in ("", "-wal", "-shm")
        }
    assert mode(tmp_path / "lines") == "777", "what sinks write is for others"


@pytest.mark.usefixtures("open_umask")
def test_the_store_is_for_its_owner(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.add_subscriber("alice")
        assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
            f"store.db{end}": "600" for end in ("", "-wal", "-shm")
        }


def test_what_is_too_open_is_tightened(tmp_path: Path) -> None:
    settings = pipeline(tmp_path)
    commit(settings, 0, some(0))
    with Runner(settings) as runner:
        assert runner.drain()
    settings.state.path.chmod(0o755)
    settings.state.outbox.chmod(0o644)
    commit(settings, 1, some(1))
    tighten(settings.state.path)
    with Runner(settings) as runner:
        assert runner.drain()
    assert (mode(settings.state.path), mode(settings.state.outbox)) == ("700", "600")
    # Somebody has shared them with a group on purpose.
    settings.state.path.chmod(0o775)
    tighten(settings.state.path)
    settings.state.outbox.chmod(0o664)
    tighten(settings.state.outbox)
    assert (mode(settings.state.path), mode(settings.state.outbox)) == ("770", "660")


def test_secrets_of_a_webhook_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook.secret").write_text(secret_of(KEY) + "\n")
    monkeypatch.setenv("TWIGCAST_TEST_TOKEN", "Bearer hidden-token")
    with serving() as hooks:
        sink = {
            "kind": "webhook", "url": hooks.url, "allow": ["127.0.0.0/8"], "secret": "file:hook.secret",
            "headers": {"Authorization": "env:TWIGCAST_TEST_TOKEN"},
        }  # fmt: skip
        settings = pipeline(tmp_path, {"hook": sink})
        commit(settings, 0, some(0, 1))
        with Runner(settings) as runner:
            assert runner.drain()
            (tmp_path / "hook.secret").write_text(secret_of(OTHER))
            commit(settings, 1, some(1, 1))
            assert runner.drain()
    first, second = hooks.accepted
    assert first.headers["authorization"] == "Bearer hidden-token"
    assert is_signed(first, KEY) and is_signed(second, OTHER), "a secret that changes needs no restart"
    written = b"".join(path.read_bytes() for path in settings.state.path.rglob("*") if path.is_file())
    assert b"hidden-token" not in written and b"whsec_" not in written
    assert "hidden-token" not in repr(settings) and "hook.secret" not in repr(settings)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"secret": "env:TWIGCAST_TEST_MISSING"}, "the secret of the sink 'hook': the environment variable TWIGCAST_T"),
        ({"secret": "file:nowhere"}, "nowhere: No such file or directory"),
        (
            {"headers": {"X": "env:TWIGCAST_TEST_MISSING"}},
            "the header 'X' of the sink 'hook': the environment",
        ),
        ({"secret": "file:empty"}, "empty is empty"),
    ],
)
def test_a_secret_that_is_missing_is_told_at_the_start(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    (tmp_path / "empty").write_text("\n")
    settings = pipeline(tmp_path, {"hook": {"kind": "webhook", "url": "http://127.0.0.1:1", **change}})
    with pytest.raises(OptionError) as raised:
        Runner(settings)
    assert raised.value.code == "no-secret" and named in raised.value.text


def test_secrets_of_subscribers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's command line stores a reference; what subscribers supply themselves may not be one."""
    monkeypatch.chdir(tmp_path)
    Path("alice.secret").write_text(secret_of(KEY))
    store_url = f"sqlite:///{tmp_path / 'store.db'}"
    with serving() as hooks:
        command = ["add", "alice", "--webhook", hooks.url, "--store", store_url]
        ran = CliRunner().invoke(subscriber, [*command, "--secret-from", "file:alice.secret"])
        assert ran.exit_code == 0, ran.output
        refused = CliRunner().invoke(subscriber, [*command, "--secret-from", secret_of(KEY)])
        assert refused.exit_code == 2 and "not the secret itself" in refused.output
        with Store.open(store_url) as store:
            assert store.subscriber("alice").targets["webhook"]["secret"] == f"file:{tmp_path / 'alice.secret'}"
            for reference in ("file:/etc/passwd", "env:HOME"):
                targets = {"webhook": {"url": hooks.url, "secret": reference}}
                with pytest.raises(OptionError, match="only by an operator"):
                    store.set_targets("alice", targets)
                with pytest.raises(OptionError, match="only by an operator"):
                    store.add_subscriber("bob", targets=targets)
            settings = pipeline(tmp_path, {"hook": {"kind": "webhook", "allow": ["127.0.0.0/8"]}})
            commit(settings, 0, [("m", "q", "alice")])
            with Runner(settings, store) as runner:
                assert runner.drain()
    assert is_signed(hooks.accepted[0], KEY)
    assert b"whsec_" not in (tmp_path / "store.db").read_bytes()


def test_secrets_of_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setenv("TWIGCAST_TEST_PASSWORD", "hidden")
    options = {"sasl.password": "env:TWIGCAST_TEST_PASSWORD", "security.protocol": "SASL_SSL"}
    bus = {"kind": "kafka", "bootstrap_servers": "x", "topic": "t", "options": options}
    settings = pipeline(tmp_path, {"bus": bus})
    assert "hidden" not in str(settings.model_dump()) and "hidden" not in repr(settings)
    runner = Runner(settings)
    sink = runner.sinks["bus"].sink
    assert isinstance(sink, KafkaSink) and sink._common()["sasl.password"] == "hidden"
    runner.outbox.close()
    runner.dead.close()
    monkeypatch.delenv("TWIGCAST_TEST_PASSWORD")
    with pytest.raises(OptionError, match=r"the option 'sasl\.password' of the sink 'bus'"):
        Runner(settings)


def test_the_password_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg")
    passwords: list[str] = []

    def connect(*_: object, **options: Any) -> Any:
        passwords.append(options["password"])
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(psycopg, "connect", connect)
    url = resolve_url("postgresql://me:file:db.secret@127.0.0.1:1/base", tmp_path)
    with pytest.raises(OptionError, match=r"the password in the store's URL: .*db\.secret: No such file"):
        Store.open(url)
    (tmp_path / "db.secret").write_text("hid/den@\n")
    with pytest.raises(Exception, match="connection refused") as raised:
        Store.open(url)
    assert passwords[0] == "hid/den@" and "hid/den" not in str(raised.value)
    monkeypatch.setenv("TWIGCAST_TEST_PASSWORD", "from-env")
    with pytest.raises(Exception, match="connection refused"):
        Store.open("postgresql://me:env:TWIGCAST_TEST_PASSWORD@127.0.0.1:1/base")
    assert passwords[-1] == "from-env"


def test_references(tmp_path: Path) -> None:
    assert resolve("plain:text", "x") == "plain:text"
    assert absolute("file:a/b", tmp_path) == f"file:{tmp_path}/a/b" and absolute("env:a/b", tmp_path) == "env:a/b"
    assert absolute("file:/a/b", tmp_path) == "file:/a/b"
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="is not UTF-8"):
        resolve(f"file:{tmp_path / 'binary'}", "x")


def test_the_command_line_beside_a_run_keeps_files_private(tmp_path: Path) -> None:
    for database in (Outbox(tmp_path / "s" / "outbox.db"), DeadLetters(tmp_path / "s" / "dead.db")):
        assert mode(database.database.path) == "600"
        database.close()
