"""The relational engine on the command line and in a broker: what it prints is what ``match`` prints."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twigcast import Broker
from twigcast.errors import OptionError
from twigcast.spark.java import find_java

Run = Callable[..., Any]

SUBSCRIPTIONS = """/order[customer = "ann"]/item
//price > 10
# a comment
//nothing
//item[@n = 1 or @n = 2]
"""
FILES = {
    "subs.txt": SUBSCRIPTIONS,
    "in/1.xml": '<order><customer>ann</customer><item n="2"/><price>12</price></order>',
    "in/2.xml": "<order><price>3</price></order>",
    "in/3.xml": "<order>",
}


@pytest.fixture
def files(folder: Run) -> None:
    folder(FILES)


@pytest.mark.usefixtures("files")
def test_prints_what_match_prints(run: Run) -> None:
    plain = run("match", "-s", "subs.txt", "in", "absent.xml")
    assert plain.returncode == 2 and plain.stdout.count("\n") == 3
    found = run("match", "--engine", "relational", "-s", "subs.txt", "in", "absent.xml")
    assert (found.returncode, found.stdout, found.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.usefixtures("files")
def test_rules_stay_in_a_database(run: Run) -> None:
    at = ("--database", "duckdb:///rules.db")
    empty = run("match", "--engine", "relational", *at, "in")
    assert empty.returncode == 2 and "no subscriptions" in empty.stderr
    loaded = run("rules", "load", *at, "-s", "subs.txt")
    assert loaded.returncode == 0 and "4 subscriptions added, 4 in all" in loaded.stdout
    assert run("rules", "load", *at, "-s", "subs.txt").returncode == 2
    moved = run("rules", "load", *at, "-s", "subs.txt", "--plan", "share")
    assert moved.returncode == 2 and "twigcast.papers.RelationalEngine" in moved.stderr
    plain = run("match", "-s", "subs.txt", "in/1.xml", "in/2.xml")
    matching = ("match", "--engine", "relational", *at)
    assert run(*matching, "in/1.xml", "in/2.xml").stdout == plain.stdout
    assert run(*matching, "-s", "subs.txt", "in/1.xml", "in/2.xml").stdout == plain.stdout
    table = run(*matching, "--format", "table", "in/1.xml")
    assert table.returncode == 0 and "//price > 10" in table.stdout
    listed = [json.loads(line) for line in run("rules", "list", *at).stdout.splitlines()]
    assert [s["id"] for s in listed] == [1, 2, 4, 5]
    assert run("rules", "delete", *at, "2", "9").returncode == 2
    assert run("rules", "delete", *at, "1", "2").stdout == "2 subscriptions deleted, 2 left\n"
    assert "query_linear_path" in run("rules", "gc", *at).stdout
    left = run(*matching, "in/1.xml", "in/2.xml")
    assert [json.loads(line)["subscription"] for line in left.stdout.splitlines()] == [5]
    assert run(*matching, "in/2.xml").returncode == 1


@pytest.mark.usefixtures("files")
def test_a_file_and_a_database_with_more(run: Run, folder: Run) -> None:
    at = ("--database", "duckdb:///rules.db")
    run("rules", "load", *at, "-s", "subs.txt")
    folder({"some.jsonl": '{"id": 2, "query": "//price < 10"}\n{"id": "new", "query": "/order"}\n'})
    plain = run("match", "-s", "some.jsonl", "in/1.xml", "in/2.xml")
    found = run("match", "--engine", "relational", *at, "-s", "some.jsonl", "in/1.xml", "in/2.xml")
    assert found.stdout == plain.stdout and plain.stdout.count("\n") == 3


@pytest.mark.usefixtures("files")
def test_mistakes(run: Run, folder: Run) -> None:
    folder({"bad.txt": "//a[1]\n//b\nnot(//c)\n", "file.db": "no database, but long enough to look like one" * 100})
    bad = run("match", "--engine", "relational", "-s", "bad.txt", "in")
    assert bad.returncode == 2 and "bad.txt:1: not-relational" in bad.stderr and "bad.txt:3:" in bad.stderr
    for arguments, text in [
        (("--engine", "relational", "--database", "oracle://x", "in"), "names no database"),
        (("--engine", "relational", "--database", "duckdb:///file.db", "in"), "file.db"),
        (("--engine", "relational", "--result", "nodes", "-s", "subs.txt", "in"), "gives no nodes"),
        (("--engine", "relational", "in"), "--subscriptions"),
        (("--database", "duckdb:///rules.db", "-s", "subs.txt", "in"), "belongs to --engine relational"),
        (("in",), "Missing option '-s'"),
    ]:
        done = run("match", *arguments)
        assert done.returncode == 2 and text in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_compressed_messages(run: Run, folder: Run) -> None:
    folder({"subs.txt": SUBSCRIPTIONS, "1.xml": FILES["in/1.xml"]})
    Path("2.xml.gz").write_bytes(gzip.compress(FILES["in/1.xml"].encode()))
    Path("3.xml.gz").write_bytes(gzip.compress(b"<a>" + b" " * 10_000_000 + b"</a>"))
    Path("4.xml.gz").write_bytes(gzip.compress(b"<a/>")[:-9])
    plain = run("match", "-s", "subs.txt", "1.xml", "2.xml.gz")
    found = run("match", "--engine", "relational", "-s", "subs.txt", "1.xml", "2.xml.gz")
    assert (found.returncode, found.stdout) == (0, plain.stdout) and found.stdout.count("\n") == 6
    bounded = ("match", "--engine", "relational", "-s", "subs.txt", "--max-bytes", "1000000")
    wrong = run(*bounded, "2.xml.gz", "3.xml.gz", "4.xml.gz")
    assert wrong.returncode == 2 and wrong.stdout.count("\n") == 3
    assert "3.xml.gz:1:1: limit-" in wrong.stderr and "4.xml.gz: unreadable: " in wrong.stderr


@pytest.mark.slow
def test_on_spark(run: Run, folder: Run) -> None:
    """In a process of its own, which starts and stops Spark."""
    pytest.importorskip("pyspark")
    try:
        find_java()
    except OptionError as error:
        pytest.skip(str(error))
    folder({**FILES, "vip.csv": "id\nann\n", "subs.txt": SUBSCRIPTIONS + "/order/customer = $vip.id\n"})
    arguments = ("match", "--engine", "relational", "--reference", "vip=vip.csv", "-s", "subs.txt", "in")
    plain = run(*arguments)
    command = [sys.executable, "-c", "from twigcast.cli import main; main()", *arguments, "--database", "spark"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert plain.stdout.count("\n") == 4
    assert (found.returncode, found.stdout) == (plain.returncode, plain.stdout), found.stderr
    assert "Traceback" not in found.stderr and "3.xml:1:" in found.stderr


def test_explain(run: Run) -> None:
    query = '/stock[symbol = "IBM" and price > 50]'
    text = run("explain", "--engine", "relational", query).stdout
    assert '/stock/symbol = "IBM"' in text and "SELECT" in text
    values = json.loads(run("explain", "--engine", "relational", "--format", "json", query).stdout)
    assert values["predicates"][0][1] == {"path": "/stock/price", "op": ">", "value": 50.0, "points": []}
    assert set(values) == {"engine", "query", "predicates", "sql"} and "SELECT" in values["sql"]


def test_reference_data(run: Run, folder: Run) -> None:
    folder({"vip.csv": "id,city\nann,Rome\n", "s.txt": "/order/customer = $vip.id\n", "m.xml": FILES["in/1.xml"]})
    options = ("--engine", "relational", "-s", "s.txt", "--reference")
    assert run("match", *options, "vip=vip.csv", "m.xml").stdout == '{"message": "m.xml", "subscription": 1}\n'
    for wrong in ("vip", "vip=absent.csv", "other=vip.csv"):
        assert run("match", *options, wrong, "m.xml").returncode == 2


def test_broker() -> None:
    broker = Broker(engine="relational")
    broker.subscribe("/news//sport", id="s1", subscriber="ann")
    assert [
        (m.message, m.subscription, m.subscriber) for m in broker.publish(b"<news><a><sport/></a></news>", id="m")
    ] == [("m", "s1", "ann")]
    assert broker.explain("//a").pattern
    broker.unsubscribe("s1")
    assert broker.publish(b"<news><sport/></news>") == []
    with pytest.raises(OptionError, match="no engine"):
        Broker(engine="relationl")
    with pytest.raises(OptionError, match="belong"):
        Broker(database="duckdb://")


def test_other_prefixes_make_another_subscription(run: Run, folder: Run) -> None:
    folder({"s.txt": "//p:x\n", "p.xml": "<x xmlns='urn:p'/>", "q.xml": "<x xmlns='urn:q'/>"})
    at = ("--database", "duckdb:///rules.db")
    run("rules", "load", *at, "--ns", "p=urn:p", "--ns", "z=urn:z", "-s", "s.txt")
    listed = json.loads(run("rules", "list", *at).stdout)
    assert listed == {"id": 1, "query": "//p:x", "namespaces": {"p": "urn:p"}}
    assert run("explain", "--engine", "relational", *at, "//a").returncode == 0
    found = run("match", "--engine", "relational", *at, "--ns", "p=urn:q", "-s", "s.txt", "p.xml", "q.xml")
    assert found.stdout == '{"message": "q.xml", "subscription": 1}\n'


def test_a_bad_file_changes_nothing(run: Run, folder: Run) -> None:
    folder({"one.txt": "//a\n//b\n", "two.txt": "//c\n//b[\n//d[\n", "m.xml": "<a/>"})
    at = ("--database", "duckdb:///rules.db")
    run("rules", "load", *at, "-s", "one.txt")
    before = run("rules", "list", *at).stdout
    done = run("match", "--engine", "relational", *at, "-s", "two.txt", "m.xml")
    assert done.returncode == 2 and "two.txt:2:" in done.stderr and "two.txt:3:" in done.stderr
    assert run("rules", "list", *at).stdout == before


def test_what_has_no_place_in_a_database(run: Run, folder: Run) -> None:
    correlation = "S//a->x[id->i] FOLLOWED BY{i = j, 5 min} S//b->y[id->j]"
    folder({"s.txt": "//a\n", "t.jsonl": '{"query": "//a", "stream": "S"}\n', "m.xml": "<a/>", "c.txt": correlation})
    relational = ("--engine", "relational")
    for arguments, text in [
        (("match", *relational, "-s", "c.txt", "m.xml"), "c.txt:1: not-relational: a correlation"),
        (("match", *relational, "-s", "t.jsonl", "m.xml"), "t.jsonl:1: not-relational: "),
        (("match", *relational, "-s", "s.txt", "--stream", "S", "m.xml"), "no streams"),
        (("match", *relational, "-s", "s.txt", "--schema", "x.dtd", "m.xml"), "no streams, times or schemas"),
        (("match", *relational, "--database", "duckdb:///typo.db", "m.xml"), "no database typo.db"),
        (("rules", "list", "--database", "duckdb:///typo.db"), "no database typo.db"),
        (("rules", "gc", "--database", "duckdb:///typo.db"), "no database typo.db"),
        (("rules", "delete", "--database", "duckdb:///typo.db", "1"), "no database typo.db"),
        (("rules", "load", "--database", "spark", "-s", "s.txt"), "keeps nothing"),
        (("rules", "load", "--database", "duckdb://", "-s", "s.txt"), "keeps nothing"),
        (("explain", *relational, "--format", "dot", "//a"), "use one of text, json"),
        (("test", correlation, "m.xml"), "ties several messages together"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr, (arguments, done.stderr)


def test_to_explain_is_not_to_change(run: Run, folder: Run) -> None:
    folder({"s.txt": "//a\n", "more.txt": "//b\n//c\n"})
    at = ("--database", "duckdb:///rules.db")
    explain = ("explain", "--engine", "relational", *at)
    assert "no database rules.db" in run(*explain, "//x").stderr
    run("rules", "load", *at, "-s", "s.txt")
    before = run("rules", "list", *at).stdout
    again = run("rules", "load", *at, "-s", "s.txt")
    assert again.returncode == 2 and "s.txt:1: duplicate-id: there is a subscription 1 in the database" in again.stderr
    assert run(*explain, "//x").returncode == 0
    assert run(*explain, "-s", "more.txt", "//x").returncode == 2
    assert run("rules", "list", *at).stdout == before
    run("rules", "delete", *at, "1")
    assert "no-subscriptions" in run(*explain, "//x").stderr
    assert run("rules", "list", *at).stdout == ""


def test_reference_data_as_it_was_written(run: Run, folder: Run) -> None:
    folder({"vip.csv": "id\nann\n", "s.txt": "/a[b = $vip.id]/c != $vip.id\n//o[c = $vip.id][not(d)]\n"})
    options = ("--engine", "relational", "--reference", "vip=vip.csv")
    assert "/order/customer in $vip.id" in run("explain", *options, "/order/customer = $vip.id").stdout
    found = run("match", *options, "-s", "s.txt", "vip.csv").stderr
    assert "\n  /a[b = $vip.id]/c != $vip.id\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n" in found
    assert "\n  //o[c = $vip.id][not(d)]\n                   ^^^^^^\n" in found
