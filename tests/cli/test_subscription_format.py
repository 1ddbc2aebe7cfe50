"""There is one format of a subscription: what ``export`` writes, every command that reads subscriptions takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twigcast import Broker, Engine
from twigcast.errors import OptionError
from twigcast.lang.kinds import kind_of
from twigcast.store.records import SubscriptionRecord
from twigcast.subscription import KEYS

# As Tian et al. print it (figure 3.2): // and / in a predicate start at the node that the predicate stands at.
TIAN = "/a/b[//c/d/text()='v1' AND /p//q/text()='v2']\n/x[@y='v3']//z/text()='v4'"
TIAN_MESSAGE = "<a><b><k><c><d>v1</d></c></k><p><q>v2</q></p><x y='v3'><z>v4</z></x></b></a>"
OTHER_MESSAGE = "<a><b><p><q>v2</q></p><x y='v3'><z>v4</z></x></b><c><d>v1</d></c></a>"

FULL = [
    {
        "id": "all",
        "subscriber": "alice",
        "query": "/p:order[//item]",
        "namespaces": {"p": "urn:o"},
        "default_namespace": "urn:o",
        "dialect": "tian",
        "result": "fragments",
        "max_delay": "5 min",
    },
    {"id": "tian", "query": TIAN, "dialect": "tian"},
    {"id": "plain", "subscriber": "bob", "query": "/a"},
    {"id": "paused", "query": "/a", "state": "paused", "reason": "failed on 3 of 3 messages: costly"},
    {"id": "streamed", "query": "/a", "stream": "S"},
    {"id": "transform", "kind": "transform", "query": "<r>{ for $b in //b return $b/p }</r>", "deliver_empty": True},
    {"id": "pair", "kind": "correlate", "query": "S//a->x[b->i] JOIN{i = j, 5} S//c->y[d->j]"},
]


def exported(run: Any, folder: Any, rows: list[dict[str, Any]]) -> str:
    folder(
        {"given.jsonl": "".join(json.dumps(row) + "\n" for row in rows), "m.xml": TIAN_MESSAGE, "n.xml": OTHER_MESSAGE}
    )
    done = run("import", "--add-subscribers", "given.jsonl")
    assert done.returncode == 0, done.stderr
    text: str = run("export").stdout
    Path("subs.jsonl").write_text(text)
    return text


def matched(done: Any) -> list[tuple[str, str]]:
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted((row["message"], row["subscription"]) for row in found if "message" in row)


def test_all_keys_are_covered() -> None:
    assert {key for row in FULL for key in row} == set(KEYS)


def test_what_is_exported_is_read_by_every_command(run: Any, folder: Any) -> None:
    text = exported(run, folder, FULL)
    by_id = {row["id"]: row for row in map(json.loads, text.splitlines())}
    assert by_id == {row["id"]: row for row in FULL}
    # import
    assert run("import", "--store", "sqlite:///other.db", "--add-subscribers", "subs.jsonl").returncode == 0
    assert run("export", "--store", "sqlite:///other.db").stdout == text
    # match: transforms, correlations and streams among them
    done = run("match", "-s", "subs.jsonl", "--stream", "S", "--format", "jsonl", "m.xml", "n.xml")
    expected = [(name, id) for name in ("m.xml", "n.xml") for id in ("plain", "streamed", "transform")]
    assert matched(done) == sorted([*expected, ("m.xml", "tian")])
    assert "1 paused subscription" in done.stderr
    # the relational engine: what it cannot have is left out, and said
    relational = run("match", "--engine", "relational", "-s", "subs.jsonl", "--format", "jsonl", "m.xml", "n.xml")
    assert matched(relational) == [("m.xml", "plain"), ("m.xml", "tian"), ("n.xml", "plain")]
    for id in ("streamed", "transform", "pair"):
        line = next(i for i, row in enumerate(by_id, 1) if row == id)
        assert f"subs.jsonl:{line}: left out" in relational.stderr
    loaded = run("rules", "load", "--database", "duckdb:///rules.db", "-s", "subs.jsonl")
    assert loaded.returncode == 0 and "3 subscriptions added" in loaded.stdout, loaded.stderr
    stored = run(
        "match", "--engine", "relational", "--database", "duckdb:///rules.db", "--format", "jsonl", "m.xml", "n.xml"
    )
    assert matched(stored) == matched(relational)
    # and what is listed of them is the format again
    Path("rules.jsonl").write_text(run("rules", "list", "--database", "duckdb:///rules.db").stdout)
    assert {row["id"]: row.get("dialect") for row in map(json.loads, Path("rules.jsonl").read_text().splitlines())} == {
        "all": "tian", "plain": None, "tian": "tian",
    }  # fmt: skip
    again = run("match", "-s", "rules.jsonl", "--format", "jsonl", "m.xml", "n.xml")
    assert matched(again) == matched(relational)
    # explain
    for query in ("/a/b", "<r>{ for $b in //b return $b/p }</r>", FULL[-1]["query"]):
        assert run("explain", "-s", "subs.jsonl", query).returncode == 0
    # chunk: a document is on no stream
    Path("large.jsonl").write_text("".join(line + "\n" for line in text.splitlines() if '"S' not in line))
    assert matched(run("chunk", "match", "-s", "large.jsonl", "--format", "jsonl", "m.xml")) == [
        ("m.xml", "plain"), ("m.xml", "tian"), ("m.xml", "transform"),
    ]  # fmt: skip


def test_the_example_of_tian_runs_as_printed(run: Any, folder: Any) -> None:
    folder({"m.xml": TIAN_MESSAGE, "n.xml": OTHER_MESSAGE})
    engine, broker = Engine(), Broker()
    tables = Broker(engine="relational")
    engine.add(TIAN, id="tian", dialect="tian")
    for one in (broker, tables):
        one.subscribe(TIAN, id="tian", dialect="tian")
        assert one.publish(TIAN_MESSAGE.encode()) and not one.publish(OTHER_MESSAGE.encode())
    assert engine.match(TIAN_MESSAGE.encode()) == ["tian"] and not engine.match(OTHER_MESSAGE.encode())
    assert run("subscribe", "--id", "tian", "--dialect", "tian", TIAN).returncode == 0
    assert run("test", "--dialect", "tian", TIAN, "m.xml").returncode == 0
    assert run("test", "--dialect", "tian", TIAN, "n.xml").returncode == 1
    for options in ((), ("--engine", "relational")):
        assert run("explain", "--dialect", "tian", *options, TIAN).returncode == 0


@pytest.mark.parametrize("query", ["<r>{ for $a in //a[//b] return $a }</r>", "S//a->x JOIN{x = y, 1 h} S//b->y"])
def test_only_filters_have_dialects(run: Any, folder: Any, query: str) -> None:
    row = json.dumps({"query": query, "dialect": "tian"})
    folder({"subs.jsonl": row + "\n", "m.xml": "<a/>"})
    for command in (
        ["match", "-s", "subs.jsonl", "m.xml"],
        ["import", "subs.jsonl"],
        ["subscribe", "--dialect", "tian", query],
    ):
        done = run(*command)
        assert done.returncode == 2 and "bad-dialect" in done.stderr and "leave it out" in done.stderr, command
    with pytest.raises(OptionError, match="has no dialects"):
        Broker().subscribe(query, dialect="tian")
    if query.startswith("<"):
        with pytest.raises(OptionError, match="has no dialects"):
            Engine().add(query, dialect="tian")
    # A store of an earlier version may have such a row.
    assert SubscriptionRecord("x", query, kind=kind_of(query), dialect="tian").to_subscription().dialect == "w3c"


def test_an_unknown_dialect_is_named_everywhere(run: Any, folder: Any) -> None:
    folder({"subs.jsonl": '{"query": "/a", "dialect": "tain"}\n', "m.xml": "<a/>"})
    for command in (
        ("match", "-s", "subs.jsonl", "m.xml"),
        ("match", "--engine", "relational", "-s", "subs.jsonl", "m.xml"),
        ("rules", "load", "--database", "duckdb:///r.db", "-s", "subs.jsonl"),
        ("explain", "-s", "subs.jsonl", "/a"),
        ("import", "subs.jsonl"),
    ):
        done = run(*command)
        assert done.returncode == 2 and "unknown-dialect" in done.stderr and "subs.jsonl:1" in done.stderr, command


def test_what_can_never_match(run: Any, folder: Any) -> None:
    never = '//item[@d > "2026-01-01"]'
    folder({"subs.txt": f"/a\n{never}\n", "m.xml": "<a/>"})
    refused = run("subscribe", "--id", "n", never)
    assert refused.returncode == 2 and "never-matches" in refused.stderr and "^^^^" in refused.stderr
    assert "translate(@d, '-', '') > 20260101" in refused.stderr and "--allow-never-matches" in refused.stderr
    assert run("subscribe", "--id", "n", "--allow-never-matches", never).returncode == 0
    rows = [{"id": "1", "query": "/a"}, {"id": "2", "query": never}, {"id": "3", "query": "//a[. > 5 and . < 3]"}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("import", "rows.jsonl")
    assert done.returncode == 1 and "1 added" in done.stderr and "2 left out" in done.stderr
    assert "rows.jsonl:2: never-matches" in done.stderr and "rows.jsonl:3: never-matches" in done.stderr
    assert [json.loads(line)["id"] for line in run("export").stdout.splitlines()] == ["1", "n"]
    assert run("import", "--replace", "--allow-never-matches", "rows.jsonl").returncode == 0
    for command in (
        ("match", "-s", "subs.txt", "m.xml"),
        ("match", "--engine", "relational", "-s", "subs.txt", "m.xml"),
        ("rules", "load", "--database", "duckdb:///r.db", "-s", "subs.txt"),
    ):
        done = run(*command)
        assert done.returncode == 0 and "warning: subs.txt:2: never-matches" in done.stderr, command
    assert "never-matches" in run("test", never, "m.xml").stderr
    for query in (never, "//a[false()]", "//a[@b > 5 and @b < 3]"):
        shown = run("explain", query).stdout
        assert "never matches" in shown and "pattern on every message" not in shown, shown
        assert json.loads(run("explain", "--format", "json", query).stdout)["never"]["text"]


def test_explain_says_so_of_every_kind(run: Any, folder: Any) -> None:
    folder({})
    for query in (
        "//a[@b > 'x']",
        "<r>{ for $a in //a where $a/@b > 'x' return $a }</r>",
        "S//a->x FOLLOWED BY{x = y, 0} S//b->y",
    ):
        shown = run("explain", query)
        assert shown.returncode == 0 and "no message can match" in shown.stdout, shown
        assert json.loads(run("explain", "--format", "json", query).stdout)["never"]


def test_the_kind_is_said(run: Any, folder: Any) -> None:
    folder({})
    done = run("subscribe", "--id", "a", "S/blog//title")
    assert done.returncode == 0 and done.stdout.strip() == "a" and "FROM S/blog//title" in done.stderr
    wrong = run("subscribe", "--kind", "correlate", "S/blog//title")
    assert wrong.returncode == 2 and "read as XPath" in wrong.stderr and "FROM S/blog//title" in wrong.stderr
    assert run("subscribe", "--id", "b", "FROM S/blog//title").returncode == 0
    table = run("subscriptions", "--format", "table").stdout
    assert "filter" in table and "correlate" in table
    assert "filter (XPath)" in run("explain", "S/blog//title").stdout
    assert "correlation (XSCL)" in run("explain", "FROM S/blog//title").stdout


def test_hints_of_commands(run: Any, folder: Any) -> None:
    folder({"order.xml": "<order/>", "m.xml": "<a/>"})
    swapped = run("test", "order.xml", "//order")
    assert swapped.returncode == 2 and "swapped-arguments" in swapped.stderr and "comes first" in swapped.stderr
    assert run("test", "//order", "order.xml").returncode == 0
    assert "--ns p=URI" in run("test", "//p:a", "order.xml").stderr
    config = '[store]\nurl = "sqlite:///s.db"\n[streams.orders]\nsource = "directory"\npath = "in"\n'
    config += '[sinks.out]\nkind = "webhook"\nzzz = 1\n'
    Path("bad.toml").write_text(config)
    keys = run("status", "-c", "bad.toml").stderr
    assert "sinks.out.zzz" in keys and "bootstrap_servers" not in keys
    Path("pipeline.toml").write_text(config.replace("zzz = 1\n", ""))
    assert run("subscribe", "--id", "a", "--stream", "orders", "/a").stderr == ""
    assert "no stream of the configuration" in run("subscribe", "--id", "b", "--stream", "ordres", "/a").stderr
    unread = run("subscribe", "S//a->x JOIN{x = y, 5} orders//b->y").stderr
    assert unread.count("warning") == 1 and "no PUBLISH is called 'S'" in unread
    forges = run("subscribe", "SELECT <order>{ $x }</order> FROM other/a->x PUBLISH orders")
    assert forges.returncode == 2 and "published-source" in forges.stderr and "another name" in forges.stderr
    again = run("subscribe", "--id", "a", "/a")
    assert again.returncode == 2 and "duplicate-id" in again.stderr and "--replace" in again.stderr
    assert run("subscribe", "--id", "c", "S//a->x JOIN{x = y, 5} S//b->y PUBLISH pairs").returncode == 0
    assert "warning" not in run("subscribe", "--id", "d", "--stream", "pairs", "/a").stderr
