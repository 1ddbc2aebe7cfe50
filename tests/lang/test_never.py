"""Queries that no message can match are found, with the place and the reason; and only those are."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lang_documents import document
from lang_queries import query
from lang_strategies import expressions
from lxml import etree

from twigcast.lang import ast
from twigcast.lang.constants import constant
from twigcast.lang.context import at_document
from twigcast.lang.literals import taken_apart
from twigcast.lang.never import MAX_WORK, Judge, TooMuchWork, depends_on_constants, never
from twigcast.lang.printer import to_text, to_xpath
from twigcast.lang.single_values import DOCUMENT
from twigcast.lang.unsatisfiable import NeverMatches, never_matches
from twigcast.lang.values import to_string
from twigcast.lang.xpath import parse

NEVER = [
    # query, what is marked, part of the reason
    ('//item[@d > "2026-01-01"]', '"2026-01-01"', "not a number"),
    ('//item["2026-01-01" < @d]', '"2026-01-01"', "not a number"),
    ('//item[d - "2026-01-01" > 0]', '"2026-01-01"', "arithmetic needs numbers"),
    ('//item[number(@n) = "many"]', '"many"', "not a number"),
    ("//price[. > 5 and . < 3]", ". > 5 and . < 3", "cannot be > 5 and < 3"),
    ("//item[@price > 5][@price < 3]", "@price > 5][@price < 3", "@price cannot be"),
    ("//item[@a = 1 and @b = 7 and @a = 2]", "@a = 1 and @b = 7 and @a = 2", "= 1 and = 2"),
    ('//item[@a = "1" and @a = 2]', '@a = "1" and @a = 2', "@a cannot be"),
    ('//item[@a = "x" and not(@a = "x")]', None, "exclude each other"),
    ("//item[b and not(b)]", "b and not(b)", "exclude each other"),
    ("//item[(@a > 5 or @a = 4) and @a < 3]", None, "exclude each other"),
    ("/item/@a > 5 and /item/@a < 3", "/item/@a > 5 and /item/@a < 3", "/item/@a cannot be"),
    ("//item[b[1] = 1 and b[1] = 2]", "b[1] = 1 and b[1] = 2", "b[1] cannot be"),
    ("//item[string(.) = 'x' and string(.) = 'y']", None, "cannot be"),
    ("false()", "false()", "false for every message"),
    ("1 = 2", "1 = 2", "false for every message"),
    ("not(true())", "not(true())", "false for every message"),
    ("//a[contains('x', 'y')]", "contains('x', 'y')", "false for every message"),
    ("//a[concat('a', 'b') = 'c']", "concat('a', 'b') = 'c'", "false for every message"),
    ("//a[string-length(substring-after('ab', 'b')) > 0]", None, "false for every message"),
    ("<r>{ for $a in //a where starts-with('x', 'y') return $a }</r>", "starts-with('x', 'y')", "false for every"),
    ("//a[false()]", "false()", "false for every message"),
    ("//a[b or false()][1 > 2]", "1 > 2", "false for every message"),
    ("//a[0]", "0", "position()"),
    ("//a[1.5]", "1.5", "position()"),
    ("//a[position() = 0]", "position() = 0", "position()"),
    ("//a[position() = 1 and position() = 2]", "position() = 1 and position() = 2", "position()"),
    ("//a[position() > last()]", None, "never true"),
    ("//a[count(b) < 0]", "count(b) < 0", "count(b)"),
    ("//a[string-length() < 0]", "string-length() < 0", "string-length()"),
    ("not(count(//a) >= 0)", "count(//a) >= 0", "always true"),
    ("//a/text()/b", "b", "a text node has no b"),
    ("//a/@b/c", "c", "an attribute has no c"),
    ("/@a", "@a", "the document has no @a"),
    ("//a/self::b", None, "never true"),
    ("//a[@d > 'x'] | //b[0]", "'x'", "not a number"),
    ("//a[.//b[c/@d > 'x']]", "'x'", "not a number"),
    ("<r>{ for $a in //a[@d > 'x'] return $a }</r>", "'x'", "not a number"),
    ("<r>{ for $a in //a where $a/@d > 5 and $a/@d < 3 return $a }</r>", "$a/@d > 5 and $a/@d < 3", "@d cannot be"),
    ("<r>{ for $a in //a[@d > 5] where $a/@d < 3 return $a }</r>", None, "@d cannot be"),
    ("S//a->x[@d > 'x'] JOIN{x = y, 5} S//b->y", "'x'", "not a number"),
    ("S//a->x JOIN{x = y, 5} S//b[@d = 1 and @d = 2]->y", "@d = 1 and @d = 2", "@d cannot be"),
    ("S//a->x FOLLOWED BY{x = y, 0} S//b->y", None, "0"),
    ("S//a->x JOIN{x = y AND x != y, 5} S//b->y", "x = y AND x != y", "exclude each other"),
    ("S//a->x JOIN{x > y AND y > x, 5} S//b->y", "x > y AND y > x", "exclude each other"),
]

POSSIBLE = [
    "//item[price > 5 and price < 3]",  # two prices may do it
    "//item[b = 1 and b = 2]",
    "//item[text() = 'x' and text() = 'y']",
    "//item[@* = 1 and @* = 2]",
    "//item[. >= 5 and . <= 5]",
    '//item[. = 5 and . != "5"]',  # 5.0
    '//item[@d > "5"]',
    '//item[@d != "x" and @d != "y"]',
    "//item[@d > 5 or @d < 3]",
    "//item[not(@a = 1) and not(@a > 1) and not(@a < 1)]",  # not a number, or none at all
    "//item[@d >= 5 and string-length(@d) > 20]",
    "//a[position() = 1][position() = 2] | //b",
    "//a[2][1]",
    "//a/.. | //b",
    "string-length(/) >= 0",
    "//a/following-sibling::b[1]",
    "S//a->x JOIN{x = y, 0} S//b->y",
    "S//a->x JOIN{x = y AND x >= y, 5} S//b->y",
    "<r>{ for $a in //a where $a/b > 5 and $a/b < 3 return $a }</r>",
]


@pytest.mark.parametrize(("text", "marked", "reason"), NEVER)
def test_a_query_that_never_matches_is_found(text: str, marked: str | None, reason: str) -> None:
    for error in (never_matches(text), NeverMatches()(text)):
        assert error is not None and error.code == "never-matches"
        assert reason in error.text
        assert error.span is not None
        if marked is not None:
            assert text[error.span.start : error.span.end] == marked


@pytest.mark.parametrize("text", POSSIBLE)
def test_a_query_that_may_match_is_not_refused(text: str) -> None:
    assert never_matches(text) is None
    assert NeverMatches()(text) is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('//item[@d > "2026-01-01"]', "translate(@d, '-', '') > 20260101"),
        ('//item[@d >= "2026-01-01T10:00:00"]', "translate(substring(@d, 1, 10), '-', '') >= 20260101"),
        ('//item[@p > "1,000.5"]', "1000.5"),
        ('//item[@p > "abc"]', "no order of texts"),
        ("//a[0]", "from 1"),
    ],
)
def test_the_hint_says_what_to_write(text: str, hint: str) -> None:
    error = never_matches(text)
    assert error is not None and error.hint is not None and hint in error.hint


def test_the_hint_for_dates_works() -> None:
    tree = etree.fromstring('<r><i d="2026-01-02"/><i d="2025-12-31"/></r>')
    assert len(tree.xpath("//i[translate(@d, '-', '') > 20260101]")) == 1


def test_known_shapes_are_judged_by_their_constants() -> None:
    never = NeverMatches()
    for low, high in ((1, 2), (2, 1), (3, 4), (4, 3)):
        for text in (f"//a[@x > {low} and @x < {high}]", f"//a[not(@x <= {low}) and @x < {high}]"):
            assert (never(text) is not None) == (low > high), text
    for value, refused in (("5", False), ("x", True), ("6", False), ("2026-01-01", True)):
        for text in (f"//a[@x > '{value}']", f"//a[x > '{value}' or false()]"):
            assert (never(text) is not None) == refused, text
    assert never("//a[3]") is None and never("//a[0]") is not None
    assert never("//a[count(b) > 3]") is None and never("//a[count(b) = 2.5]") is not None


def matches(expr: ast.Expr, xml: bytes) -> bool:
    text, prefixes = to_xpath(at_document(expr))
    root = etree.fromstring(xml)
    root.getroottree().docinfo.clear()
    return bool(root.xpath(f"boolean({text})", namespaces=prefixes or None))


def check_sound(expr: ast.Expr, seed: int, documents: int = 12) -> None:
    found = never(expr)
    if found is None:
        return
    source = random.Random(seed)
    for _ in range(documents):
        xml = document(source)
        assert not matches(expr, xml), f"{to_text(expr)}: {found.text}\n{xml.decode()}"


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions(), st.integers(0, 10**9))
def test_a_refused_query_never_matches_under_libxml2(expr: ast.Expr, seed: int) -> None:
    check_sound(expr, seed)


CONTEXTS = [
    ".",
    "@a",
    "@b",
    "b[1]",
    "..",
    "self::a",
    "count(b)",
    "string-length(.)",
    "position()",
    "b",
    "string(@a)",
    "last()",
]
ATOMS = ["{} = 1", "{} != 1", "{} > 1", "{} < 2", "{} >= 2", "{} = 'x'", "{} != 'x'", "{} <= 0", "{} > '1'",
         "not({} = 1)", "not({} > 1)", "{}", "not({})", "{} < 'x'", "1 < {}", "{} = 3", "{} + 'x' > 1"]  # fmt: skip


def conditions(r: random.Random, depth: int) -> str:
    if depth == 0:
        return r.choice(ATOMS).format(r.choice(CONTEXTS[: r.choice([2, 5, 12])]))
    parts = [conditions(r, depth - 1) for _ in range(r.choice([1, 2, 2, 3]))]
    text = r.choice([" and ", " and ", " or "]).join(parts)
    return f"not({text})" if r.random() < 0.15 else f"({text})"


@pytest.mark.parametrize("seed", range(8))
def test_contradictions_are_sound_under_libxml2(seed: int) -> None:
    r = random.Random(seed)
    refused = 0
    for _ in range(150):
        brackets = "".join(f"[{conditions(r, r.choice([0, 1, 2]))}]" for _ in range(r.choice([1, 1, 2])))
        expr = parse(r.choice(["//a", "//*", "/*", "//b/a", "//node()"]) + brackets)
        refused += never(expr) is not None
        check_sound(expr, r.randrange(10**9))
    assert refused > 10


def test_dense_queries_are_judged_soundly() -> None:
    r = random.Random(17)
    for _ in range(1500):
        expr = parse(query(r), {"n": "urn:n"})
        check_sound(expr, r.randrange(10**9), 4)


def test_what_does_not_depend_on_constants_does_not() -> None:
    """Queries of one text but for the literals get one verdict, where the judgement is remembered by shape."""
    r = random.Random(18)
    for _ in range(1500):
        text = query(r)
        expr = parse(text, {"n": "urn:n"})
        if depends_on_constants(expr):
            continue
        rest, literals = taken_apart(text)
        other = "".join(
            part
            for i, piece in enumerate(rest[::2])
            for part in (
                piece or "",
                "" if i >= len(literals) else f"'{r.random()}'" if literals[i][0] in "'\"" else "9",
            )
        )
        assert (never(expr) is None) == (never(parse(other, {"n": "urn:n"})) is None), (text, other)


def test_the_work_on_a_large_query_is_bounded() -> None:
    atoms = " and ".join(f"(@a{i} > {i} or not(@a{i} = {i + 1} and @b > {i}))" for i in range(400))
    nested = "@a > 5"
    for i in range(40):
        nested = f"not({nested} and @a < {i})"
    for text in (f"//a[{atoms}]", f"//a[{nested}]"):
        judge = Judge()
        with suppress(TooMuchWork):
            judge.outcomes([(parse(text), 0)], DOCUMENT)
        assert judge.work <= MAX_WORK + 1
        assert never(parse(text)) is None


STRINGS = ["''", "'a'", "'abcab'", "' a  b\u00a0 '", "12345", "1 div 0", "-1 div 0", "0 div 0", "-1.5", "true()"]
FUNCTIONS = {"concat": (2, 3), "starts-with": (2,), "contains": (2,), "substring-before": (2,), "substring-after": (2,),
             "substring": (2, 3), "string-length": (1,), "normalize-space": (1,), "translate": (3,)}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_constants_are_those_of_libxml2(name: str) -> None:
    tree = etree.fromstring("<a/>")
    for count in FUNCTIONS[name]:
        for operands in itertools.product(STRINGS, repeat=count):
            text = f"{name}({', '.join(operands)})"
            folded = constant(parse(text))
            assert folded is not None and to_string(folded) == tree.xpath(f"string({text})"), text
