"""What queries compile to: rewritings assert the shape of the pattern; that it means the same, test_compile says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_xpath import FRAGMENTS

from twigcast.errors import QueryError
from twigcast.ir.pattern import FALSE, TRUE, Pattern, Residual, Structural, constants
from twigcast.lang.compile import compile_query
from twigcast.lang.printer import to_xpath


def condition(text: str) -> str:
    compiled = compile_query(text)
    assert isinstance(compiled, Pattern), compiled
    return str(compiled.condition)


def selected(text: str) -> list[str]:
    compiled = compile_query(text)
    assert isinstance(compiled, Pattern) and compiled.selects is not None, compiled
    guards = [f"{one.guard} : " if one.guard != TRUE else "" for one in compiled.selects]
    return [guard + str(one.twig) for guard, one in zip(guards, compiled.selects, strict=True)]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        # Steps that go nowhere, and steps back.
        ("/a/b/..", ["a[b]"]),
        ("/a/b[1]/..", ["a[b[position() = 1]]"]),
        ("//b/ancestor::a", [".//a[.//b]"]),
        ("/a/b/ancestor::*", ["a[b]"]),
        ("/a//b/ancestor::c", ["a//c[.//b]"]),
        ("//a/b/../c", [".//a[b]/c"]),
        ("//@x/..", [".//*[@x]"]),
        ("//a/descendant-or-self::a", [".//a", ".//a//a"]),
        ("//*/self::a[b]", [".//a[b]"]),
        ("//a/text()/..", [".//a[text()]"]),
        # Predicates about what lies above move there.
        ("/p/a[../b]", ["p[b]/a"]),
        ("/p/a[../@x = 1][2]", ["p[@x = 1.0]/a[position() = 2]"]),
        ("//a[ancestor::x]", [".//x//a"]),
        ("/p/a[not(../b)]", ["p[not(b)]/a"]),
        ("/p/a[../b or c]", ["p[b]/a", "p/a[c]"]),
        ("//a[/r/s]", ["r/s : .//a"]),
        ("//a[not(/r)]", ["not(r) : .//a"]),
        ("/a/b[c/../../d]", ["a[d]/b[c]"]),
        # Names.
        ("//*[local-name() = 'x']", [".//*:x"]),
        ("//*[namespace-uri() = 'u']", [".//{u}*"]),
        ("//*[local-name() = 'x' and namespace-uri() = 'u']", [".//{u}x"]),
        ("//*[self::a or self::b]", [".//*[self::a or self::b]"]),
        ("//*[2][self::b]", [".//*[position() = 2 and self::b]"]),
        # Positions.
        ("//f[position() < 3]", [".//f[position() <= 2]"]),
        ("//f[last()]", [".//f[last() - position() = 0]"]),
        ("//f[position() = last() - 1]", [".//f[last() - position() = 1]"]),
        ("//f[b][2]", [".//f[b][position() = 2]"]),
        ("//f[2][b]", [".//f[b and position() = 2]"]),
        ("//f[1.5]", []),
        ("//@x[1]", [".//@x"]),
        # Unions are unions of patterns.
        ("//a[b] | //c", [".//a[b]", ".//c"]),
        ("/@x", []),
        # A namespace node is in no namespace, and no text or comment.
        ("//namespace::xml:*", []),
        ("//namespace::xml:a", []),
        ("//namespace::text()", []),
    ],
)
def test_selected_nodes(text: str, nodes: list[str]) -> None:
    if text == "/@x":
        assert isinstance(compile_query(text), Structural)
        return
    assert selected(text) == nodes


@pytest.mark.parametrize(
    "variants",
    [
        ["/a[b]/c", "/a[c]/b", "/a[b][c]", "/a[c and b]", "/a[b and b][c]", "/a[./b]/c", "/a[child::b]/c", "a[b]/c"],
        ["/a[.//c]/d", "/a[descendant::c]/d", "/a[d]//c", "/a[d]/descendant-or-self::node()/c"],
        ["//a[b = 'x']", "//a/b = 'x'", "'x' = //a/b", "//a[b[. = 'x']]", "//a/b[self::node() = 'x']"],
        ["//a[not(not(b))]/c", "//a[boolean(b)]/c", "//a[b = true()]/c", "//a[b][true()]/c", "//a[count(b) > 0]/c"],
        ["not(//a)", "count(//a) = 0", "count(//a) < 1", "//a = false()", "not(boolean(//a))", "NOT(//a)"],
        ["//a[b > 5 and c]", "//a[c][5 < b]", "//a[c]/b > 5", "//a[c and b > '5']"],
        ["//a[contains(., 'x')]", "//a[contains(string(), 'x')]", "//a/self::*[contains(., 'x')]"],
        ["count(//a) >= 3", "count(//a) >= 3 and true()", "boolean((//a)[3])"],
        ["/a or /b", "/b or /a", "/a OR /b", "boolean(/a | /b)", "/a or /b or /a"],
        ["//a[b or not(c)]", "//a[not(c) or b]", "//a[not(not(b or not(c)))]"],
    ],
)
def test_variants_share_one_condition(variants: list[str]) -> None:
    assert len({condition(text) for text in variants}) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/", TRUE),
        ("true()", TRUE),
        ("1 = 1", TRUE),
        ("//a or not(//a)", TRUE),
        ("contains(//a, '')", TRUE),
        ("//a[false()]", FALSE),
        ("//a[b and not(b)]", FALSE),
        ("//a[0]", FALSE),
        ("//a > 'x'", FALSE),
        ("/..", FALSE),
        ("//text()/a/b[1]", FALSE),
        ("//a/self::b", FALSE),
        ("//a[false() and b = c]", FALSE),
        ("2 + 2 = 4 and '' or 1 div 0 > 5", TRUE),
    ],
)
def test_constant_queries(text: str, value: object) -> None:
    compiled = compile_query(text)
    assert isinstance(compiled, Pattern)
    assert compiled.condition == value


@pytest.mark.parametrize(
    ("text", "necessary", "reason", "under"),
    [
        ("//a[b = c]", ".//a[b and c]", "between two paths", "b = c"),
        ("//a/following-sibling::b", ".//*[a and b]", "axis following-sibling", "following-sibling::b"),
        ("//a/following-sibling::a", ".//a", "axis following-sibling", "following-sibling::a"),
        ("//a[following-sibling::*]", "(* and a) or .//*[* and a]", "following-sibling", "following-sibling::*"),
        ("//a[not(following::b = 'c')]", ".//a", "axis following", "following::b"),
        ("//a[not(preceding-sibling::b/c = 'd')]", ".//a", "axis preceding-sibling", "preceding-sibling::b"),
        ("//a/following::b[c]", ".//a and .//b/c", "axis following", "following::b[c]"),
        ("//a[b + 1 > 3]/c", ".//a[b and c]", "computed", "b + 1 > 3"),
        ("//a[@x][position() mod 2 = 1]", ".//a/@x", "position()", "position() mod 2 = 1"),
        ("//a[contains(translate(b, 'X', 'x'), 'x')]", ".//a/b", "contains()", "contains(translate(b, 'X', 'x'), 'x')"),
        ("//a[not(b = c)]", ".//a", "between two paths", "b = c"),
        ("//a[not(ancestor::x)]", ".//a", "no ancestor", "a[not(ancestor::x)]"),
        ("sum(//a) > 5", ".//a", "computed", "sum(//a) > 5"),
        ("//*[name() = 'p:x']", ".//*:x", "computed", "name() = 'p:x'"),
        ("id('x')/b", "None", "id()", "id('x')"),
        ("//a/namespace::*", ".//a", "axis namespace", "namespace::*"),
        ("//a[b = c][2]", ".//a[b and c]", "between two paths", "b = c"),
        ("/descendant::a[2]", ".//a", "counts more than siblings", "2"),
        ("concat(//a, 'x')", "None", "concat()", "concat(//a, 'x')"),
    ],
)
def test_residual_queries(text: str, necessary: str, reason: str, under: str) -> None:
    compiled = compile_query(text)
    assert isinstance(compiled, Residual)
    assert str(compiled.necessary) == necessary
    first = compiled.reasons[0]
    assert reason in first.text
    assert text[first.span.start : first.span.end] == under
    assert to_xpath(compiled.expr)[0]


def test_residual_text_is_plain_xpath() -> None:
    compiled = compile_query("n:a OR {urn:y}b = c", {"n": "urn:x"})
    assert isinstance(compiled, Residual)
    assert to_xpath(compiled.expr) == ("/ns0:a or /ns1:b = /c", {"ns0": "urn:x", "ns1": "urn:y"})


def test_constants_come_in_order_and_do_not_change_the_shape() -> None:
    one, two = compile_query("//a[b = 'z'][c > 1]/d"), compile_query("//a[c > 9 and d]/b = 'a'")
    assert isinstance(one, Pattern) and isinstance(two, Pattern)
    assert [const.value for const in constants(one.condition)] == ["z", 1.0]
    assert [const.value for const in constants(two.condition)] == ["a", 9.0]
    assert str(one.condition) == ".//a[b = 'z' and c > 1.0 and d]"
    assert str(two.condition) == ".//a[b = 'a' and c > 9.0 and d]"


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join))
def test_any_text_compiles_or_is_a_query_error(text: str) -> None:
    try:
        compile_query(text, {"p": "urn:p"})
    except QueryError as error:
        assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "/".join(["a"] * 3000) + "[b]",
        "/".join(["a[b]"] * 3000),
        "/".join(["a"] * 3000) + "/ancestor::b",
        "//" + "//".join(["a"] * 300) + "/ancestor::b",
        "a" + "[b" * 90 + "]" * 90,
        "not(" * 90 + "a" + ")" * 90,
        "a[" + " or ".join(f"b{n} = {n}" for n in range(3000)) + "]",
        "a" + "[b or ../c]" * 50,
        " | ".join(f"/a{n}[b]" for n in range(500)),
        "//a" + "[ancestor::b]" * 30,
        "//a" + "/descendant-or-self::*" * 30,
    ],
)
def test_large_queries_compile_in_bounded_time_and_space(text: str) -> None:
    compiled = compile_query(text)
    assert isinstance(compiled, Pattern | Residual)
    assert len(str(compiled.condition if isinstance(compiled, Pattern) else compiled.necessary)) < 200_000
