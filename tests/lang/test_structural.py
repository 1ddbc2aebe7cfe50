"""The fast lane agrees with the full parser, and words its refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast.errors import QueryError
from twigcast.ir.pattern import LinearPath, Step
from twigcast.lang.structural import PathCompiler, compile_path, from_ast
from twigcast.lang.xpath import parse

SCOPE = {"p": "urn:p", "q-r": "urn:q"}
FRAGMENTS = [
    "/",
    "//",
    "///",
    "a",
    "b.c",
    "x-1",
    "*",
    "@",
    "text()",
    "p:a",
    "p:*",
    "z:a",
    "::",
    "child",
    ".",
    "..",
    "[",
    "é",
    "node()",
    "and",
    "@a",
    "(",
    "1",
    "_",
]
PIECES = st.sampled_from([*FRAGMENTS, " ", "\n", "\0"])
PATHS = st.lists(
    st.tuples(st.sampled_from(["/", "//"]), st.sampled_from(["a", "b-c", "p:a", "*", "or", "q-r:_.1"])), min_size=1
).flatmap(
    lambda steps: st.sampled_from(["", "/@a", "//@p:a", "/@*", "//text()"]).map(
        lambda leaf: "".join(map("".join, steps)) + leaf
    )
)


def full(text: str) -> LinearPath | str:
    try:
        return from_ast(parse(text, SCOPE, "urn:d"), text)
    except QueryError as error:
        return error.code


@given(st.lists(PIECES, max_size=8).map("".join))
def test_fast_lane_agrees_with_the_parser_on_any_text(text: str) -> None:
    fast = PathCompiler(SCOPE, "urn:d").fast(text)
    assert fast is None or fast == full(text)


@given(PATHS)
def test_fast_lane_takes_plain_paths(text: str) -> None:
    fast = PathCompiler(SCOPE, "urn:d").fast(text)
    assert fast is not None
    assert fast == full(text)
    assert compile_path(str(fast)) == fast


def test_steps() -> None:
    assert compile_path("/nitf//iim/*/@p:ds", {"p": "urn:p"}, "urn:d") == LinearPath(
        (
            Step("child", "element", "urn:d", "nitf"),
            Step("descendant", "element", "urn:d", "iim"),
            Step("child", "element", None, None),
            Step("child", "attribute", "urn:p", "ds"),
        )
    )
    assert compile_path("//a/@b").steps[1] == Step("child", "attribute", "", "b")
    assert compile_path("//a//text()").steps[1] == Step("descendant", "text")


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("a/b", "/a/b"),
        (" / a / b ", "/a/b"),
        (".//a", "//a"),
        ("./a/./b/.", "/a/b"),
        ("/descendant::a", "//a"),
        ("//descendant::a/attribute::b", "//a/@b"),
        ("/child::a/descendant-or-self::node()/child::text()", "/a//text()"),
        ("/a///b".replace("///", "//././/"), "/a//b"),
        ("/{urn:x}a/{}b", "/{urn:x}a/b"),
    ],
)
def test_other_spellings(text: str, same_as: str) -> None:
    assert compile_path(text) == compile_path(same_as)


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("/a[b]/c", "unsupported-predicate", "[b]"),
        ("/a/..", "unsupported-axis", ".."),
        ("/a | /b", "unsupported-expression", "/a | /b"),
        ("count(//a) > 1", "unsupported-expression", "count(//a) > 1"),
        ("(//a)[1]", "unsupported-expression", "(//a)[1]"),
        ("/a/comment()", "unsupported-node-test", "comment()"),
        ("/a/@b/c", "unsupported-empty-path", "c"),
        ("/", "unsupported-path", "/"),
        ("//.", "unsupported-path", "//."),
    ],
)
def test_refusals_point_at_the_part(text: str, code: str, under: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_path(text)
    assert caught.value.code == code
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == under
    assert caught.value.hint
