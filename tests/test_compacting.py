"""Names and constants of removed subscriptions are given back, and nothing else changes by it."""

from __future__ import annotations

from random import Random

import pytest

import twigcast.engine.engine
from support import random_document
from twigcast import Broker, Engine, Subscription
from twigcast.engine.snapshot import compact


def _subscriptions(random: Random, count: int) -> list[Subscription]:
    """Subscriptions of every kind that shares names or constants with others."""
    names, made = ("a", "b", "c", "a-rather-long-name"), []
    for i in range(count):
        first, second, value = random.choice(names), random.choice(names), random.choice(("t", "1", "v", "w"))
        query, result = random.choice(
            [
                (f"//{first}/{second}", "match"),
                (f"//{first}//@{second}", "nodes"),
                (f'//{first}[{second} = "{value}"]', "match"),
                (f'//{first}[{second} = {i % 3} and @a != "{value}"]', "fragments"),
                (f"//{first}[contains({second}, '{value}')][{second} < {i}]", "match"),
                (f"count(//{first}) > {i % 5}", "match"),
                (f"<r>{{ for $x in //{first} where $x/{second} = '{value}' return $x/{second} }}</r>", "match"),
            ]
        )
        made.append(Subscription(f"s{i}", query, result=result))
    return made


def test_answers_stay_the_same() -> None:
    random = Random(5)
    engine = Engine()
    engine.add_many(_subscriptions(random, 300))
    documents = [random_document(random) for _ in range(30)]
    for id in random.sample([f"s{i}" for i in range(300)], 200):
        engine.remove(id)
    before = [engine.select(xml) for xml in documents]
    version = engine.version
    compact(engine)
    assert [engine.select(xml) for xml in documents] == before and any(before)
    # and it goes on: other names, known names, removals
    engine.add("//new[old = 'gone']", id="new")
    engine.add_many(Subscription(f"t{s.id}", s.query, result=s.result) for s in _subscriptions(random, 100))
    assert engine.match(b"<new><old>gone</old></new>") == ["new"] and engine.version == version + 101
    plain = Engine()
    plain.add_many(_subscriptions(Random(1), 50))
    for s in _subscriptions(Random(1), 50):
        engine.add(s.query, id=f"u{s.id}", result=s.result)
    found = [{one.id for one in engine.select(xml) if str(one.id).startswith("us")} for xml in documents]
    assert found == [{f"u{one.id}" for one in plain.select(xml)} for xml in documents]


def test_a_correlation_that_comes_back_after_compacting_joins() -> None:
    query = "S//a->x FOLLOWED BY{x = y, 5 s} S//b->y"
    broker = Broker()
    assert isinstance(broker.engine, Engine)
    broker.subscribe(query, id="first")
    broker.unsubscribe("first")
    compact(broker.engine)
    broker.subscribe(query, id="again")
    broker.publish(b"<a>1</a>", stream="S", time=1)
    assert broker.publish(b"<b>1</b>", stream="S", time=2).subscriptions == ["again"]


def test_a_compacted_set_can_be_saved_and_opened(tmp_path: object) -> None:
    engine = Engine()
    engine.add_many([Subscription(i, f'/root/name{i}[value = "text {i}"]') for i in range(100)])
    for i in range(1, 100):
        engine.remove(i)
    compact(engine)
    engine.add("/root/other", id="other")
    path = f"{tmp_path}/set.snapshot"
    engine.save(path)
    xml = b"<root><name0><value>text 0</value></name0><name1><value>text 1</value></name1><other/></root>"
    assert Engine.open(path).match(xml) == engine.match(xml) == [0, "other"]


def test_coming_and_going_takes_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twigcast.engine.engine, "COMPACT_AFTER", 500)
    engine = Engine()
    engine.add("//kept[value = 'kept']", id="kept")
    for i in range(0, 5_000, 100):
        ids = range(i, i + 100)
        engine.add_many([Subscription(n, f'/root/name{n}[value = "text {n}"]') for n in ids])
        assert engine.match(f"<root><name{i}><value>text {i}</value></name{i}></root>".encode()) == [i]
        for n in ids:
            engine.remove(n)
    assert engine.match(b"<kept><value>kept</value></kept>") == ["kept"] and len(engine) == 1
    # New names and constants get the numbers that removed ones had; symbols of names are even, those of strings
    # are multiples of four.
    assert engine.kernel.symbol(False, "", "new") < 2 * 1_000
    assert engine.kernel.value_symbol("new") & 0x3FFF_FFFF < 4 * 1_000
