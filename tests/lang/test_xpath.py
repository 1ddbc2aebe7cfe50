"""The parser: precedence, abbreviations, lexical rules, namespaces, dialects; nothing but QueryError comes out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lang_strategies import HERE, expressions

from twigcast.errors import OptionError, QueryError
from twigcast.lang import ast
from twigcast.lang.functions import FUNCTIONS
from twigcast.lang.lexer import MAX_LENGTH
from twigcast.lang.printer import to_text, to_xpath
from twigcast.lang.xpath import MAX_DEPTH, parse

SCOPE = {"p": "urn:p"}
FRAGMENTS = [
    *["a", "b", "p:a", "p:*", "*", "@", "/", "//", "[", "]", "(", ")", "::", "child", "ancestor", ".", "..", ","],
    *["|", "+", "-", "=", "!=", "<", ">=", "and", "or", "div", "mod", "AND", "NOT", "'x'", '"', "'", "1", ".5", "$"],
    *[":", "{u}", "{", "!", " ", "\n", "\0", "text()", "node()", "processing-instruction(", *FUNCTIONS],
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)))
def test_any_text_gives_a_tree_or_a_query_error(text: str) -> None:
    for dialect in ("w3c", "tian"):
        try:
            tree = parse(text, SCOPE, dialect=dialect)
        except QueryError as error:
            assert error.code and str(error)
            if error.span is not None:
                assert 0 <= error.span.start <= len(text)
        else:
            assert parse(to_text(tree)) == tree


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(expressions())
def test_canonical_text_parses_to_the_same_tree(tree: ast.Expr) -> None:
    assert parse(to_text(tree)) == tree
    text, prefixes = to_xpath(tree)
    parse(text, prefixes)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
@given(expressions())
def test_spans_lie_within_each_other(tree: ast.Expr) -> None:
    text = to_text(tree)
    whole = parse(text)
    assert (whole.span.start, whole.span.end) == (0, len(text))
    if isinstance(whole, ast.LocationPath):
        for step in whole.steps:
            assert whole.span.start <= step.span.start < step.span.end <= whole.span.end


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("a or b and c", "a or (b and c)"),
        ("a = b < c", "a = (b < c)"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("-a | b", "-(a | b)"),
        ("- - 1", "-(-1)"),
        ("a AND b OR NOT(c)", "(a and b) or not(c)"),
        ("//a", "/descendant-or-self::node()/child::a"),
        ("@a/..", "attribute::a/parent::node()"),
        (".//a", "self::node()/descendant-or-self::node()/child::a"),
        ("* * *", "(*) * (*)"),
        ("div div div", "(div) div (div)"),
        ("and and and", "(and) and (and)"),
        ("/and/or", "/child::and/child::or"),
        ("AND", "child::AND"),
        ("a[AND]", "a[child::AND]"),
        ("text", "child::text"),
        ("a\n/ b [ 1 ]", "a/b[1]"),
        ("child :: a", "child::a"),
        ("5.", "5"),
        ("id('x')[1]/a", "(id('x'))[1]/a"),
        ("processing-instruction ( 'x' )", "processing-instruction('x')"),
        ("'a\"b'", "'a\"b'"),
        ("xml:lang", "{http://www.w3.org/XML/1998/namespace}lang"),
        ("p:a/@p:b/p:*", "{urn:p}a/@{urn:p}b/{urn:p}*"),
    ],
)
def test_means_the_same(text: str, same_as: str) -> None:
    assert parse(text, SCOPE) == parse(same_as, SCOPE)


def test_default_namespace_is_for_elements_only() -> None:
    tree = parse("a/@b[self::c]/namespace::d", {}, "urn:d")
    assert to_text(tree) == "{urn:d}a/@b[self::{urn:d}c]/namespace::d"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("//a[//c]", "//a[.//c]"),
        ("//a[/c/d = 1]", "//a[c/d = 1]"),
        ("//a[count(//b[/c]) > 1]", "//a[count(.//b[c]) > 1]"),
        ("//a[/]", "//a[.]"),
        ("/a and //b", "/a and //b"),
    ],
)
def test_tian_reads_a_leading_slash_in_a_predicate_as_relative(text: str, canonical: str) -> None:
    assert to_text(parse(text, dialect="tian")) == canonical
    assert parse(text) == parse(canonical) or "[" in text


def test_a_dialect_we_do_not_know_is_refused() -> None:
    with pytest.raises(OptionError, match="w3c, tian"):
        parse("a", dialect="xpath2")


@pytest.mark.parametrize("uri", ["urn:{x", "urn:}"])
def test_braces_in_a_namespace_are_refused(uri: str) -> None:
    with pytest.raises(OptionError, match="braces"):
        parse("a", {"p": uri})


def test_the_empty_prefix_is_refused_not_ignored() -> None:
    with pytest.raises(OptionError, match="default element namespace"):
        parse("a", {"": "urn:x"})


def test_numbers_have_no_exponent_in_text() -> None:
    for value in (1e21, 5e-324, 0.1, 123456789.5, float("inf")):
        tree = ast.Number(value, HERE)
        assert parse(to_text(tree)) == tree


@pytest.mark.parametrize("nest", ["({})", "a[{}]", "not({})", "1 + ({})", "-{}", "a | ({})", "(a | b)[{}]/c"])
def test_nesting_is_bounded_not_crashing(nest: str) -> None:
    text = "a"
    for _ in range(MAX_DEPTH - 2 if "1 +" not in nest else MAX_DEPTH // 2 - 2):
        text = nest.format(text)
    assert parse(to_text(parse(text))) == parse(text)
    for _ in range(500):
        text = nest.format(text)
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert caught.value.code == "too-deep"


def test_long_flat_queries_are_fine() -> None:
    for joiner in (" or ", " and ", " | ", "/", "][c]/a["):
        text = "a[" + joiner.join(["b"] * 2000) + "]"
        assert parse(to_text(parse(text))) == parse(text)
    with pytest.raises(QueryError) as caught:
        parse("1" + " + 1" * 2000)
    assert caught.value.code == "too-deep"


def test_length_is_bounded() -> None:
    with pytest.raises(QueryError) as caught:
        parse("a" * (MAX_LENGTH + 1))
    assert caught.value.code == "too-long"
