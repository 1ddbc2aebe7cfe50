"""The default strategy: the same results as the brute-force evaluator, and what it does with its state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest
from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast import Broker, Limits
from twigcast.correlate.default import Default, StateWarning
from twigcast.correlate.engine import Correlated, Correlations
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.units import SECOND

EXAMPLES = 1000 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 100
ALL = 1000 * SECOND
Row = tuple[str | int, tuple[str | int, ...], tuple[int, ...], bytes | None]


def parsed(texts: list[str]) -> dict[int, Correlation]:
    made: dict[int, Correlation] = {}
    for number, text in enumerate(texts):
        try:
            made[number] = parse_correlation(text)
        except QueryError as error:
            assert error.code in ("below-a-leaf", "not-a-pattern", "late-attribute", "never-matches"), (
                text,
                str(error),
            )
    assume(made)
    return made


def engine_of(correlations: dict[int, Correlation], lateness: int | None = ALL) -> Correlations:
    engine = Correlations(lateness=lateness)
    for number, correlation in correlations.items():
        engine.add(number, correlation)
    return engine


def rows(results: list[Correlated]) -> list[Row]:
    return [(one.subscription, one.messages, one.nodes, canonical(one.payload)) for one in results]


def run(engine: Correlations, stream: Arrivals) -> list[Row]:
    return [
        row
        for number, source, time, xml in stream
        for row in rows(engine.publish(xml, id=number, time=time, stream=source).results)
    ]


def wanted(correlations: dict[int, Correlation], stream: Arrivals, lateness: int | None = None) -> list[Row]:
    found = evaluate(dict(correlations), stream, lateness=lateness)
    return [(one.subscription, one.messages, one.nodes, canonical(one.payload)) for one in found]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=4), arrivals())
def test_the_results_are_those_of_the_reference(texts: list[str], stream: Arrivals) -> None:
    correlations = parsed(texts)
    expected = wanted(correlations, stream)
    event(f"results: {min(len(expected), 3)}")
    assert sorted(run(engine_of(correlations), stream), key=repr) == sorted(expected, key=repr)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3), arrivals(), st.integers(0, 4))
def test_late_messages_join_with_nothing(texts: list[str], stream: Arrivals, lateness: int) -> None:
    correlations = parsed(texts)
    engine = engine_of(correlations, lateness * SECOND)
    expected = wanted(correlations, stream, lateness * SECOND)
    assert sorted(run(engine, stream), key=repr) == sorted(expected, key=repr)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3), arrivals(), st.integers(0, 6))
def test_a_restored_state_goes_on_as_if_nothing_had_happened(texts: list[str], stream: Arrivals, at: int) -> None:
    correlations = parsed(texts)
    first, second = engine_of(correlations), engine_of(correlations)
    found = run(first, stream[:at])
    assert isinstance(first.backend, Default) and isinstance(second.backend, Default)
    second.backend.restore(first.backend.save())
    found += run(second, stream[at:])
    assert sorted(found, key=repr) == sorted(wanted(correlations, stream), key=repr)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(queries(), min_size=2, max_size=4), arrivals(), st.data())
def test_subscriptions_come_and_go(texts: list[str], stream: Arrivals, data: st.DataObject) -> None:
    """A query sees the messages from its registration on (SEMANTICS 24); others do not notice."""
    correlations = parsed(texts)
    life = {
        number: (data.draw(st.integers(0, 3)), data.draw(st.integers(3, len(stream) + 1))) for number in correlations
    }
    engine = Correlations(lateness=ALL)
    found: list[Row] = []
    for place, message in enumerate(stream):
        for number, (start, end) in life.items():
            if place == start:
                engine.add(number, correlations[number])
            if place == end:
                engine.remove(number)
        found += run(engine, [message])
    expected: list[Row] = []
    for number, (start, end) in life.items():
        expected += wanted({number: correlations[number]}, stream[start:end])
    assert sorted(found, key=repr) == sorted(expected, key=repr)


# -- state


def one(query: str, **options: int) -> Correlations:
    engine = Correlations(**options)  # type: ignore[arg-type]
    engine.add("q", parse_correlation(query), query)
    return engine


def publish(engine: Correlations, xml: str, time: float) -> list[tuple[str | int, ...]]:
    publish.number = getattr(publish, "number", 0) + 1  # type: ignore[attr-defined]
    outcome = engine.publish(
        xml.encode(),
        id=publish.number,
        time=round(time * SECOND),
        stream="S",  # type: ignore[attr-defined]
    )
    return [one.messages for one in outcome.results]


def endless(hot: int = 0) -> Iterator[str]:
    """Every value is new, but for every tenth message if ``hot`` says so."""
    for n in count():
        value = "hot" if hot and n % hot == 0 else f"value {n}"
        yield f"<a><k>{value}</k><n>{n}</n></a>"


QUERY = "S/a->x[k->v] FOLLOWED BY{v=w, 10} S/a->y[k->w]"


def test_the_state_of_an_endless_stream_stays_flat() -> None:
    engine = one(QUERY)
    sizes = []
    for time, xml in zip(range(3000), endless(), strict=False):
        publish(engine, xml, time)
        if time % 500 == 499:
            stats = engine.stats()
            sizes.append((stats["stored"], stats["bytes"], stats["values"]))
    assert max(stored for stored, _, _ in sizes) <= 21  # the window, and as much for late messages
    assert max(size for _, size, _ in sizes) <= 1.05 * min(size for _, size, _ in sizes)
    assert max(values for _, _, values in sizes) <= 21


def test_messages_that_match_no_block_are_not_kept() -> None:
    engine = one(QUERY)
    publish(engine, "<b><k>1</k></b>", 1)
    assert engine.stats()["stored"] == 0 and engine.stats()["messages"] == 1


def test_an_unbounded_window_is_bounded_by_memory_and_the_warning_names_the_query() -> None:
    engine = Correlations(max_bytes=50_000)
    for id, window in (("short", "10"), ("long", "INF")):
        engine.add(id, parse_correlation(f"S/a->x[k->v] FOLLOWED BY{{v=w, {window}}} S/a->y[k->w]"))
    with pytest.warns(StateWarning, match="'long' has the longest window"):
        for time, xml in zip(range(1000), endless(), strict=False):
            publish(engine, xml, time)
    stats = engine.stats()
    assert stats["bytes"] <= 50_000 and stats["evicted"] > 0
    assert stats["stored"] + stats["evicted"] == 1000


def test_a_hot_value_is_avoided_where_another_pair_decides() -> None:
    query = "S/a->x[k->v][n->m] FOLLOWED BY{v=w AND m=p, INF} S/a->y[k->w][n->p]"
    engine = one(query)
    for time in range(200):
        assert publish(engine, f"<a><k>hot</k><n>{time}</n></a>", time) == []
    assert len(publish(engine, "<a><k>hot</k><n>7</n></a>", 1000)) == 1
    # and where it alone decides, every result is there
    engine.add("r", parse_correlation("S/a->x[k->v] FOLLOWED BY{v=w, INF} S/a->y[k->w]"))
    for time in range(2000, 2100):
        found = publish(engine, f"<a><k>hot</k><n>new {time}</n></a>", time)
        assert len(found) == time - 2000


def test_expiry_keeps_what_a_late_message_may_need() -> None:
    engine = one("S/a->x[k->v] JOIN{v=w, 5} S/b->y[k->w]", lateness=10 * SECOND)
    publish(engine, "<a><k>1</k></a>", 0)
    publish(engine, "<a><k>2</k></a>", 15)
    assert len(publish(engine, "<b><k>1</k></b>", 5)) == 1
    assert publish(engine, "<b><k>1</k></b>", 4) == [] and engine.stats()["late"] == 1


def test_a_removed_query_takes_its_windows_along() -> None:
    engine = one(QUERY)
    engine.add("long", parse_correlation("S/a->x[k->v] FOLLOWED BY{v=w, 1000} S/a->y[k->w]"))
    for time, xml in zip(range(100), endless(), strict=False):
        publish(engine, xml, time)
    assert engine.stats()["stored"] == 100
    engine.remove("long")
    publish(engine, "<a><k>x</k></a>", 100)
    assert engine.stats()["stored"] == 21


def test_equal_queries_are_one_whatever_their_windows() -> None:
    engine = Correlations()
    for window in (1, 2, 3):
        engine.add(window, parse_correlation(f"S/a->x[k->v] FOLLOWED BY{{v=w, {window}}} S/a->y[k->w]"))
    assert engine.stats()["queries"] == 1
    engine.publish(b"<a><k>1</k></a>", id=1, time=0, stream="S")
    found = engine.publish(b"<a><k>1</k></a>", id=2, time=2 * SECOND, stream="S").results
    assert [one.subscription for one in found] == [2, 3]


# -- what is refused


def test_what_is_refused() -> None:
    engine = one(QUERY)
    with pytest.raises(OptionError, match="already"):
        engine.add("q", parse_correlation(QUERY))
    with pytest.raises(MessageError):
        publish(engine, "<a><k>1</a>", 1)
    assert engine.stats()["values"] == 0
    engine.add("p", parse_correlation("SELECT $x FROM S/b->x PUBLISH made"))
    with pytest.raises(OptionError, match="publishes"):
        engine.publish(b"<a/>", id=1, time=1, stream="made")
    with pytest.raises(QueryError, match="come back"):
        engine.add("loop", parse_correlation("SELECT $x FROM made/b->x PUBLISH made"))


@pytest.mark.parametrize(
    "select",
    [
        "",
        "SELECT * FROM ",
        "SELECT <pair k='&lt;\"'>of <l>{$x}</l>{$y}<none/></pair> FROM ",
        "SELECT <pair xmlns='urn:d'>{$x}{$y}</pair> FROM ",
        "SELECT <pair>{$x/@k}{$x/b}{string($y)}</pair> FROM ",
        "SELECT <pair>{$y}{$y}</pair> FROM ",
    ],
)
@pytest.mark.parametrize("block", ["//x->x[./@k->k]", "//x->x[./@k->k]/node()->z", "/r->x[.//@k->k]"])
def test_payloads_without_a_tree_are_those_with_one(select: str, block: str) -> None:
    query = f"{select}S{block} FOLLOWED BY{{k = y, INF}} T//y->y"
    left = (
        b"<?xml version='1.0'?><!DOCTYPE r [<!ENTITY e 'an &#38;#38; <i/>'>]><!--before-->"
        b"<r xmlns='urn:a' xmlns:p='urn:p'><x xmlns='' k = '1'  p:q='&lt;'>&e;<b ></b ><![CDATA[<&]]>&#13;<?pi x?></x>"
        b"<p:x k='1'/></r><!--after-->"
    )
    stream = [(1, "S", 1 * SECOND, left), (2, "T", 2 * SECOND, b"<m><y>1</y><y xmlns='urn:y'>1<!--c--></y></m>")]
    correlations = {1: parse_correlation(query)}
    expected = wanted(correlations, stream)
    assert run(engine_of(correlations), stream) == expected
    assert block.startswith("/r") or expected


def queries(*texts: str) -> int:
    """Return how many queries the kernel makes of correlations."""
    backend = Default()
    for number, text in enumerate(texts):
        backend.add(number, parse_correlation(text))
    found: int = backend.stats()["queries"]
    return found


def test_equal_queries_are_one() -> None:
    one = "S//a->x[b->p][c->q] JOIN{p=r AND q=s, 5} T//d->y[e->r][f->s]"
    for other in (
        "S//a AS $u[c AS $v][b AS $w] JOIN{$v=$z AND $r=$w, 5} T//d->d[f->z][e->r]",
        "SELECT * FROM S//a[c->q][b->p] JOIN {q=s AND p=r AND q=s, 5 s} T//d[e->r][f->s]",
        "FROM S//a[b->p and c->q] JOIN{p=r AND q=s, PT5S} T//d->unused[./f->s]/self::node()[e->r]",
        one.replace("5}", "INF}"),
        one + " PUBLISH P",
    ):
        assert queries(one, other) == 1, other
    for other in (
        one.replace("JOIN", "FOLLOWED BY"), one.replace("T//", "S//"), one.replace("q=s", "q!=s"),
        one.replace("//d", "/d"), one.replace("[b->p]", "[b->p][z]"), "SELECT $p FROM " + one,
        "SELECT $q FROM " + one, one.replace("p=r AND q=s", "p=s AND q=r"),
    ):  # fmt: skip
        assert queries(one, other) == 2, other


def test_the_budget_of_bytes_is_shared_out_among_correlations() -> None:
    pair = "S//a->x[@k->i] JOIN{i = j, INF} S//b->y[@k->j]"
    broker = Broker(limits=Limits(max_message_result_bytes=5_000, max_result_bytes=10_000))
    broker.subscribe(pair, id="large")
    broker.subscribe("SELECT <r>{ string($x/@n) }</r> FROM " + pair, id="small")
    for n in range(20):
        broker.publish(b"<a k='1' n='%d'>%b</a>" % (n, 1_000 * b"."), stream="S")
    found = broker.publish(b"<b k='1'/>", id="last", stream="S")
    small = [match for match in found if match.subscription == "small"]
    large = [match for match in found if match.subscription == "large"]
    assert [match.payload for match in small] == [b"<r>%d</r>" % n for n in range(20)]
    # 4 of more than 1,000 bytes each, the oldest first, and the mark
    assert [(match.messages, match.payload is None) for match in large] == [
        *[((n, "last"), False) for n in range(1, 5)],
        (("last",), True),
    ]
    assert large[-1].reason == "budget-bytes"


def test_payloads_take_nodes_of_several_messages_by_paths_and_functions() -> None:
    broker = Broker(namespaces={"p": "urn:p"})
    broker.subscribe(
        "SELECT <r>{ $x/@p:u }{ $y/@p:u }<n>{ count($x/c), sum($y/c) }</n>{ $x/c[2] }{ $y/*[local-name() = 'c'] }</r>"
        " FROM S//a->x[@k->i] JOIN{i = j, INF} S//b->y[@k->j]",
        id="q",
    )
    broker.publish(b"<a xmlns:o='urn:p' k='1' o:u='left'><c>1</c><c xmlns='urn:q'>2</c><c>3</c></a>", stream="S")
    (match,) = broker.publish(b"<b xmlns:o='urn:p' k='1' o:u='right'><c>4</c><c>5</c></b>", stream="S")
    assert canonical(match.payload or b"") == canonical(
        b"<r xmlns:o='urn:p' o:u='left'><n>2 9</n><c xmlns:o='urn:p'>3</c>"
        b"<c xmlns:o='urn:p'>4</c><c xmlns:o='urn:p'>5</c></r>"
    )
