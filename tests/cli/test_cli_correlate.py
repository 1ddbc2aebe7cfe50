"""``twigcast match`` over streams in event time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_one_stream_in_event_time(match: Match) -> None:
    result = match("-s", "s.jsonl", "--stream", "S", "--time", "/*/@t", "m")
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
    assert "m/2.xml, m/1.xml" in result.stdout and "selected" in result.stdout


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


PAIR = "S/a[k->x] JOIN{x = y, 5} S/b[k->y]"


def test_filters_come_in_the_order_of_the_file_whether_they_name_the_stream_or_not(run: Match) -> None:
    subscriptions = [{"id": n, "query": "/a", **({"stream": "S"} if n % 2 else {})} for n in range(1, 5)]
    Path("q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in subscriptions))
    Path("1.xml").write_text("<a/>")
    assert [one["subscription"] for one in lines(run("match", "-s", "q.jsonl", "--stream", "S", "1.xml"))] == [
        1,
        2,
        3,
        4,
    ]


def test_a_filter_that_fails_on_a_message_is_told(run: Match) -> None:
    Path("q.txt").write_text(f"{PAIR}\n//k[following-sibling::k = preceding-sibling::k]\n")
    Path("1.xml").write_text("<a><k>1</k><k/></a>")
    Path("2.xml").write_text("<b><k>1</k></b>")
    result = run("match", "-s", "q.txt", "--stream", "S", "--max-query-steps", "1", "1.xml", "2.xml")
    found = lines(result)
    assert result.returncode == 2 and [one["subscription"] for one in found if "failure" not in one] == [1]
    failed = [(one["message"], one["subscription"], one["failure"]["code"]) for one in found if "failure" in one]
    assert failed[0] == ("1.xml", 2, "query-too-costly")
    assert "1.xml: query-too-costly: subscription 2: " in result.stderr


@pytest.mark.parametrize(
    ("path", "xml"),
    [
        ("//comment()", "<a><!--5--></a>"),
        ("//processing-instruction()", "<a><?at 5?></a>"),
        ("/a/@t", '<a t="&lt;5"/>'),
        ("/a/@t", '<a t="\u0665"/>'),  # a digit, but not of XML
    ],
)
def test_what_is_no_time(run: Match, path: str, xml: str) -> None:
    Path("q.txt").write_text(PAIR)
    Path("1.xml").write_text(xml)
    result = run("match", "-s", "q.txt", "--stream", "S", "--time", path, "1.xml")
    assert result.returncode == 2 and "1.xml: no-time:" in result.stderr


def test_a_time_is_found_in_an_element_that_is_deep_and_whatever_is_printed(run: Match) -> None:
    Path("q.txt").write_text("//p[not(//q)]\n")
    Path("1.xml").write_text("<p>" * 300 + "5" + "</p>" * 300)
    result = run("match", "-s", "q.txt", "--time", "/p", "--max-result-bytes", "3", "1.xml")
    assert result.returncode == 0, result.stderr


def test_what_libxml2_minds_and_xml_does_not(run: Match) -> None:
    Path("q.txt").write_text(PAIR)
    one = '<a xmlns:n="no uri"><k xml:id="i">1</k><k xml:id="i">2</k><k xml:id="1 2"/></a>'
    Path("1.xml").write_text(one)
    Path("2.xml").write_text("<b><k>1</k></b>")
    result = run("match", "-s", "q.txt", "--stream", "S", "1.xml", "2.xml")
    assert [one["messages"] for one in lines(result)] == [["1.xml", "2.xml"]]


def test_a_published_message_beyond_a_limit_is_a_result_nevertheless(run: Match) -> None:
    subscriptions = [
        {"id": "p", "query": f"{PAIR} PUBLISH D"},
        {"id": "d", "query": "//k", "stream": "D"},
        {"id": "c", "query": "D/result[a/k->x] JOIN{x = y, 5} S/b[k->y]"},
        {"id": "f", "query": "//k"},
    ]
    Path("q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in subscriptions))
    Path("1.xml").write_text("<a><k>1</k></a>")
    Path("2.xml").write_text("<b><k>1</k></b>")
    arguments = ("-s", "q.jsonl", "--stream", "S", "--max-depth", "2", "1.xml", "2.xml")
    found = lines(run("match", *arguments))
    assert [one["subscription"] for one in found if "failure" not in one] == ["f", "f", "p"]
    failed = [(one["subscription"], one["failure"]["code"]) for one in found if "failure" in one]
    assert failed == [("p", "published-unreadable")]


def test_streams_are_not_for_the_relational_engine(match: Match) -> None:
    result = match("-s", "s.jsonl", "--engine", "relational", "--stream", "S", "m")
    assert result.returncode == 2 and "--stream" in result.stderr


def test_compressed_messages(match: Match) -> None:
    plain = match("-s", "s.jsonl", "--time", "/*/@t", "m")
    for path in list(Path("m").iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = match("-s", "s.jsonl", "--time", "/*/@t", "m")
    assert packed.stdout.replace(".gz", "") == plain.stdout and plain.stdout
    assert packed.returncode == plain.returncode
