"""``twigcast match`` over streams in event time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twigcast.correlate.engine import STRATEGIES

Match = Callable[..., Any]
BOOKS = "S//book->x1[//author->x2][//title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 10} S//blog->x4[//author->x5][//title->x6]"
SUBSCRIPTIONS = [
    {"id": "Q1", "query": BOOKS},
    {
        "id": "P",
        "query": "SELECT <pair>{$x2}</pair> FROM S//book->x1[//author->x2] JOIN{x2=x5, 10} S//blog->x4[//author->x5]"
        " PUBLISH pairs",
    },
    {"id": "F", "query": "//author"},
    {"id": "D", "query": "/pair/author", "stream": "pairs"},
    {"id": "T", "query": "<t>{ for $p in /pair return $p/author }</t>", "stream": "pairs"},
    {"id": "C", "query": "SELECT $c FROM pairs/pair->p[author->a] FOLLOWED BY{a=b, 10} S//blog->c[author->b]"},
]
MESSAGES = {
    "2.xml": '<book t="1"><author>A</author><author>B</author><title>T</title></book>',
    "1.xml": '<blog t="3"><author>A</author><title>T</title></blog>',
    "0.xml": '<blog t="5.5"><author>A</author><title>U</title></blog>',
}


@pytest.fixture
def match(run: Match) -> Match:
    """In a folder with subscriptions and messages."""
    Path("s.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SUBSCRIPTIONS))
    Path("m").mkdir()
    for name, xml in MESSAGES.items():
        Path("m", name).write_text(xml)
    return lambda *arguments: run("match", *arguments)


def lines(result: Any) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_stream_in_event_time(match: Match, strategy: str) -> None:
    result = match("-s", "s.jsonl", "--stream", "S", "--time", "/*/@t", "--strategy", strategy, "m")
    assert result.returncode == 0, result.stderr
    pair = "<pair><author>A</author></pair>"
    book, blog = MESSAGES["2.xml"], MESSAGES["1.xml"]
    derived, later = "pairs(m/2.xml,m/1.xml)", "pairs(m/2.xml,m/0.xml)"
    made = "<t><author>A</author></t>"
    assert lines(result) == [
        {"message": "m/2.xml", "subscription": "F"},
        {"message": "m/1.xml", "subscription": "F"},
        {
            "subscription": "Q1",
            "messages": ["m/2.xml", "m/1.xml"],
            "payload": f"<result>{book}{blog}</result>",
        },
        {"subscription": "P", "messages": ["m/2.xml", "m/1.xml"], "payload": pair},
        {"message": derived, "subscription": "D"},
        {"message": derived, "subscription": "T", "payload": made},
        {"message": "m/0.xml", "subscription": "F"},
        {"subscription": "P", "messages": ["m/2.xml", "m/0.xml"], "payload": pair},
        {"subscription": "C", "messages": [derived, "m/0.xml"], "payload": f"<result>{MESSAGES['0.xml']}</result>"},
        {"message": later, "subscription": "D"},
        {"message": later, "subscription": "T", "payload": made},
    ]


def test_several_streams(match: Match) -> None:
    Path("q.txt").write_text("BOOKS/book->x[author->a] JOIN{a=b, 1 day} BLOGS/blog->y[author->b]\n")
    for name, xml in (("books", "book"), ("blogs", "blog")):
        Path(name).mkdir()
        time = "2026-05-01T10:00:00Z" if xml == "book" else "2026-05-02T11:00:00+01:00"
        Path(name, "1.xml").write_text(f"<{xml}><at>{time}</at><author>A</author></{xml}>")
    result = match("-s", "q.txt", "--stream", "BOOKS=books", "--stream", "BLOGS=blogs", "--time", "/*/at")
    assert [one["messages"] for one in lines(result)] == [["books/1.xml", "blogs/1.xml"]]
    swapped = match("-s", "q.txt", "--stream", "BLOGS=books", "--stream", "BOOKS=blogs", "--time", "/*/at")
    assert swapped.returncode == 1 and not swapped.stdout


def test_lateness_takes_messages_as_they_are_given(match: Match) -> None:
    arguments = ("-s", "s.jsonl", "--stream", "S", "--time", "/*/@t", "--lateness", "1 s")
    result = match(*arguments, "m")  # newest first
    assert "2 messages were late" in result.stderr
    assert {one["subscription"] for one in lines(result)} == {"F"}
    assert len(lines(match(*arguments, "m/2.xml", "m/1.xml", "m/0.xml"))) == 11


def test_without_a_time_messages_come_one_after_the_other(match: Match) -> None:
    result = match("-s", "s.jsonl", "--stream", "S", "m/2.xml", "m/1.xml", "m/0.xml")
    assert len(lines(result)) == 11
    assert len(lines(match("-s", "s.jsonl", "m/2.xml", "m/1.xml", "m/0.xml"))) == 11


def test_a_table(match: Match) -> None:
    result = match("-s", "s.jsonl", "--stream", "S", "--time", "/*/@t", "--format", "table", "m")
    assert "m/2.xml, m/1.xml" in result.stdout and "payload" in result.stdout


def test_mistakes(match: Match) -> None:
    assert "Missing argument 'MESSAGE...'" in match("-s", "s.jsonl").stderr
    assert "--stream S=DIR" in match("-s", "s.jsonl", "--stream", "S", "--stream", "T", "m").stderr
    assert "NAME=MESSAGES" in match("-s", "s.jsonl", "--stream", "S=", "m").stderr
    assert "a duration" in match("-s", "s.jsonl", "--lateness", "soon", "m").stderr
    assert match("-s", "s.jsonl", "--time", "/*[", "m").returncode == 2
    assert match("-s", "s.jsonl", "--strategy", "best", "m").returncode == 2
    result = match("-s", "s.jsonl", "--time", "/*/@x", "m")
    assert result.returncode == 2 and "m/0.xml: no-time: there is nothing at /*/@x" in result.stderr
    Path("m", "3.xml").write_text('<book t="now"/>')
    Path("m", "4.xml").write_text('<book t="1"')
    result = match("-s", "s.jsonl", "--stream", "S", "--time", "/*/@t", "m")
    assert result.returncode == 2 and len(lines(result)) == 11
    assert "m/3.xml: no-time: 'now' is not a time" in result.stderr and "m/4.xml:1:12" in result.stderr
    Path("bad.jsonl").write_text('{"query": "S//a->x FOLLOWED BY{x=, 5} S//b->y"}\n{"query": "/a["}\n')
    result = match("-s", "bad.jsonl", "--stream", "S", "m")
    assert result.returncode == 2 and "bad.jsonl:1:" in result.stderr and "bad.jsonl:2:" in result.stderr
    assert "Traceback" not in result.stderr
