"""FLWR text -> transform: what is accepted, what it becomes, and that it prints back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flwr_paper import QUERIES, QUERY_2
from twigcast.errors import QueryError
from twigcast.ir.transform import Attribute, Comment, Constant, Copy, Element, Function, Groups, Hole, Instruction, Name
from twigcast.ir.visit import replace
from twigcast.lang.flwr import parse_transform, to_xquery


def flwr(result: str, clauses: str = "for $v in //a") -> str:
    return f"<r>{{ {clauses} return {result} }}</r>"


@pytest.mark.parametrize("query", QUERIES)
def test_the_papers_queries_parse_as_printed(query: str) -> None:
    transform = parse_transform(query)
    assert transform.is_pattern
    assert transform.source.kind == "doc"


def test_the_parts_of_query_2() -> None:
    transform = parse_transform(QUERY_2)
    assert transform.outer == Element(Name("", "figures"), content=(Groups(),))
    assert transform.binding.text == "//section[@id <= 2]//figure"
    assert transform.where is not None
    assert transform.where.text == 'title = "XML processing"'
    assert [path.text for path in transform.return_paths] == ["image"]


def test_let_is_substituted() -> None:
    text = flwr(
        "<e>{ $n }{ $t/text() }{ $m }</e>", "let $d := doc('x') for $v in $d//a let $t := $v/b, $n := count($t)"
    )
    text = text.replace(" return", " let $m := min($t) where $n > 1 return")
    same = flwr("<e>{ count($v/b) }{ $v/b/text() }{ min($v/b) }</e>", "for $v in doc('x')//a where count($v/b) > 1")
    assert parse_transform(text) == parse_transform(same)


def test_boundary_white_space_goes_and_all_other_stays() -> None:
    made = parse_transform(flwr("<e> { $v/b } x <k/> &#32; <!--c--> <?p i?> <![CDATA[ ]]> {'s'} </e>")).result[0]
    assert isinstance(made, Element)
    path = made.content[0]
    assert made.content == (
        path,
        " x ",
        Element(Name("", "k")),
        "   ",
        Comment("c"),
        Instruction("p", "i"),
        "   ",
        Hole((Constant("s"),)),
    )


def test_escapes() -> None:
    made = parse_transform(flwr("""<e a="{{x}} &lt; &#65; ""q"" '" b='''"'>{{ }} &amp; &quot;</e>""")).result[0]
    assert isinstance(made, Element)
    assert made.attributes[0] == Attribute(Name("", "a"), ('{x} < A "q" \'',))
    assert made.attributes[1] == Attribute(Name("", "b"), ("'\"",))
    assert made.content == ('{ } & "',)
    assert parse_transform(flwr('"a ""b"" &amp; &#67;"')).result == (Constant('a "b" & C'),)


def test_attribute_value_templates() -> None:
    made = parse_transform(flwr("""<e a="n { $v/@id }, { concat("x", $v/b, '}') }"/>""")).result[0]
    assert isinstance(made, Element)
    first, second = (part for part in made.attributes[0].parts if isinstance(part, Hole))
    assert isinstance(first.items[0], Copy)
    assert first.items[0].path.kind == "attribute"
    assert isinstance(second.items[0], Function)


def test_namespaces_of_tags_reach_the_paths_inside() -> None:
    text = 'declare namespace p = "urn:p"; <r xmlns="urn:d" xmlns:q="urn:q">{ for $v in //a/p:b[@c]/q:d return $v }</r>'
    assert parse_transform(text).binding.text == "//{urn:d}a/{urn:p}b[@c]/{urn:q}d"
    inner = parse_transform('<r>{ for $v in //a return <e xmlns="urn:d">{ $v/b }</e> }</r>')
    assert [path.text for path in inner.return_paths] == ["{urn:d}b"]


def test_comments_anywhere() -> None:
    text = "(: a (: b :) :) <r>{ (: c :) for $v (: d :) in //a[(: e :) b] (: f :) return (: g :) $v (:h:) }</r> (::)"
    assert parse_transform(text) == parse_transform("<r>{ for $v in //a[b] return $v }</r>")


def test_keywords_are_also_names() -> None:
    clauses = "for $for in //for/return where $for/where = 'x' and $for/order order by $for/by return $for/let"
    text = f"<return>{{ {clauses} }}</return>"
    assert parse_transform(text).binding.text == "//for/return"


def test_what_is_no_tree_pattern_says_so() -> None:
    transform = parse_transform("<r>{ for $v in //a[preceding::b] return $v }</r>")
    assert not transform.is_pattern
    assert "preceding" in transform.reasons[0].text


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("", "unexpected-end", ""),
        ("//a", "unexpected-token", "//a"),
        ("for $v in //a return $v", "no-outer-element", "f"),
        ("<r/>", "no-flwr", "<"),
        ("<r>{ 'x' }</r>", "no-flwr", "<"),
        ("<r>{ //a }</r>", "no-context", "//a"),
        ("<r>{ for $v in //a return $v }</r> <s/>", "unexpected-token", "<s/>"),
        ("<r>{ for $v in //a return $v }</s>", "wrong-end-tag", "</s"),
        ("<r>{ for $v in //a return $v ", "missing-bracket", None),
        ("<r>{ for $v in //a return $v }", "unclosed-element", "r"),
        ("<r>{ for $v in //a, $w in //b return $v }</r>", "second-variable", ","),
        ("<r>{ for $v in //a for $w in //b return $v }</r>", "unsupported", "for"),
        ("<r>{ for $v in //a return $v }{ for $v in //b return $v }</r>", "second-flwr", "f"),
        (flwr("<e>{ for $w in $v/b return $w }</e>"), "unsupported", "for"),
        (flwr("if ($v/b) then $v else ()"), "unsupported", "if"),
        (flwr("element e { $v }"), "unsupported", "element"),
        (flwr("distinct-values($v/b)"), "function", "distinct-values"),
        (flwr("normalize-space($v/b)"), "function", "normalize-space($v/b)"),
        (flwr("$v/b + 1"), "arithmetic", "$v/b + 1"),
        (flwr("$v/b = 1"), "condition", "$v/b = 1"),
        (flwr("5"), "number", "5"),
        (flwr("$v/b | $v/c"), "union", "$v/b | $v/c"),
        (flwr("($v/b)[1]"), "parenthesised-path", "($v/b)["),
        (flwr("$v/.."), "axis", ".."),
        (flwr("$v/@a/b"), "below-a-leaf", "b"),
        (flwr("$w"), "unbound-variable", "$w"),
        (flwr("b"), "no-context", "b"),
        (flwr("$v/@id"), "late-attribute", None),
        (flwr("<e>{ $v/b }{ $v/@id }</e>"), "late-attribute", None),
        (flwr("<e a='{ <b/> }'/>"), "element-in-value", "<"),
        (flwr("<e a='1' a='2'/>"), "attribute-twice", "a"),
        (flwr("<p:e/>"), "undeclared-prefix", "p"),
        (flwr("<e>{ }</e>"), "empty-hole", "{ }"),
        (flwr("<e>}</e>"), "stray-brace", "}"),
        (flwr("<e>&nbsp;</e>"), "bad-reference", "&nbsp;"),
        (flwr("{ $v }"), "unexpected-token", "{"),
        (flwr("$v", "for $v at $i in //a"), "position", None),
        (flwr("$v", "for $v in //a where $v/b = "), "unexpected-token", "return"),
        (flwr("count($v/b) + 1"), "unexpected-token", "+"),
        (flwr("$v", "for $v in //a where b"), "no-context", "b"),
        (flwr("$v", "for $v in //a where $v/b[c = $v/d]"), "variable-in-predicate", "$v"),
        (flwr("$v", "for $v in //a where some $w in $v/b satisfies $w"), "unsupported", "some"),
        (flwr("$v", "for $v in //a group by $v/b"), "unsupported", "group"),
        (flwr("$v", "for $v in //a where doc('x')//b"), "second-source", "doc"),
        (flwr("$v", "for $v in doc('x')"), "no-binding", "doc('x')"),
        (flwr("$v", "for $v in //a | //b"), "union", "//a | //b"),
        (flwr("$v", "for $v in //a let $v := $v/b"), "bound-twice", "$v"),
        (flwr("$v", "for $v in //a order by 'x'"), "constant-key", "'x'"),
        ("declare function local:f() { 1 }; <r/>", "unexpected-token", "function"),
        ("import module 'x'; <r/>", "import", None),
        ("(: <r/>", "unterminated-comment", "(:"),
        (flwr("<e a=1/>"), "unexpected-token", "1/>"),
        (flwr("<e"), "unexpected-token", None),
        (flwr("min(5)"), "number", "5"),
        (flwr("concat('a')"), "wrong-arity", "concat('a')"),
    ],
)
def test_refusals(text: str, code: str, at: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        parse_transform(text)
    error = caught.value
    assert error.code == code, str(error)
    assert error.span is not None
    if at is not None:
        assert text[error.span.start : error.span.end] == at, str(error)


PIECES = [
    "<r>", "</r>", "<e", "/>", ">", "{", "}", "{{", "}}", " ", "\n", "for ", "let ", "where ", "order by ", "return ",
    "$v", "$w", " in ", ":=", "//a", "/b", "/@c", "/text()", "[", "]", "(", ")", ",", "=", '"x"', "'y'", "1", "count(",
    "min(", "concat(", "string(", "doc('x')", "<!--", "-->", "<?p", "?>", "<![CDATA[", "]]>", "&amp;", "&", "a='", "'",
    '"', "xmlns='u'", "xmlns:p='u'", "p:e", "declare ", "namespace ", "p", ";", "(:", ":)", "and ", "not(", "*", ".",
    "..", "Q{u}", "é", "😀", "\u2028", "descending", "empty ", "least", "if (", "some ",
]  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for whole in (text, f"<r>{{ for $v in //a {text} return <e>{text}</e> }}</r>", flwr(f"<e>{{ {text} }}</e>")):
        try:
            transform = parse_transform(whole)
        except QueryError as error:
            str(error)
            continue
        again = parse_transform(to_xquery(transform))
        assert replace(again, reasons=()) == replace(transform, reasons=())


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_characters(text: str) -> None:
    for whole in (text, flwr(text), flwr(f"<e>{text}</e>"), flwr(f"<e a='{text}'/>")):
        try:
            parse_transform(whole)
        except QueryError as error:
            str(error)


@pytest.mark.parametrize("text", ["(" * 3000, "<e>" * 3000, "concat(" * 3000, "$v[" * 3000, "(:" * 3000, "{" * 3000])
def test_deep_nesting_is_refused(text: str) -> None:
    for whole in (text, flwr(text), flwr(f"<e>{{{text}"), f"<r>{{ for $v in //a where {text}"):
        with pytest.raises(QueryError):
            parse_transform(whole)
