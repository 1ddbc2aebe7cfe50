"""Every hostile subscription beside those of others: it is refused, or it harms nobody but itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from hostile_messages import GOOD
from hostile_subscriptions import SUBSCRIPTIONS, HostileSubscription
from ways_in import IDS
from ways_in import SUBSCRIPTIONS as OTHERS

from twigcast import Broker, Engine, QueryError, TwigcastError

SECONDS = 30


@pytest.mark.parametrize("row", SUBSCRIPTIONS, ids=lambda row: row.name)
@pytest.mark.parametrize("way", ["broker", "match", "match_batches", "select_batches"])
def test_others_get_their_matches(row: HostileSubscription, way: str) -> None:
    messages = [*GOOD.values(), row.message]
    query = row.make()
    began = time.process_time()
    subscribe, publish = WAYS[way]()
    try:
        subscribe(query, row.result)
        assert not row.codes, "it was accepted"
    except QueryError as error:
        assert error.code in row.codes, error
    for xml in messages[: len(GOOD)]:
        assert publish(xml) - {"hostile"} == IDS
    publish(messages[-1])
    assert time.process_time() - began < SECONDS


Subscribe = Callable[[str, str], object]
Publish = Callable[[bytes], set[object]]


def _broker() -> tuple[Subscribe, Publish]:
    broker = Broker()
    for s in OTHERS:
        broker.subscribe(s.query, id=s.id, result=s.result)

    def publish(xml: bytes) -> set[object]:
        return {one.subscription for one in broker.publish(xml, failures=[])}

    return lambda query, result: broker.subscribe(query, id="hostile", result=result), publish


def _engine(ask: str) -> tuple[Subscribe, Publish]:
    engine = Engine()
    engine.add_many(OTHERS)

    def publish(xml: bytes) -> set[object]:
        if ask == "match":
            return set(engine.match(xml, failures=[]))
        batch = pa.record_batch({"id": [1], "xml": pa.array([xml], pa.binary())})
        found = [one for part in getattr(engine, ask)(batch) for row in part.column("matches") for one in row.as_py()]
        return {engine.ids[one if isinstance(one, int) else one["subscription"]].as_py() for one in found}

    return lambda query, result: engine.add(query, id="hostile", result=result), publish


WAYS: dict[str, Callable[[], tuple[Subscribe, Publish]]] = {
    "broker": _broker,
    "match": lambda: _engine("match"),
    "match_batches": lambda: _engine("match_batches"),
    "select_batches": lambda: _engine("select_batches"),
}


def test_every_refusal_has_a_code() -> None:
    for row in SUBSCRIPTIONS:
        if row.codes:
            with pytest.raises(TwigcastError):
                Engine().add(row.make(), id=1)
