"""XSCL text -> correlations: the grammar of the issue, value-join normal form, and mistakes with their carets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation, Ref
from twigcast.lang.xscl import is_correlation, parse_correlation

SECOND = 1_000_000
Q1 = "S//book->x1[//author->x2][//title->x3] FOLLOWED BY {x2=x5 AND x3=x6, T1} S//blog->x4[//author->x5][//title->x6]"
Q2 = (
    "S//book->x1[//author->x2][//category->x7] FOLLOWED BY {x2=x5 AND x7=x8, T2}"
    " S//blog->x4[//author->x5][//category->x8]"
)
Q3 = (
    "S//blog->x4[//author->x5][//title->x6] FOLLOWED BY {x5=x5' AND x6=x6', T3}"
    " S//blog->x4'[//author->x5'][//title->x6']"
)


def tree(query: Correlation, block: int) -> list[tuple[str, int | None, str]]:
    return [(one.name, one.parent, one.path.text) for one in query.blocks[block].variables]


@pytest.mark.parametrize("arrow", ["->", "→", " -> ", " AS $"])
def test_the_papers_queries_parse_as_printed(arrow: str) -> None:
    for text, left, right in (
        (Q1, ["x1", "x2", "x3"], ["x4", "x5", "x6"]),
        (Q2, ["x1", "x2", "x7"], ["x4", "x5", "x8"]),
        (Q3, ["x4", "x5", "x6"], ["x4'", "x5'", "x6'"]),
    ):
        query = parse_correlation(text.replace("->", arrow))
        assert [one.name for one in query.blocks[0].variables] == left
        assert [one.name for one in query.blocks[1].variables] == right
        (link,) = query.links
        assert (link.kind, link.window) == ("followed", None)
        assert [(p.left, p.op, p.right) for p in link.predicates] == [
            (Ref(0, 1), "=", Ref(1, 1)),
            (Ref(0, 2), "=", Ref(1, 2)),
        ]
        assert query.shown == (Ref(0, 0), Ref(1, 0))


def test_windows_that_the_text_names_can_be_given() -> None:
    assert parse_correlation(Q1, windows={"T1": "5 min"}).links[0].window == 300 * SECOND


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 min", 300), ("5min", 300), ("P5D", 432_000), ("PT1H30M", 5_400), ("P1W", 604_800), ("10", 10),
        ("0", 0), ("1.5", 1.5), ("500 ms", 0.5), ("3 days", 259_200), ("2 h", 7_200), ("PT0.5S", 0.5),
    ],
)  # fmt: skip
def test_windows(text: str, seconds: float) -> None:
    query = parse_correlation(f"S/a->x JOIN{{x=y, {text}}} S/b->y")
    assert query.links[0].window == seconds * SECOND


@pytest.mark.parametrize("text", ["INF", "inf", "∞", "T1", "T"])
def test_windows_without_bound(text: str) -> None:
    assert parse_correlation(f"S/a->x JOIN{{x=y, {text}}} S/b->y").links[0].window is None


@pytest.mark.parametrize("text", ["5 fortnights", "-5", "P1M", "P", "PT", "soon", "1e3", "5 5", "9999999999999999 d"])
def test_no_windows(text: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse_correlation(f"S/a->x JOIN{{x=y, {text}}} S/b->y")
    assert raised.value.code == "bad-window"
    assert raised.value.span is not None


def test_all_clauses_and_several_streams() -> None:
    query = parse_correlation(
        """SELECT <pair id="{ $b/@id }">{ $t }<n>{ count($b//author) }</n></pair>
        FROM Books//book AS $b[author AS $a]
             FOLLOWED BY{$a = $w AND $b/@year <= $t/@year, P5D}
             Blogs/blog/post[author->w]/title->t
        PUBLISH pairs"""
    )
    assert query.streams == ("Books", "Blogs")
    assert query.publish == "pairs"
    assert tree(query, 0) == [("b", None, "//book"), ("a", 0, "author"), ("_1", 0, "@year")]
    assert tree(query, 1) == [("_1", None, "/blog/post"), ("w", 0, "author"), ("t", 0, "title"), ("_2", 2, "@year")]
    assert [p.op for p in query.predicates] == ["=", "<="]
    assert query.shown == (Ref(0, 0), Ref(1, 2))


def test_chains_are_left_deep() -> None:
    text = "S/a->x FOLLOWED BY{x=y, 5} S/b->y JOIN{y=z AND z!=x, 7} T/c->z"
    query = parse_correlation(text)
    assert [link.kind for link in query.links] == ["followed", "join"]
    assert query.links[1].predicates[1].left == Ref(0, 0)
    assert query.links[1].predicates[1].right == Ref(2, 0)
    assert parse_correlation("(S/a->x FOLLOWED BY{x=y, 5} S/b->y) JOIN{y=z AND z!=x, 7} T/c->z") == query


def test_comparisons_turn_round_so_that_the_new_block_is_right() -> None:
    (predicate,) = parse_correlation("S/a->x JOIN{y < x, 5} S/b->y").predicates
    assert (predicate.left, predicate.op, predicate.right) == (Ref(0, 0), ">", Ref(1, 0))


def test_what_nothing_needs_is_folded_away() -> None:
    query = parse_correlation("S//a->u/b->x[c->p[d->q]][e->r] JOIN{r = y, 5} S//f->y")
    assert tree(query, 0) == [("x", None, "//a/b[c/d]"), ("r", 0, "e")]
    named = parse_correlation("S//a/b->x[c[d]][e->r] JOIN{r = y, 5} S//f->y")
    twigs = [[one.path.twig for one in each.blocks[0].variables] for each in (named, query)]
    assert twigs[0] == twigs[1]


def test_branches_part_at_unnamed_steps() -> None:
    query = parse_correlation("S//o->x[item[sku->s][qty->q]/note] JOIN{s = t AND q = u, 5} S//p->y[t->t][u->u]")
    assert tree(query, 0) == [("x", None, "//o"), ("_1", 0, "item[note]"), ("s", 1, "sku"), ("q", 1, "qty")]


def test_conditions_are_filters() -> None:
    query = parse_correlation("S//a->x[p->p > 5 and q = 'v'][contains(r, 'w')] JOIN{p = y AND x/@k = 'z', 5} S//b->y")
    assert tree(query, 0) == [("x", None, '//a[contains(r, "w")][q = "v"][@k = "z"]'), ("p", 0, "p[. > 5]")]


def test_positions_count_what_the_branches_leave() -> None:
    query = parse_correlation("S//a->x[b->b][2] JOIN{b = y, 5} S//c->y")
    assert tree(query, 0) == [("x", None, "//a[b][2]"), ("b", 0, "b")]


def test_a_leading_slash_in_a_predicate_is_relative() -> None:
    query = parse_correlation("S//a->x[//c = '1'][/d] JOIN{x = y, 5} S//b->y")
    assert tree(query, 0) == [("x", None, '//a[.//c = "1"][d]')]


def test_the_root_is_the_innermost_element() -> None:
    query = parse_correlation("S//order/item/@id->x JOIN{x = y, 5} S//@ref->y")
    assert tree(query, 0) == [("_1", None, "//order/item"), ("x", 0, "@id")]
    assert tree(query, 1) == [("_1", None, "."), ("y", 0, "//@ref")]
    assert query.blocks[1].variables[0].kind == "document"


def test_namespaces() -> None:
    query = parse_correlation("S//p:a->x[{urn:q}b->b] JOIN{b = y, 5} S//c->y", {"p": "urn:p"}, "urn:default")
    assert tree(query, 0) == [("x", None, "//{urn:p}a"), ("b", 0, "{urn:q}b")]
    assert tree(query, 1) == [("y", None, "//{urn:default}c")]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("", "empty-query", ""),
        ("S//a->x JOIN{x=y, 5}", "unexpected-end", ""),
        ("S//a->x JOIN{x=y} S//b->y", "no-window", "}"),
        ("S//a->x JOIN{, 5} S//b->y", "no-predicate", "{"),
        ("S//a->x JOIN{x=q, 5} S//b->y", "unbound-variable", "q"),
        ("S//a->x JOIN{x=x, 5} S//b->y", "same-block", "x=x"),
        ("S//a->x JOIN{x=y OR x=y, 5} S//b->y", "disjunction", "OR"),
        ("S//a->x JOIN{x=y, 5} S//b->x", "bound-twice", "->x"),
        ("S//a->x[not(b->y)] JOIN{x=z, 5} S//b->z", "mark-place", "->y"),
        ("S//a->x JOIN{x=y, 5} S//b->y JOIN{x=y, 5} S//c->z", "earlier-blocks", "x=y"),
        ("S//a->x JOIN x=y S//b->y", "unexpected-token", "x=y"),
        ("S//a->x JOIN{x=y, 5 S//b->y", "missing-bracket", "{"),
        ("S//a->x JOIN{x=y, 5} (S//b->y JOIN{y=z, 5} S//c->z)", "right-deep", "("),
        ("SELECT <a>{$q}</a> FROM S//a->x JOIN{x=y, 5} S//b->y", "unbound-variable", "$q"),
        ("SELECT <a>{$x}</b> FROM S//a->x JOIN{x=y, 5} S//b->y", "wrong-end-tag", "</b"),
        ("SELECT <a>{x}</a> FROM S//a->x JOIN{x=y, 5} S//b->y", "no-context", "x"),
        ("SELECT x FROM S//a->x JOIN{x=y, 5} S//b->y", "unexpected-token", "x"),
        ("SELECT * S//a->x JOIN{x=y, 5} S//b->y", "unexpected-token", "S//a->x"),
        ("S//a->x JOIN{1=1, 5} S//b->y", "constants", "1=1"),
        ("S//a->x JOIN{x='a', 5} S//b->y", "no-predicate", "x='a'"),
        ("S//a->x JOIN{x=y, 5} S//b/parent::c->y", "axis", "parent::c->y"),
        ("S//a->x[../b = 'q'] JOIN{x=y, 5} S//b->y", "not-a-pattern", "->x"),
        ("S//a->x JOIN{x=y, 5} S//b->y PUBLISH", "unexpected-end", ""),
        ("S//p:a->x JOIN{x=y, 5} S//b->y", "undeclared-prefix", "p"),
    ],
)
def test_mistakes(text: str, code: str, at: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse_correlation(text)
    error = raised.value
    assert error.code == code, str(error)
    assert error.span is not None
    if at:
        assert text[error.span.start : error.span.end] == at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (Q1, True), (Q3, True), ("SELECT * FROM blog", True), ("select <a/> from S//b", True),
        ("FROM S//a->x JOIN{x=y,5} T//b->y", True), ("S AS $s JOIN {$s/a=$t/a, 3} T AS $t", True),
        ("//a[. = 'x JOIN{y']", False), ("//join", False), ("select", False), ("select/from", False),
        ("<r>{ for $x in //JOIN return $x }</r>", False), ("{urn:x}a/b", False), ("from = 'x'", False),
        ("for $v in //a return <b>JOIN{$v}</b>", False),
    ],
)  # fmt: skip
def test_is_correlation(text: str, expected: bool) -> None:
    assert is_correlation(text) is expected


def test_limits() -> None:
    many = " AND ".join(["x=y"] * 65)
    with pytest.raises(QueryError, match="more than 64 comparisons"):
        parse_correlation(f"S//a->x JOIN{{{many}, 5}} S//b->y")
    shown = ", ".join(f"$x{at}" for at in range(130))
    branches = "".join(f"[a->x{at}]" for at in range(130))
    with pytest.raises(QueryError, match="more than 128 variables"):
        parse_correlation(f"SELECT {shown} FROM S//r{branches} JOIN{{x1=y, 5}} S//b->y")
    with pytest.raises(QueryError, match="more than 16 blocks"):
        parse_correlation("S//a->x" + "".join(f" JOIN{{x=y{at}, 5}} S//b->y{at}" for at in range(17)))


@pytest.mark.parametrize(
    "text",
    [
        "S" + "".join(f"/a->x{at}" for at in range(3_000)) + " JOIN{x1=y, 5} S//b->y",
        "S" + "".join(f"/a->x{at}" for at in range(250)) + " JOIN{x1=y, 5} S//b->y",
        "S//r->r" + "".join(f"[a{at}->x{at}" for at in range(90)) + "]" * 90 + " JOIN{r=y, 5} S//b->y",
        "S//r->r" + "".join(f"[a{at}->x{at}" for at in range(300)) + "]" * 300 + " JOIN{r=y, 5} S//b->y",
        "S//r->r" + "".join(f"[a->x{at}]" for at in range(5_000)) + " JOIN{r=y, 5} S//b->y",
        "S//r->r" + "/a" * 20_000 + "->x JOIN{x=y, 5} S//b->y",
        "(" * 5_000 + "S//a->x JOIN{x=y, 5} S//b->y",
        "SELECT " + "<b>" * 200 + "</b>" * 200 + " FROM S//a->x",
        "S//a->x[b" + " and c" * 10_000 + "] JOIN{x=y, 5} S//b->y",
        "S//a->x JOIN{x=y, " + "9" * 5_000 + "} S//b->y",
        "S//a->x JOIN{x" + "/a" * 20_000 + "=y, 5} S//b->y",
    ],
    ids=range(11),
)
def test_hostile_queries(text: str) -> None:
    try:
        parse_correlation(text)
    except QueryError as error:
        assert str(error)


def test_what_has_to_exist_in_a_message_as_a_whole() -> None:
    query = parse_correlation("SELECT * FROM S//@id->x")
    assert tree(query, 0) == [("_1", None, "."), ("x", 0, "//@id")]


def test_a_chain_of_unneeded_variables_is_one_path() -> None:
    query = parse_correlation("S//r->r[a->a[b->b]/c->c[d->d][e->e]] JOIN{r=y, 5} S//b->y")
    assert tree(query, 0) == [("r", None, "//r[a[b]/c[d]/e]")]


_PIECES = [
    "S", "//", "/", "a", "b", "->", "x", "y", "'", " AS $", "[", "]", "JOIN", "FOLLOWED BY", "{", "}", "=", "<", ",",
    "5", "min", "SELECT", "FROM", "PUBLISH", "*", "$", "<p>", "</p>", "(", ")", "AND", " ", "@", ".", "..", "\"", "INF",
    "not(", "[1]", "position()", "→", "-", "|", "T1", "::", "S//a->x JOIN{x=y, 5} S//b->y",
]  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=24))
def test_whatever_the_text_it_is_a_correlation_or_a_query_error(pieces: list[str]) -> None:
    text = "".join(pieces)
    is_correlation(text)
    try:
        parse_correlation(text)
    except QueryError as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 200),
    st.sampled_from(_PIECES),
    st.sampled_from([Q1, Q3, "SELECT <p>{$x}</p> FROM S//a->x[b->z]/c[2] JOIN{x/q=y, 5} S//b->y PUBLISH n"]),
)
def test_a_broken_query_is_told(at: int, piece: str, text: str) -> None:
    at = min(at, len(text))
    for broken in (text[:at] + piece + text[at:], text[:at] + text[at + 1 :], text[:at]):
        try:
            parse_correlation(broken)
        except QueryError as error:
            assert str(error)
