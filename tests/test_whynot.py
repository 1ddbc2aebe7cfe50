"""The words of why-not: which step or condition fails, where, and what was probably meant."""

from __future__ import annotations

import doctest

import pytest

from twigcast import MessageError, QueryError
from twigcast.explain import whynot
from twigcast.explain.whynot import Probe

MESSAGE = b"""<nitf xmlns:m="urn:m">
  <body lang="9">
    <body.head>
      <hedline><hl1>Big</hl1><hl3>x</hl3></hedline>
      <Price> 12 USD </Price>
      <m:tag id="7">seven</m:tag>
      <p n="1">1</p><p n="2">2.0</p><p
       n="3"> abc </p>
    </body.head>
  </body>
</nitf>"""


def why(query: str, message: bytes = MESSAGE, **options: object) -> list[str]:
    """The explanation line by line, without indentation and carets."""
    verdict = Probe(query, **options).test(message)  # type: ignore[arg-type]
    assert not verdict.matches
    lines = [line.strip() for line in str(verdict).splitlines()]
    assert lines[0] == "no match"
    return [line for line in lines[1:] if line.strip("^") and line != query]


def test_the_example() -> None:
    assert doctest.testmod(whynot).failed == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "/nitf/body/body.head/hedline/hl2/text()",
            "step 5 of 6, /hl2, finds nothing below /nitf/body/body.head/hedline (4:7): its children are hl1, hl3",
        ),
        ("/nitf/body/@n", "step 3 of 3, /@n, finds nothing on /nitf/body (2:3): its attributes are lang"),
        (
            "//hl1/comment()",
            "step 2 of 2, /comment(), finds nothing below /nitf/body/body.head/hedline/hl1 (4:16): there is no comment",
        ),
        (
            "//p/q",
            "step 2 of 2, /q, finds nothing below any of 3 nodes, the first /nitf/body/body.head/p[1] (7:7):"
            " there are no elements",
        ),
        ("//p/../..//p/self::q", "step 5 of 5, /self::q, finds nothing at any of 3 nodes, the first"),
        ("/x", "step 1, /x, finds nothing in the message: the root element is nitf"),
    ],
)
def test_a_step_that_finds_nothing(query: str, expected: str) -> None:
    assert why(query)[0].startswith(expected)


@pytest.mark.parametrize(
    ("query", "place", "cause"),
    [
        (
            "/nitf/body[@lang = '8']",
            "[@lang = '8'] of step 2 of 2, /body, fails at /nitf/body (2:3)",
            '@lang is "9", not "8"',
        ),
        ("//body[@lang != 9]", "(2:3)", '@lang is "9", which is to differ from 9'),
        ("//body[10 <= @lang]", "(2:3)", '@lang is "9", not >= 10'),
        ("//body[lang = 1]", "(2:3)", "step 1, lang, finds nothing below /nitf/body (2:3): its children are body.head"),
        (
            "//p[@n > 1 and . = 'x']",
            "fails at all of 3 nodes; closest is /nitf/body/body.head/p[2] (7:21)",
            '. is "2.0", not "x"',
        ),
        ("//p[count(@*) = 2]", "p[1] (7:7)", "count(@*) is 1, not 2"),
        ("//p[not(@n)]", "p[1] (7:7)", "not(@n) asks for what does hold"),
        ("//p[position() > 3]", "p[3] (7:37)", "position() is 3, not > 3"),
        ("//p[starts-with(@n, '4')]", "p[1] (7:7)", '@n is "1", which does not start with "4"'),
        ("//hedline[hl1[. = 'Small']]", "/hedline (4:7)", "predicate [. = 'Small'] of step 1, hl1, fails at"),
    ],
)
def test_a_predicate_that_fails_at_the_closest_node(query: str, place: str, cause: str) -> None:
    first, second, *_ = why(query)
    assert first.startswith("predicate [") and place in first
    assert second.startswith(cause)


def test_positions() -> None:
    (text,) = why("//p[4]")
    assert (
        text
        == "predicate [4] of step 1, //p, asks for number 4, and there are only 3 at /nitf/body/body.head/p[1] (7:7)"
    )
    (text,) = why("(//p)[5]")
    assert text.startswith("predicate [5] on //p asks for number 5, and there are only 3 at ")
    assert why("//p/text()[2]")[0].endswith("there is only 1 at /nitf/body/body.head/p[1]/text() (7:7)")


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("//price", "case matters in names: here it is Price"),
        ("//body/@LANG", "case matters in names: here it is @lang"),
        (
            "//tag",
            "here tag is in the namespace 'urn:m', which a name without prefix does not mean: declare a prefix"
            " (--ns p=urn:m) and write p:tag, or write {urn:m}tag",
        ),
        ("//{urn:x}tag", "here tag is in the namespace 'urn:m': declare a prefix (--ns p=urn:m) and write p:tag, or"),
        ("//{urn:x}p", "here p is in no namespace, and the query asks for 'urn:x'"),
        ("/body", "there is one deeper, /nitf/body (2:3): // goes to any depth"),
        ("//body/lang", "lang is an attribute here, not an element: write @lang"),
        ("//hedline/@hl1", "hl1 is an element here, not an attribute: write it without the @"),
        ("//hedlines", "did you mean hedline?"),
        ("//p[. = 'abc']", 'they differ in white space only, which counts: write normalize-space() = "abc"'),
        ("//body.head[p = 'abc']", 'they differ in white space only, which counts: write p[normalize-space() = "abc"]'),
        ("//hl1 = 'BIG'", "they differ in case only, which counts"),
        ("//p[2] = '2'", "as numbers they are equal: write 2 without quotes"),
        ("//Price > 5", '" 12 USD " is not a number as XPath 1.0 writes them, and only numbers compare with one'),
        ("//p[@n < 'a']", '< compares numbers, and "a" is none, so this never holds'),
        ("//p[contains(., 'ABC')]", "they differ in case only, which counts"),
        (
            "contains(//p, 'abc')",
            "only the first node counts, but /nitf/body/body.head/p[3] (7:37) has it: write //p[contains(., 'abc')]",
        ),
        ("starts-with(//m:tag, 'even')", "it is further on: contains() finds it anywhere"),
    ],
)
def test_hints(query: str, hint: str) -> None:
    hints = [line for line in why(query, namespaces={"m": "urn:m"}) if line.startswith("hint: ")]
    assert [one for one in hints if one.startswith("hint: " + hint)], hints


def test_what_hints_propose_does_match() -> None:
    for query in (
        "//{urn:m}tag",
        "//body",
        "//body/@lang",
        "//hedline/hl1",
        '//p[normalize-space() = "abc"]',
        "//p[2] = 2",
        "//p[contains(., 'abc')]",
        "contains(//p[contains(., 'abc')], 'abc')",
    ):
        assert Probe(query).test(MESSAGE).matches, query


def test_booleans_and_unions() -> None:
    assert why("/nitf and //p = '7'") == ['//p is "1" or "2.0" or " abc ", not "7"']
    first, *parts = why("//foo or //p = '7'")
    assert first == "none of the 2 alternatives holds"
    assert [part.split(",")[0] for part in parts] == ["step 1", '//p is "1" or "2.0" or " abc "']
    assert why("/nitf/head | //hl4")[0] == "none of the 2 paths of the union finds a node"
    assert why("not(//p)") == [
        "not(//p) asks for what does hold",
        "//p finds /nitf/body/body.head/p[1] (7:7) and 2 more",
    ]
    assert why("not(//p[@n = '2'] = 2)")[1] == "//p[@n = '2'] is \"2.0\" at /nitf/body/body.head/p[2] (7:21)"
    assert why("1 > 2") == ["1 > 2 holds for no message"]
    assert why("string(//zz)")[0] == 'string(//zz) is ""'


def test_residual_queries() -> None:
    turned_away, reason, step = why("//p/following::q")
    assert turned_away == "residual: the shared part turned the message away"
    assert reason == "the axis following is not part of tree patterns"
    assert step.startswith("step 2 of 2, /following::q, finds nothing after any of 3 nodes, the first ")
    assert (
        why("//p/following::hl1")[0] == "residual: the message passed the shared part, and the XPath evaluator decided"
    )
    assert why("//hl1 = //hl3")[-1] == '//hl1 is "Big" and //hl3 is "x": = does not hold'
    verdict = Probe("//hl1/following::p").test(MESSAGE)
    assert verdict.matches and verdict.reached and verdict.count == 3


def test_the_caret_points_at_what_fails() -> None:
    lines = str(Probe("//p[@n = '2'][. = '2']").test(MESSAGE)).splitlines()
    at = next(i for i, line in enumerate(lines) if "^" in line)
    assert lines[at - 1][lines[at].index("^") : len(lines[at])] == ". = '2'"


def test_a_match_shows_what_is_selected() -> None:
    verdict = Probe("//p/@n").test(MESSAGE)
    assert str(verdict).splitlines() == [
        "match",
        "  selects /nitf/body/body.head/p[1]/@n (7:7)",
        "  selects /nitf/body/body.head/p[2]/@n (7:21)",
        "  selects /nitf/body/body.head/p[3]/@n (7:37)",
    ]
    many = Probe("//x").test(b"<a>" + b"<x/>" * 7 + b"</a>")
    assert (many.count, len(many.selected), str(many).splitlines()[-1]) == (7, 5, "  … and 2 more")
    assert str(Probe("count(//p) = 3").test(MESSAGE)).splitlines()[:2] == ["match", "  count(//p) = 3 holds"]
    assert "  all 2 conditions hold" in str(Probe("//p and //hl1").test(MESSAGE))


def test_the_document_comments_text_and_namespaced_names() -> None:
    xml = b"<!--c--><?pi d?><a xmlns:p='urn:p' p:x='1'>t<!--e--></a>"
    paths = [str(one) for one in Probe("/ | //node() | //@*").test(xml).selected]
    assert paths == ["/", "/comment()", "/processing-instruction()", "/a (1:17)", "/a/@p:x (1:17)"]
    assert why("//comment()[. = 'x']", xml)[1] == '. is "c", not "x"'
    assert why("/node()[. = 'x']", xml)[1] == '. is "c", not "x"'


def test_dialects_and_mistakes() -> None:
    assert why("/nitf/body[/hl1/hl2]", dialect="tian")[1].startswith("step 1 of 2, /hl1, finds nothing")
    assert Probe("/nitf/body[//hl1]", dialect="tian").test(MESSAGE).matches
    with pytest.raises(QueryError):
        Probe("//p[")
    with pytest.raises(MessageError):
        Probe("//p").test(b"<a>")


def test_places_survive_encodings() -> None:
    text = '<?xml version="1.0" encoding="{}"?>\n<é>é<b/></é>'
    for encoding in ("utf-8", "utf-16", "iso-8859-1", "windows-1252"):
        (found,) = Probe("//b").test(text.format(encoding).encode(encoding)).selected
        assert (found.line, found.column) == (2, 5), encoding
