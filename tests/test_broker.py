"""The broker in one process."""

from __future__ import annotations

import doctest
from time import time as clock
from typing import Any

import pytest

import twigcast.broker
from twigcast import Broker, Limits, Match, MessageError, OptionError, QueryError
from twigcast.engine.failures import Failure


def test_the_example_in_the_text_works() -> None:
    assert doctest.testmod(twigcast.broker).failed == 0


def test_subscribe_publish_unsubscribe() -> None:
    broker = Broker(namespaces={"n": "urn:n"})
    assert broker.subscribe("//n:sport", subscriber="ann") == 1
    assert broker.subscribe("/n:news", id="all", subscriber="bob") == "all"
    assert broker.subscribe("//sport") == 2
    xml = b'<news xmlns="urn:n"><uk><sport/></uk></news>'
    assert broker.publish(xml) == [Match(1, 1, "ann"), Match(1, "all", "bob")]
    broker.unsubscribe(1)
    assert broker.publish(xml, id="m") == [Match("m", "all", "bob")]
    assert broker.publish(b"<sport/>") == [Match(3, 2)]
    assert broker.subscribe("//n:sport", id=1) == 1
    assert broker.publish(xml) == [Match(4, 1), Match(4, "all", "bob")], "the old subscriber is forgotten"


def test_namespaces_of_a_subscription_go_before_those_of_the_broker() -> None:
    broker = Broker(namespaces={"p": "urn:one"})
    broker.subscribe("/p:a", id=1)
    broker.subscribe("/p:a", id=2, namespaces={"p": "urn:two"})
    broker.subscribe("/a", id=3, default_namespace="urn:two")
    broker.subscribe("/{urn:one}a", id=4)
    broker.subscribe("/a", id=5)
    assert [m.subscription for m in broker.publish(b'<q:a xmlns:q="urn:one"/>')] == [1, 4]
    assert [m.subscription for m in broker.publish(b'<a xmlns="urn:two"/>')] == [2, 3]
    assert [m.subscription for m in broker.publish(b"<a/>")] == [5]


def test_mistakes_leave_the_broker_as_it_was() -> None:
    broker = Broker(limits=Limits(max_depth=3))
    broker.subscribe("/a", id="x")
    with pytest.raises(OptionError) as duplicate:
        broker.subscribe("/b", id="x", subscriber="eve")
    assert duplicate.value.code == "duplicate-id"
    with pytest.raises(QueryError) as query:
        broker.subscribe("/a[b", id="y")
    assert query.value.span is not None
    with pytest.raises(OptionError) as unknown:
        broker.unsubscribe("y")
    assert unknown.value.code == "unknown-subscription"
    with pytest.raises(MessageError) as deep:
        broker.publish(b"<a><a><a><a/></a></a></a>")
    assert deep.value.code == "limit-depth"
    assert broker.publish(b"<a/>") == [Match(2, "x")]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("/a", "filter (XPath)"),
        ("<x>{ for $a in //a return $a }</x>", "transform"),
        ("S//a->x FOLLOWED BY{x = y, 5 min} T//b->y", "correlation (XSCL) of 2 blocks"),
    ],
)
def test_every_kind_of_query_is_explained(query: str, kind: str) -> None:
    assert f"kind        {kind}" in str(Broker().explain(query))


def test_explain_tells_the_path_and_who_shares_it() -> None:
    broker = Broker()
    broker.subscribe("/a//b")
    broker.subscribe("/a/descendant::b")
    told = broker.explain("a//b")
    assert (told.kind, list(told.linear_paths)) == ("paths", ["/a//b"])
    assert told.sharing is not None and told.sharing.path == 2
    other = broker.explain("/c").sharing
    assert other is not None and other.path == 0
    with pytest.raises(QueryError):
        broker.explain("/a[")
    assert broker.publish(b"<a><b/></a>") != []


@pytest.mark.parametrize(
    "options", [{"lateness": -1}, {"max_ahead": -1}, {"max_state_bytes": -1}, {"max_state_bytes": "1 GB"}]
)
def test_settings_of_correlations_that_mean_nothing(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Broker(**options)


def test_a_message_has_an_id_that_can_be_told() -> None:
    broker = Broker()
    broker.subscribe("S/a->x JOIN{x = y, 10 s} S/b->y", id="q")
    for id in (True, (1, 2), 2**63, "\ud800"):
        with pytest.raises(OptionError, match="id"):
            broker.publish(b"<a>1</a>", id=id, time=1)  # type: ignore[arg-type]
    broker.publish(bytearray(b"<a>1</a>"), id="left", time=1)  # type: ignore[arg-type]
    (match,) = broker.publish(memoryview(b"<b>1</b>"), id=2, time=1)  # type: ignore[arg-type]
    assert match.messages == ("left", 2)


def test_a_query_that_never_matches_is_refused_unless_allowed() -> None:
    broker = Broker(namespaces={"p": "urn:p"})
    for query in ('//p:item[@d > "2026-01-01"]', "//a[0]", "<r>{ for $a in //a[@b = 1][@b = 2] return $a }</r>"):
        with pytest.raises(QueryError, match="never-matches"):
            broker.subscribe(query)
        broker.subscribe(query, allow_never=True)
    # an empty outer element is delivered for every message
    broker.subscribe("<r>{ for $a in //a[@b = 1][@b = 2] return $a }</r>", id="empty", deliver_empty=True)
    assert [match.subscription for match in broker.publish(b"<a b='1'/>")] == ["empty"]


def test_dialects() -> None:
    broker = Broker()
    broker.subscribe("/a/b[//c]", id="w3c")
    broker.subscribe("/a/b[//c]", id="tian", dialect="tian")
    assert [match.subscription for match in broker.publish(b"<a><b/><c/></a>")] == ["w3c"]
    with pytest.raises(OptionError, match="unknown-dialect"):
        broker.subscribe("/a", dialect="tain")


def test_a_subscription_that_keeps_failing_is_paused() -> None:
    broker = Broker(limits=Limits(max_query_steps=1), pause_after=3, pause_within=5)
    broker.subscribe("//a[following-sibling::a]", id="filter", subscriber="ann")
    broker.subscribe("<r>{ for $v in //a[following-sibling::a] return $v }</r>", id="transform", stream="S")
    broker.subscribe("//a", id="plain")
    message = b"<m><a/><a/></m>"
    told: list[list[object]] = []
    for _ in range(5):
        failures: list[Failure] = []
        assert [m.subscription for m in broker.publish(message, stream="S", failures=failures)] == ["plain"]
        told.append([one.id for one in failures])
    assert told == [["filter", "transform"]] * 3 + [[], []]
    assert broker.paused["filter"].startswith("failed on 3 of 3 messages: query-too-costly: ")
    assert set(broker.paused) == {"filter", "transform"}
    with pytest.raises(OptionError, match="duplicate-id"):
        broker.subscribe("//a", id="filter")
    broker.resume("filter")
    broker.unsubscribe("transform")
    assert broker.paused == {}
    failures = []
    for _ in range(2):
        broker.publish(message, failures=failures)
    assert [one.id for one in failures] == ["filter", "filter"] and broker.paused == {}
    with pytest.raises(OptionError, match="not-paused"):
        broker.resume("filter")
    assert Broker(pause_after=0).paused == {}


def test_a_correlation_that_keeps_failing_is_paused() -> None:
    broker = Broker(pause_after=2, pause_within=10, limits=Limits(max_query_steps=30))
    broker.subscribe("SELECT <r>{ $y//* }</r> FROM S//a->x FOLLOWED BY{x = y, INF} S//b->y", id="pair")
    for time in range(6):
        broker.publish(b"<m><a>1</a><b>%b1</b></m>" % (60 * b"<c/>"), time=time, stream="S")
    assert "query-too-costly" in broker.paused["pair"] and len(broker.correlations) == 0
    broker.resume("pair")
    assert broker.publish(b"<m><a>1</a></m>", time=7, stream="S") == []
    assert len(broker.publish(b"<m><b>1</b></m>", time=8, stream="S")) == 1


def test_a_time_far_ahead_of_the_clock_is_refused() -> None:
    broker = Broker(max_ahead=3600)
    broker.subscribe("S/a->x JOIN{x = y, 10 s} S/b->y", id="q")
    now = clock()
    broker.publish(b"<a>1</a>", stream="S", time=now)
    for ahead in (now + 3700, "9999-01-01T00:00:00Z", 10**13):
        with pytest.raises(MessageError, match="time-ahead"):
            broker.publish(b"<a>1</a>", stream="S", time=ahead)
    broker.publish(b"<a>1</a>", stream="S", time="0001-01-01T00:00:00Z")
    assert len(broker.publish(b"<b>1</b>", stream="S", time=now + 5)) == 1, "the later message is not late"
    assert Broker().publish(b"<a/>", time=10**13) == []  # times need not be those of the clock
