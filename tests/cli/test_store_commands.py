from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from twigcast.store import Store

SECRET = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"


def rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def no_store_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWIGCAST_STORE", raising=False)


def test_from_nothing_to_a_list(run: Any) -> None:
    assert run("subscriber", "add", "alice", "--name", "Alice").returncode == 0
    made = run("subscribe", "--subscriber", "alice", "/order[total > 100]")
    assert made.returncode == 0 and made.stdout.startswith("s-")
    done = run(
        "subscribe", "--id", "links", "--ns", "a=urn:atom", "--default-namespace", "urn:d", "--dialect", "tian",
        "--result", "nodes", "--stream", "feeds", "--max-delay", "5 minutes", "--paused", "//a:link",
    )  # fmt: skip
    assert done.stdout == "links\n"
    listed = rows(run("subscriptions").stdout)
    assert [one["id"] for one in listed] == ["links", made.stdout.strip()]
    assert listed[0] == {
        "id": "links",
        "query": "//a:link",
        "namespaces": {"a": "urn:atom"},
        "default_namespace": "urn:d",
        "dialect": "tian",
        "result": "nodes",
        "stream": "feeds",
        "max_delay": "5 min",
        "state": "paused",
    }
    assert listed[1]["subscriber"] == "alice"


def test_grep_and_tables(run: Any) -> None:
    run("subscribe", "--id", "one", "/a[b = 1]")
    run("subscribe", "--id", "two", "/c")
    assert [one["id"] for one in rows(run("subscriptions", "--grep", r"\[b").stdout)] == ["one"]
    assert [one["id"] for one in rows(run("subscriptions", "--grep", "^tw").stdout)] == ["two"]
    none = run("subscriptions", "--grep", "zzz")
    assert (none.returncode, none.stdout) == (1, "")
    assert run("subscriptions", "--grep", "[").returncode == 2
    table = run("subscriptions", "--format", "table")
    assert "/a[b = 1]" in table.stdout and table.stdout.endswith("2 subscriptions\n")
    assert "0 subscriptions" in run("subscriptions", "--state", "paused", "--format", "table").stdout


def test_pause_resume_replace_unsubscribe(run: Any) -> None:
    run("subscribe", "--id", "x", "/a")
    assert run("pause", "x").returncode == 0
    assert rows(run("subscriptions", "--state", "paused").stdout)[0]["id"] == "x"
    assert run("resume", "x").returncode == 0
    assert run("subscribe", "--id", "x", "/b").returncode == 2
    assert run("subscribe", "--id", "x", "--replace", "/b").returncode == 0
    assert rows(run("subscriptions").stdout) == [{"id": "x", "query": "/b"}]
    assert run("subscribe", "--replace", "/b").returncode == 2
    done = run("unsubscribe", "x", "y")
    assert done.returncode == 2 and "no subscription 'y'" in done.stderr
    assert run("unsubscribe", "x").returncode == 0
    assert run("subscriptions").returncode == 1


def test_a_mistake_is_marked_and_nothing_stored(run: Any) -> None:
    done = run("subscribe", "/a[b = ")
    assert done.returncode == 2 and "  /a[b = \n" in done.stderr and "^" in done.stderr
    done = run("subscribe", "--kind", "transform", "/a")
    assert done.returncode == 2 and "not as a transform" in done.stderr
    done = run("subscribe", "<a>{ for $x in //b return $y }</a>")
    assert done.returncode == 2 and "nothing binds $y" in done.stderr and "^" in done.stderr
    done = run("subscribe", "--kind", "correlate", "/a")
    assert done.returncode == 2 and "not as a correlation" in done.stderr
    done = run("subscribe", "--max-delay", "soon", "/a")
    assert done.returncode == 2 and "5 minutes" in done.stderr
    done = run("subscribe", "--subscriber", "bob", "/a")
    assert done.returncode == 2 and "twigcast subscriber add bob" in done.stderr
    assert run("subscriptions").stdout == ""


def test_subscribers_and_their_secrets(run: Any, folder: Any) -> None:
    folder({"secret": SECRET + "\n"})
    hook = ["--webhook", "https://shop.example/in"]
    assert run("subscriber", "add", "shop", *hook, "--secret-file", "secret").returncode == 0
    assert run("subscriber", "add", "other", *hook, "--secret-file", "-", "--topic", "t", stdin=SECRET).returncode == 0
    for format in ("jsonl", "table"):
        listed = run("subscriber", "list", "--format", format)
        assert "shop.example" in listed.stdout and "(set)" in listed.stdout
        assert SECRET not in listed.stdout + listed.stderr and SECRET[6:] not in listed.stdout
    with Store.open("sqlite:///twigcast.db") as store:
        assert store.subscriber("shop").targets["webhook"]["secret"] == SECRET
    assert run("subscriber", "set", "shop", "--topic", "shop").returncode == 0
    assert rows(run("subscriber", "list").stdout)[1]["targets"] == {"kafka": {"topic": "shop"}}
    assert run("subscriber", "add", "x", "--secret-file", "secret").returncode == 2
    bad = run("subscriber", "add", "x", *hook, "--secret-file", "-", stdin="hunter2")
    assert bad.returncode == 2 and "hunter2" not in bad.stderr
    assert run("subscriber", "add", "x", *hook, "--secret-file", "none").returncode == 2
    Path("secret").write_bytes(b"\xff")
    bad = run("subscriber", "add", "x", *hook, "--secret-file", "secret")
    assert (bad.returncode, bad.stderr) == (2, "bad-encoding: secret: byte 1 is not UTF-8\n")
    again = run("subscriber", "add", "shop")
    assert again.returncode == 2 and "subscriber set" in again.stderr
    created = [row["created"] for row in rows(run("subscriber", "list").stdout)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one) for one in created)


def test_removing_a_subscriber(run: Any) -> None:
    run("subscriber", "add", "alice")
    run("subscribe", "--subscriber", "alice", "/a")
    assert run("subscriber", "remove", "alice").returncode == 2
    done = run("subscriber", "remove", "alice", "--with-subscriptions")
    assert done.returncode == 0 and "1 subscriptions removed" in done.stderr
    assert run("subscriber", "list").stdout == ""


def test_import_and_export(run: Any, folder: Any, tmp_path: Path) -> None:
    folder({"s.jsonl": '{"id": "b", "query": "/b", "subscriber": "al"}\n{"query": "/a"}\n'})
    refused = run("import", "s.jsonl")
    assert refused.returncode == 2 and "s.jsonl:1: " in refused.stderr and "--add-subscribers" in refused.stderr
    done = run("import", "--add-subscribers", "s.jsonl")
    assert (done.returncode, done.stderr) == (0, "2 added, 1 subscribers added; version 1\n")
    exported = run("export")
    assert rows(exported.stdout) == [{"id": "2", "query": "/a"}, {"id": "b", "subscriber": "al", "query": "/b"}]
    again = run("import", "-", stdin=exported.stdout)
    assert again.returncode == 2 and "--replace" in again.stderr
    again = run("import", "--replace", "-", stdin=exported.stdout)
    assert again.stderr == "0 added, 2 unchanged; version 1\n"
    bad = run("import", "-", stdin='{"query": "/a["}')
    assert bad.returncode == 2 and "-:1: " in bad.stderr and "^" in bad.stderr
    assert run("import", "none.jsonl").returncode == 2


def test_which_store(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = run("subscriptions")
    assert missing.returncode == 2 and "there is no store" in missing.stderr
    assert not (tmp_path / "twigcast.db").exists()
    run("subscribe", "--store", "sqlite:///other.db", "/a")
    assert (tmp_path / "other.db").exists() and not (tmp_path / "twigcast.db").exists()
    monkeypatch.setenv("TWIGCAST_STORE", "sqlite:///other.db")
    assert len(rows(run("export").stdout)) == 1
    wrong = run("export", "--store", "oracle://u:hunter2@h/d")
    assert wrong.returncode == 2 and "sqlite:///FILE" in wrong.stderr and "hunter2" not in wrong.stderr
    monkeypatch.setenv("TWIGCAST_STORE", "postgresql://u:hunter2@127.0.0.1:1/d")
    away = run("export")
    assert away.returncode == 2 and "store-unreachable" in away.stderr and "hunter2" not in away.stderr
    assert "hunter2" not in run("export", "--help").stdout


def test_a_reader_that_has_seen_enough(run: Any, folder: Any, tmp_path: Path) -> None:
    folder({"s.jsonl": "".join(f'{{"query": "/a[b = {i}]"}}\n' for i in range(30_000))})
    assert run("import", "s.jsonl").returncode == 0
    program = f"{sys.executable} -m twigcast.cli"
    command = f"{program} export | head -1; {program} subscriptions --format jsonl | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (len(rows(done.stdout)), done.stderr) == (2, "")


def test_init(run: Any, tmp_path: Path) -> None:
    from twigcast.config import load

    done = run("init")
    assert done.returncode == 0 and "twigcast run pipeline.toml" in done.stdout
    text = (tmp_path / "pipeline.toml").read_text()
    assert sum(line.startswith("#") for line in text.splitlines()) > 30
    assert (tmp_path / "inbox").is_dir()
    assert load(tmp_path / "pipeline.toml").streams["inbox"].source == "directory"
    again = run("init")
    assert again.returncode == 2 and "--force" in again.stderr
    (tmp_path / "pipeline.toml").write_text("mine")
    assert run("init", "--force").returncode == 0
    assert (tmp_path / "pipeline.toml").read_text() == text == run("init", "-").stdout
    assert run("init", "none/p.toml").returncode == 2


def test_an_empty_id_is_no_id(run: Any) -> None:
    done = run("subscribe", "--id", "", "/a")
    assert done.returncode == 2 and "bad-id" in done.stderr and not done.stdout


def test_publishers(run: Any, tmp_path: Path) -> None:
    (tmp_path / "order.dtd").write_text("<!ELEMENT order (total)><!ELEMENT total (#PCDATA)>")
    (tmp_path / "bad.dtd").write_text("<!ELEMENT order (tot")
    add = ("publisher", "add", "shop", "--stream", "orders", "--schema", str(tmp_path / "order.dtd"))
    assert run(*add, "--on-invalid", "reject").returncode == 0
    again = run(*add)
    assert again.returncode == 2 and "there is a publisher 'shop' already" in again.stderr
    assert run(*add, "--replace").returncode == 0
    (listed,) = rows(run("publisher", "list").stdout)
    assert listed == {
        "id": "shop", "stream": "orders", "schema_kind": "dtd", "schema_bytes": 50, "on_invalid": "fallback"
    }  # fmt: skip
    assert "1 publishers" in run("publisher", "list", "--format", "table").stdout
    assert run("publisher", "show", "shop").stdout == (tmp_path / "order.dtd").read_text()
    for name, words in (("bad.dtd", "dtd-malformed"), ("absent.xsd", "absent.xsd"), ("x.rng", ".dtd or .xsd")):
        failed = run("publisher", "add", "other", "--stream", "orders", "--schema", str(tmp_path / name))
        assert failed.returncode == 2 and words in failed.stderr and "Traceback" not in failed.stderr
    assert run("publisher", "remove", "shop").returncode == 0
    assert run("publisher", "remove", "shop").returncode == 2
    assert run("publisher", "list").stdout == ""


CONFIG = """
[store]
url = "{url}"
[streams.in]
source = "directory"
path = "in"
[sinks.out]
kind = "directory"
path = "out"
[sinks.hooks]
kind = "webhook"
url = "https://example.org/hook"
secret = "${{NOT_SET_SECRET}}"
"""


def ids(store: Path) -> list[str]:
    with Store.open(f"sqlite:///{store}", create=False) as found:
        return [record.id for record in found.subscriptions()]


def test_the_store_is_the_one_of_the_pipeline(run: Any, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(url="sqlite:///own.db"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/p.toml").write_text(CONFIG.format(url="sqlite:///own.db"))  # relative to the file
    assert run("subscribe", "--id", "a", "/a").returncode == 0
    assert run("subscribe", "-c", "other/p.toml", "--id", "b", "/b").returncode == 0
    assert run("subscribe", "-c", "other/p.toml", "--store", "sqlite:///third.db", "--id", "c", "/c").returncode == 0
    assert (ids(tmp_path / "own.db"), ids(tmp_path / "other/own.db"), ids(tmp_path / "third.db")) == (
        ["a"], ["b"], ["c"],
    )  # fmt: skip
    assert not (tmp_path / "twigcast.db").exists()
    for command in (
        ["subscriptions"], ["pause", "b"], ["resume", "b"], ["export"], ["subscriber", "add", "x"],
        ["subscriber", "list"], ["publisher", "list"], ["unsubscribe", "b"],
    ):  # fmt: skip
        done = run(*command, "-c", "other/p.toml")
        assert (done.returncode, done.stderr) == (0, ""), command
    done = run("import", "--config", "other/p.toml", "-", stdin='{"id": "d", "query": "/d"}\n')
    assert done.returncode == 0 and ids(tmp_path / "other/own.db") == ["d"]


def test_a_variable_comes_before_the_configuration_and_says_so(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(url="sqlite:///own.db"))
    monkeypatch.setenv("TWIGCAST_STORE", "sqlite:///variable.db")
    done = run("subscribe", "--id", "a", "/a")
    assert (done.returncode, done.stdout) == (0, "a\n")
    assert done.stderr.startswith("note: using the store of TWIGCAST_STORE, ") and "own.db" in done.stderr
    assert ids(tmp_path / "variable.db") == ["a"] and not (tmp_path / "own.db").exists()
    monkeypatch.setenv("TWIGCAST_STORE", f"sqlite:///{tmp_path}/own.db")
    assert run("subscribe", "--id", "a", "/a").stderr == ""
    (tmp_path / "pipeline.toml").write_text("nonsense")
    assert run("subscriptions").stderr == ""  # the variable is enough
    assert run("subscriptions", "-c", "pipeline.toml").returncode == 2


def test_a_store_beside_a_configuration_comes_first_and_says_so(run: Any, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(CONFIG.format(url="sqlite:///own.db"))
    done = run("subscribe", "--id", "a", "-c", "p.toml", "--store", "sqlite:///option.db", "/a")
    assert (done.returncode, done.stdout) == (0, "a\n")
    assert done.stderr.startswith("note: using the store of --store, ") and "own.db" in done.stderr
    assert ids(tmp_path / "option.db") == ["a"] and not (tmp_path / "own.db").exists()
    assert run("subscribe", "--id", "b", "-c", "p.toml", "--store", "sqlite:///own.db", "/a").stderr == ""
    assert run("subscriptions", "-c", "missing.toml", "--store", "sqlite:///own.db").returncode == 2


def test_a_configuration_that_cannot_be_used_is_an_error(run: Any, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(url="postgresql://me:${NOT_SET}@db/x").replace("{{", "{"))
    done = run("subscriptions")
    assert done.returncode == 2 and "NOT_SET is not set" in done.stderr and "NOT_SET_SECRET" not in done.stderr
    done = run("subscriptions", "-c", "missing.toml")
    assert done.returncode == 2 and "missing.toml: No such file" in done.stderr and "-c FILE" in done.stderr


def test_every_command_names_the_configuration_in_the_same_way(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(CONFIG.format(url="sqlite:///own.db"))
    for command in (["status"], ["replay", "--since", "1h"], ["run"], ["dead", "list"]):
        assert "pipeline.toml" in run(*command).stderr, command  # the default, which is not there
    for arguments in (["other.toml"], ["-c", "other.toml"], ["--config", "other.toml"]):
        done = run("status", *arguments)
        assert (done.returncode, json.loads(done.stdout)["running"]) == (1, False), arguments
        assert run("status", *arguments, "--format", "table").stdout == "it has not run yet\n"
    for command in (["status"], ["replay", "--since", "1h"], ["run"]):
        for arguments in (["other.toml", "-c", "a.toml"], ["-c", "a.toml", "other.toml"]):
            assert "two configurations, other.toml and a.toml" in run(*command, *arguments).stderr
    (tmp_path / "other.toml").rename(tmp_path / "pipeline.toml")
    assert run("status").returncode == 1
    assert run("dead", "list").returncode == 0
    done = run("run", "--inbox", "in")
    assert done.returncode == 2 and "--inbox, --outbox and -s" in done.stderr
