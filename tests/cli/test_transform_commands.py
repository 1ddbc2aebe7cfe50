"""Transforms from the command line."""

from __future__ import annotations

import json
from typing import Any

from lxml import etree

from schema_support import text_of

TITLES = "<titles>{ for $s in //section where $s/@id > 2 return $s/title }</titles>"
BOOK = '<book><section id="1"><title>A</title></section><section id="3"><title>B &amp; C</title></section></book>'


def test_match_prints_payloads(run: Any, folder: Any) -> None:
    folder(
        {
            "subs.jsonl": f"{json.dumps({'id': 't', 'query': TITLES})}\n" + '{"id": "f", "query": "//title"}\n',
            "subs.txt": f"{TITLES}\n//title\n",
            "a.xml": BOOK,
            "b.xml": "<book/>",
        }
    )
    done = run("match", "-s", "subs.jsonl", "a.xml", "b.xml")
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"message": "a.xml", "subscription": "t", "payload": "<titles><title>B &amp; C</title></titles>"},
        {"message": "a.xml", "subscription": "f"},
    ]
    table = run("match", "-s", "subs.txt", "--format", "table", "a.xml").stdout
    assert "<titles><title>B" in table


def test_deliver_empty_in_a_file(run: Any, folder: Any) -> None:
    folder(
        {
            "subs.jsonl": json.dumps({"id": "t", "query": TITLES, "deliver_empty": True}) + "\n",
            "filter.jsonl": '{"query": "//a", "deliver_empty": true}\n',
            "wrong.jsonl": json.dumps({"query": TITLES, "deliver_empty": 1}) + "\n",
            "b.xml": "<book/>",
        }
    )
    told = json.loads(run("match", "-s", "subs.jsonl", "b.xml").stdout)
    assert told == {"message": "b.xml", "subscription": "t", "payload": "<titles/>"}
    for name in ("filter.jsonl", "wrong.jsonl"):
        done = run("match", "-s", name, "b.xml")
        assert done.returncode == 2 and "bad-deliver-empty" in done.stderr


def test_deliver_empty_in_a_store(run: Any, folder: Any) -> None:
    folder({})
    assert run("subscribe", "--store", "sqlite:///s.db", "--id", "t", "--deliver-empty", TITLES).returncode == 0
    done = run("subscribe", "--store", "sqlite:///s.db", "--deliver-empty", "//a")
    assert done.returncode == 2 and "bad-deliver-empty" in done.stderr
    listed = json.loads(run("subscriptions", "--store", "sqlite:///s.db").stdout)
    assert listed == {"id": "t", "query": TITLES, "kind": "transform", "deliver_empty": True}


def test_a_mistake_is_told_with_its_line(run: Any, folder: Any) -> None:
    folder({"subs.txt": "//a\n<r>{ for $s in //b return $t }</r>\n", "a.xml": BOOK})
    done = run("match", "-s", "subs.txt", "a.xml")
    assert done.returncode == 2 and "subs.txt:2: unbound-variable" in done.stderr and "^^" in done.stderr


def test_explain_tells_how_it_is_evaluated(run: Any) -> None:
    done = run("explain", TITLES)
    assert done.returncode == 0
    assert "evaluated   in the kernel" in done.stdout
    told = json.loads(run("explain", "--format", "json", TITLES).stdout)
    assert (told["kind"], told["binds"], told["where"], told["returns"]) == (
        "transform",
        "//section",
        "@id > 2",
        ["title"],
    )
    assert "as XPath, on its own" in run("explain", TITLES.replace("$s/@id > 2", "$s/following::a")).stdout


def test_test_makes_or_says_why_not(run: Any, folder: Any) -> None:
    folder({"a.xml": BOOK})
    done = run("test", TITLES, "a.xml")
    assert done.returncode == 0 and done.stdout == "a.xml: makes\n<titles><title>B &amp; C</title></titles>\n"
    done = run("test", TITLES.replace("> 2", "> 7"), "a.xml")
    assert done.returncode == 1 and "[@id > 7]" in done.stdout and '@id is "3"' in done.stdout
    told = json.loads(run("test", "--format", "jsonl", TITLES, "a.xml").stdout)
    assert told == {"message": "a.xml", "match": True, "payload": "<titles><title>B &amp; C</title></titles>"}


def test_plans_of_the_paper_and_their_pictures(run: Any, folder: Any) -> None:
    folder({"book.dtd": text_of("book").decode(), "subs.txt": f"{TITLES}\n//a\n{TITLES.replace('2', '3')}\n"})
    assert run("bench", "plan", "--format", "dot", TITLES).stdout.startswith("digraph")
    assert etree.fromstring(
        run("bench", "plan", "--format", "svg", "--schema", "book.dtd", TITLES).stdout
    ).tag.endswith("svg")
    done = run("bench", "plan", "--format", "svg", "//a")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "of 2 transforms 2 have the binding path" in run("explain", "-s", "subs.txt", TITLES).stdout
    assert "Where-Filter" in run("bench", "plan", "--sharing", "F", "--optimize", "none", TITLES).stdout


def test_a_schema_tells_at_once(run: Any, folder: Any) -> None:
    folder({"book.dtd": text_of("book").decode(), "a.xml": BOOK})
    wrong = TITLES.replace("$s/title", "$s/title").replace("$s/@id", "$s/@idd")
    for query in (wrong, "/book/section/titel"):
        done = run("subscribe", "--store", "sqlite:///s.db", "--schema", "book.dtd", query)
        assert done.returncode == 2 and "never-matches" in done.stderr and "did you mean" in done.stderr
        done = run("explain", "--schema", "book.dtd", query)
        assert done.returncode == 0 and "no valid message can match" in done.stdout and "^^^" in done.stdout
        assert json.loads(run("explain", "--schema", "book.dtd", "--format", "json", query).stdout)["never"]["hint"]
        done = run("test", "--schema", "book.dtd", query, "a.xml")
        assert done.returncode == 1 and "never-matches" in done.stderr
    assert run("subscribe", "--store", "sqlite:///s.db", "--schema", "book.dtd", TITLES).returncode == 0
    assert json.loads(run("explain", "--schema", "book.dtd", "--format", "json", "//title").stdout)["never"] is None
    done = run("explain", "--schema", "none.dtd", TITLES)
    assert done.returncode == 2 and "none.dtd" in done.stderr
