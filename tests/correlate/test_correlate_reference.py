"""SEMANTICS 18-25, one by one, on the brute-force evaluator that all strategies are held against."""

from __future__ import annotations

import pytest

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast.correlate.streams import check_streams
from twigcast.errors import QueryError
from twigcast.lang.xscl import parse_correlation

SECOND = 1_000_000


def joined(query: str, *messages: tuple[str, float, str], **options: int) -> list[tuple[str | int, ...]]:
    """``messages`` are (stream, time in seconds, XML); they are numbered from 1."""
    arrivals = [(n, s, round(t * SECOND), xml.encode()) for n, (s, t, xml) in enumerate(messages, 1)]
    return [one.messages for one in evaluate({"q": parse_correlation(query)}, arrivals, **options)]


FOLLOWED = "S//a->x FOLLOWED BY{x=y, 5} S//b->y"
JOIN = "S//a->x JOIN{x=y, 5} S//b->y"


@pytest.mark.parametrize(
    ("apart", "followed", "join"),
    [(-6, 0, 0), (-5, 0, 1), (-1, 0, 1), (0, 0, 1), (1, 1, 1), (5, 1, 1), (5.000001, 0, 0), (6, 0, 0)],
)
def test_windows(apart: float, followed: int, join: int) -> None:
    a, b = ("S", 10, "<a>v</a>"), ("S", 10 + apart, "<b>v</b>")
    for arrivals in ((a, b), (b, a)):
        assert len(joined(FOLLOWED, *arrivals)) == followed
        assert len(joined(JOIN, *arrivals)) == join


def test_a_message_never_joins_itself_and_a_symmetric_join_emits_both_orders() -> None:
    query = "S//a->x JOIN{x=y, 5} S//a->y"
    assert joined(query, ("S", 1, "<a>v</a>")) == []
    assert joined(query, ("S", 1, "<a>v</a>"), ("S", 1, "<a>v</a>")) == [(1, 2), (2, 1)]


def test_values_join_as_strings_and_order_as_numbers() -> None:
    one, other = ("S", 1, "<a>10</a>"), ("S", 2, "<b>10.0</b>")
    assert joined("S//a->x JOIN{x=y, 5} S//b->y", one, other) == []
    assert joined("S//a->x JOIN{x!=y, 5} S//b->y", one, other) == [(1, 2)]
    assert joined("S//a->x JOIN{x>=y, 5} S//b->y", one, other) == [(1, 2)]
    assert joined("S//a->x JOIN{x<y, 5} S//b->y", one, ("S", 2, "<b>9</b>")) == []
    assert joined("S//a->x JOIN{x>y, 5} S//b->y", one, ("S", 2, "<b>9</b>")) == [(1, 2)]
    assert joined("S//a->x JOIN{x<=y, 5} S//b->y", one, ("S", 2, "<b>1e9</b>")) == []


def test_two_shared_authors_give_one_output() -> None:
    xml = "<p><w>Ann</w><w>Ben</w></p>"
    query = "S/p->x[w->a] FOLLOWED BY{a=b, 5} S/p->y[w->b]"
    assert joined(query, ("S", 1, xml), ("S", 2, xml)) == [(1, 2)]
    assert joined("SELECT <r>{$a}</r> FROM " + query, ("S", 1, xml), ("S", 2, xml)) == [(1, 2), (1, 2)]


def test_predicates_hold_for_one_binding_together() -> None:
    query = "S//o->x[i[k->k][v->v]] JOIN{k=l AND v=w, 5} S//q->y[l->l][w->w]"
    crossed = "<o><i><k>1</k><v>2</v></i><i><k>3</k><v>4</v></i></o>"
    assert joined(query, ("S", 1, crossed), ("S", 2, "<q><l>1</l><w>4</w></q>")) == []
    assert joined(query, ("S", 1, crossed), ("S", 2, "<q><l>3</l><w>4</w></q>")) == [(1, 2)]


def test_a_variable_is_its_whole_pattern() -> None:
    assert joined("S//a->x[b] JOIN{x=y, 5} S//c->y", ("S", 1, "<a>v</a>"), ("S", 1, "<c>v</c>")) == []
    assert joined("S//a->x JOIN{x=y, 5} S//c->y", ("S", 1, "<a>v</a>"), ("S", 1, "<c>v</c>")) == [(1, 2)]


def test_streams() -> None:
    query = "S//a->x JOIN{x=y, 5} T//a->y"
    a = "<a>v</a>"
    assert joined(query, ("S", 1, a), ("T", 1, a), ("U", 1, a)) == [(1, 2)]
    assert joined("//a->x FOLLOWED BY{x=y, 5} //a->y", ("S", 1, a), ("T", 2, a)) == [(1, 2)]


def test_chains_have_the_time_of_the_latest() -> None:
    query = "S//a->x JOIN{x=y, 5} S//b->y FOLLOWED BY{y=z, 2} S//c->z"
    a, b, c = ("S", 6, "<a>v</a>"), ("S", 3, "<b>v</b>"), ("S", 8, "<c>v</c>")
    for order in ((a, b, c), (c, b, a), (b, c, a)):
        assert len(joined(query, *order)) == 1
    assert joined(query, a, b, ("S", 5, "<c>v</c>")) == []
    assert joined(query, a, b, ("S", 8.5, "<c>v</c>")) == []


def test_no_message_twice_in_a_chain() -> None:
    query = "S//a->x JOIN{x=y, 5} S//a->y JOIN{y=z, 5} S//a->z"
    a = ("S", 1, "<a>v</a>")
    assert joined(query, a, a) == []
    assert len(joined(query, a, a, a)) == 6


def test_late_messages() -> None:
    a, b, late = ("S", 1, "<a>v</a>"), ("S", 10, "<b>w</b>"), ("S", 2, "<b>v</b>")
    assert joined(FOLLOWED, a, b, late) == [(1, 3)]
    assert joined(FOLLOWED, a, b, late, lateness=8 * SECOND) == [(1, 3)]
    assert joined(FOLLOWED, a, b, late, lateness=7 * SECOND) == []


def test_one_block() -> None:
    query = "SELECT <n>{string($x)}</n> FROM S//a->x"
    assert joined(query, ("S", 1, "<r><a>1</a><a>2</a></r>"), ("T", 1, "<a/>")) == [(1,), (1,)]
    assert joined("SELECT * FROM S", ("S", 1, "<r/>"), ("T", 1, "<a/>")) == [(1,)]


def payloads(query: str, *messages: str) -> list[str]:
    arrivals = [(n, "S", n * SECOND, xml.encode()) for n, xml in enumerate(messages, 1)]
    return [canonical(one.payload).decode() for one in evaluate({1: parse_correlation(query)}, arrivals)]


def test_output_by_default_is_the_roots_under_a_new_root() -> None:
    query = "S/m/a->x[k->p] FOLLOWED BY{p=q, 5} S/m/b->y[@k->q]"
    made = payloads(query, "<m><a><k>1</k>&lt;</a></m>", '<m xmlns:u="urn:u"><b k="1" u:z="2"/></m>')
    assert made == ['<result><a><k>1</k>&lt;</a><b xmlns:u="urn:u" k="1" u:z="2"></b></result>']
    assert payloads("SELECT * FROM " + query, "<m><a><k>1</k></a></m>", '<m><b k="1"/></m>') == [
        '<result><a><k>1</k></a><b k="1"></b></result>'
    ]


def test_output_of_a_template() -> None:
    query = """SELECT <hit id="{$q}" n="{count($x/k)}"><of>{string($p)}</of>{$y/@z}{"!"}{$x/k[2]}</hit>
        FROM S/m/a->x[k->p] FOLLOWED BY{p=q, 5} S/m/b->y[@k->q]"""
    with pytest.raises(QueryError) as raised:
        parse_correlation(query)
    assert raised.value.code == "late-attribute"
    made = payloads(
        query.replace("{$y/@z}", "{string($y/@z)}"), "<m><a><k>1</k><k>3</k></a></m>", '<m><b k="1" z="2"/></m>'
    )
    assert made == ['<hit id="1" n="2"><of>1</of>2!<k>3</k></hit>']


def test_output_of_variables_and_messages() -> None:
    query = "SELECT $p, $y FROM S//a->x[k->p] FOLLOWED BY{p=y, 5} S AS $y"
    made = payloads(query, "<a><k>1</k></a>", "<!--c--><b><c>1</c></b>")
    assert made == ["<result><k>1</k><b><c>1</c></b></result>"]


def test_derived_streams() -> None:
    queries = {
        "one": parse_correlation("SELECT <p>{$x}</p> FROM S//a->x FOLLOWED BY{x=y, 5} S//b->y PUBLISH P"),
        "two": parse_correlation("S//c->x FOLLOWED BY{x=y, 9} P/p->y"),
    }
    check_streams(queries)
    arrivals = [
        (1, "S", 0, b"<c>v</c>"),
        (2, "S", 1, b"<a>v</a>"),
        (3, "S", 2, b"<b>v</b>"),
    ]
    found = evaluate(queries, arrivals)
    assert [(one.subscription, one.messages) for one in found] == [("one", (2, 3)), ("two", (1, "P(2,3)"))]


def test_cycles_are_refused() -> None:
    def published(reads: str, name: str) -> str:
        return f"{reads}//a->x JOIN{{x=y, 5}} S//b->y PUBLISH {name}"

    check_streams({n: parse_correlation(published(*way)) for n, way in enumerate([("S", "P"), ("P", "Q"), ("P", "R")])})
    with pytest.raises(QueryError, match="would come back"):
        check_streams({n: parse_correlation(published(*way)) for n, way in enumerate([("Q", "P"), ("P", "Q")])})
    with pytest.raises(QueryError, match="would come back"):
        check_streams({1: parse_correlation(published("S", "S"))})
    check_streams({1: parse_correlation("//a->x JOIN{x=y, 5} //b->y PUBLISH P")})
