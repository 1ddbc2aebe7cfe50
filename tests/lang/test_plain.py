"""The lane of plain predicates agrees with the full compiler, and leaves the rest to it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lang_queries import query

from twigcast.errors import QueryError
from twigcast.lang.compile import compile_ast
from twigcast.lang.plain import MAX_NESTED, plain
from twigcast.lang.structural import PathCompiler
from twigcast.lang.xpath import parse
from twigcast.workload import QueryGenerator, QuerySettings, vocabulary

SCOPE = {"p": "urn:p", "n": "urn:n"}
COMPILER = PathCompiler(SCOPE, "urn:d")


def agrees(text: str) -> bool:
    """Whether the lane took the text; if so, it made of it what the full compiler makes."""
    found = plain(text, COMPILER)
    if found is not None:
        assert found == compile_ast(parse(text, SCOPE, "urn:d"), text), text
    return found is not None


@pytest.mark.parametrize(
    "text",
    [
        "/a[b]",
        "/a[b][b]",
        "/a[b]/b",
        "/a[b/c]/b[c]/c",
        "//a[.//b and ./c and @d]//e",
        '/a[. = "1"]',
        '/a[b[c = "1"] = "2"]/d',
        '/a[b[c = "1"]/d = "2" and e]',
        '/a[@x != ""][text() = "[]"]/text()',
        "/a[b = '\"']//@x",
        '/a[p < "3" and p > -1 and p >= 2. and p != 00]',
        "/ a [ and and or ] / p:b[*]/@p:c",
        "/*[*/*]",
        '/a[a = "é"]',
    ],
)
def test_takes(text: str) -> None:
    assert agrees(text)


@pytest.mark.parametrize(
    "text",
    [
        "/a",
        "a[b]",
        "/a[1]",
        "/a[.]",
        "/a[..]",
        "/a[/b]",
        "/a[b or c]",
        "/a[b()]",
        "/a[not(b)]",
        "/a[b = c]",
        "/a[b = 1 + 1]",
        "/a[b = 1 -1]",
        "/a[b = '1' = '1']",
        "/a[b < 'x']",
        "/a[z:b]",
        "/a[child::b]",
        "/a[@b/c]",
        "/a/@b[c]",
        "/a[text()[b]]",
        "/a[b] | /c",
        "/a[b]/..",
        "/@a[b]",
        "/text()[. = '1']",
        "/a[b = .5]",
        "/a[b = '\x01']",
        "/a[b = '\ud800']",
        "/a[é]",
        "/a[b = 'x]",
        "/a[b = ']",
        "/a[b",
        "/a[b]]",
        "/a[]",
        "/[b]",
        "/a" + "[b" * (MAX_NESTED + 1) + "]" * (MAX_NESTED + 1),
    ],
)
def test_leaves_to_the_full_compiler(text: str) -> None:
    assert plain(text, COMPILER) is None


@pytest.mark.parametrize("name", ["bib", "book", "catalog"])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_on_workloads(name: str, seed: int) -> None:
    settings = QuerySettings(
        depth=5, predicates=seed, predicate_depth=2, nested=1, inequalities=0.3, max_value=3, seed=seed
    )
    queries = list(QueryGenerator(vocabulary(name), settings).queries(300))
    assert all(map(agrees, queries))


@given(st.integers(0, 2**32))
def test_agrees_on_random_queries(seed: int) -> None:
    agrees(query(random.Random(seed)))


FRAGMENTS = ["/", "//", "a", "b", "*", "@a", "p:b", "text()", "[", "[", "]", "]", ".", ".//", "./", "=", "<", "!="]
FRAGMENTS += ["'1'", '"x"', "''", "2", "-1", " and ", " or ", " ", "and", "(", ")", "-", "1.", "::", "é"]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(lambda parts: "/a[" + "".join(parts)))
def test_takes_no_text_that_is_wrong(text: str) -> None:
    try:
        agrees(text)
    except QueryError as error:
        raise AssertionError(f"accepted {text!r}") from error
