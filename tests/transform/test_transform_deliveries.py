"""What transforms deliver beside the kernel: empty elements, deep messages, and what may cost too much."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random
from time import thread_time

import pyarrow as pa
import pytest
from transform_queries import random_transform

from canonical_xml import canonical
from support import random_document
from twigcast import Broker
from twigcast.engine import Engine, Failure, Subscription
from twigcast.errors import OptionError, QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.limits import Limits
from twigcast.papers.plans.reference import transformed

HOT = "<hot>{ for $s in //stock where $s/price > 90 return $s/symbol }</hot>"
SLOW = "<hot><!-- x -->{ for $s in //stock where $s/following::price > 90 return $s/symbol }</hot>"
YES = b"<f><stock><symbol>IBM</symbol><price>95</price></stock></f>"
NO = b"<f><stock><symbol>IBM</symbol><price>5</price></stock></f>"


def batch_of(*messages: bytes) -> pa.RecordBatch:
    return pa.record_batch({"id": range(len(messages)), "xml": pa.array(messages, pa.binary())})


def payloads(engine: Engine, *messages: bytes) -> list[dict[object, bytes | None]]:
    """By message and id; the same however one asks."""
    ids = engine.ids.to_pylist()
    batch = batch_of(*messages)
    rows = [
        {ids[one["subscription"]]: one["payload"] for one in row}
        for row in engine.select_batch(batch).column("matches").to_pylist()
    ]
    numbers = engine.match_batch(batch).column("matches").to_pylist()
    for xml, row, found in zip(messages, rows, numbers, strict=True):
        assert {str(s.id): s.payload for s in engine.select(xml)} == {str(id): p for id, p in row.items()}
        assert [ids[n] for n in found] == list(row)
        assert sorted(map(str, engine.match(xml))) == sorted(map(str, row))
    return rows


def test_deliver_empty_gives_the_outer_element(tmp_path: Path) -> None:
    engine = Engine()
    engine.add(HOT, id="plain")
    engine.add(HOT, id="empty", deliver_empty=True)
    engine.add(SLOW, id="slow", deliver_empty=True)
    engine.add("//price", id="filter")
    engine.save(tmp_path / "base")
    opened = Engine.open(tmp_path / "base")
    version = opened.version
    opened.add(HOT.replace("hot", "again"), id="late", deliver_empty=True)
    opened.save_delta(tmp_path / "delta", version)
    third = Engine.open(tmp_path / "base")
    third.apply(tmp_path / "delta")
    full, nothing = b"<hot><symbol>IBM</symbol></hot>", b"<hot><!-- x --></hot>"
    for one in (engine, opened, third):
        late: list[dict[object, bytes]] = [{}, {}, {}]
        if one is not engine:
            late = [{"late": b"<again><symbol>IBM</symbol></again>"}, {"late": b"<again/>"}, {"late": b"<again/>"}]
        assert payloads(one, YES, NO, b"<x/>") == [
            {"plain": full, "empty": full, "slow": nothing, "filter": None} | late[0],
            {"empty": b"<hot/>", "slow": nothing, "filter": None} | late[1],
            {"empty": b"<hot/>", "slow": nothing} | late[2],
        ]
    engine.remove("empty")
    engine.remove("slow")
    assert payloads(engine, NO) == [{"filter": None}]


def test_deliver_empty_is_for_transforms() -> None:
    broker = Broker()
    with pytest.raises(OptionError, match="filter has no"):
        broker.subscribe("//a", deliver_empty=True)
    with pytest.raises(OptionError, match="true or false"):
        broker.subscribe(HOT, deliver_empty="yes")  # type: ignore[arg-type]
    broker.subscribe(HOT, id=1, deliver_empty=True)
    (match,) = broker.publish(NO)
    assert (match.payload, match.complete) == (b"<hot/>", True)


def test_a_message_that_cannot_be_read_gives_nothing() -> None:
    engine = Engine()
    engine.add(HOT, deliver_empty=True)
    result = engine.select_batch(batch_of(b"<a>", YES))
    assert [len(row) for row in result.column("matches").to_pylist()] == [0, 1]
    assert result.column("error").to_pylist()[0] is not None


def deeper(xml: bytes, levels: int = 70) -> bytes:
    return b"<w>" * levels + xml + b"</w>" * levels


def test_deep_messages_are_answered() -> None:
    random = Random("deep transforms")
    queries: list[str] = []
    while len(queries) < 80:
        query = random_transform(random)
        try:
            parse_transform(query)
        except QueryError:
            continue
        queries.append(query)
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries[:60]))
    made = 0
    for turn in range(12):
        inner = random_document(random)
        while b"<?xml" in inner or b"<!DOCTYPE" in inner:
            inner = random_document(random)
        xml = deeper(inner)
        if turn == 4:  # the set of filters is there by now
            engine.add_many(Subscription(i, query) for i, query in enumerate(queries) if i >= 60)
        if turn == 8:
            for i in range(0, 80, 3):
                engine.remove(i)
        live = [i for i in range(80) if i in engine]
        wanted = {i: p for i in live if (p := transformed(parse_transform(queries[i]), xml)) is not None}
        (found,) = payloads(engine, xml)
        assert {i: canonical(p) for i, p in found.items() if p} == {i: canonical(p) for i, p in wanted.items()}
        made += len(wanted)
    assert made > 15


def test_deep_and_shallow_messages_in_one_batch() -> None:
    engine = Engine()
    engine.add(HOT, id="t", deliver_empty=True)
    engine.add("//stock", id="f")
    full = b"<hot><symbol>IBM</symbol></hot>"
    assert payloads(engine, YES, deeper(YES), deeper(NO), deeper(b"<x/>", 1000), NO) == [
        {"t": full, "f": None},
        {"t": full, "f": None},
        {"t": b"<hot/>", "f": None},
        {"t": b"<hot/>"},
        {"t": b"<hot/>", "f": None},
    ]


# On a message of many levels each of these visits far more nodes than there are.
HOSTILE = (
    "<r>{ for $v in //*[following::*[preceding::*[following::x]]] return $v }</r>",
    "<r>{ for $v in //* where $v/ancestor::*[count(following::*) > 9999999] return $v }</r>",
    "<r>{ for $v in //*[not(following::y)] return <x>{ $v//*//*//*//* }</x> }</r>",
    "<r>{ for $v in //*[not(following::y)] return <x>{ $v }{ $v }{ $v }</x> }</r>",
)


@pytest.mark.parametrize("query", HOSTILE)
@pytest.mark.parametrize("shape", ["deep", "both"])
def test_a_hostile_transform_does_not_hang(query: str, shape: str) -> None:
    engine = Engine(limits=Limits(max_query_steps=800_000, max_result_bytes=1 << 20))
    engine.add(query, id="hostile")
    engine.add("<r>{ for $v in /a return <n>{ count($v/a) }</n> }</r>", id="plain")
    engine.add("/a", id="filter")
    message = b"<a>" * 1000 + b"</a>" * 1000
    if shape == "both":
        message = b"<a>" * 60 + b"<a/>" * 3000 + b"</a>" * 60
    failures: list[Failure] = []
    began = thread_time()
    found = {s.id: s for s in engine.select(message, failures=failures)}
    assert thread_time() - began < 10
    assert found["plain"].payload == b"<r><n>1</n></r>" and "filter" in found
    if [one.id for one in failures] != ["hostile"]:  # nothing binds, or what it makes is too long
        assert not failures and ("hostile" not in found or not found["hostile"].complete)
    else:
        assert failures[0].error.code == "query-too-costly"
        result = engine.match_batch(batch_of(message))
        ((failed,),) = result.column("failures").to_pylist()
        assert engine.ids[failed["subscription"]].as_py() == "hostile" and failed["code"] == "query-too-costly"
        assert result.column("error").null_count == 1


def test_what_cannot_be_tried_is_logged_or_listed(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(limits=Limits(max_query_steps=40))
    broker.subscribe("//a[ancestor::*[count(ancestor::*) > 99999]]", id="filter", subscriber="ann")
    broker.subscribe("<r>{ for $v in //a[not(following::b)] return $v }</r>", id="transform")
    broker.subscribe("//a", id="plain")
    message = b"<b>" * 30 + b"<a/>" * 30 + b"</b>" * 30
    failures: list[Failure] = []
    assert [m.subscription for m in broker.publish(message, failures=failures)] == ["plain"]
    assert {one.id: one.error.code for one in failures} == {
        "filter": "query-too-costly",
        "transform": "query-too-costly",
    }
    with caplog.at_level(logging.WARNING, "twigcast.engine"):
        assert broker.engine.match(message) == ["plain"]
    assert len(caplog.records) == 2


def test_what_is_nested_too_deeply_is_refused_at_once() -> None:
    engine = Engine()
    deep = " + ".join(["1"] * 600)
    with pytest.raises(QueryError) as refused:
        engine.add(f"<r>{{ for $v in //a[{deep} = position()] return $v }}</r>")
    assert refused.value.code == "too-deep" and len(engine) == 0


@pytest.mark.parametrize("before", [b"", b"<?p?>", b"<!DOCTYPE a>"])
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("$c/preceding::a = 'vw'", True),
        ("count($c/preceding::*) = 2", True),
        ("$c/preceding::b = 'w'", False),
        ("$c/preceding-sibling::b", False),
        ("$c/following::node()", False),
    ],
)
def test_conditions_of_a_comment_after_the_root(before: bytes, where: str, holds: bool) -> None:
    """They are asked of it, and not of a node at the same place in the root."""
    engine = Engine()
    engine.add("<o>{ for $c in /comment() where " + where + " return $c }</o>", id=1)
    assert bool(engine.match(before + b"<a><b>v</b>w</a><!--x-->")) is holds
