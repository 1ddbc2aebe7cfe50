"""The engine's transforms give what the reference gives, in every way that they can be asked for."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from transform_queries import random_transform

from canonical_xml import canonical
from support import random_document
from twigcast import Broker
from twigcast.engine import Engine, Subscription
from twigcast.errors import OptionError, QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.limits import Limits
from twigcast.papers.plans.reference import transformed

FIGURES = """<figures>{
  for $f in doc("book.xml")//section[@id <= 2]//figure
  where $f/title = "XML processing"
  return <figure n="{ count($f/image) }">{ $f/image }</figure>
}</figures>"""
BOOK = (
    b"<book><section id='1'><figure><title>XML processing</title><image/><image/></figure></section>"
    b"<section id='3'><figure><title>XML processing</title></figure></section></book>"
)


def random_transforms(random: Random, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        query = random_transform(random)
        try:
            parse_transform(query)
        except QueryError:
            continue
        found.append(query)
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_random_transforms(seed: int) -> None:
    random = Random(f"engine transforms {seed}")
    queries = random_transforms(random, 150)
    documents = [random_document(random) for _ in range(40)]
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    # a filter or two beside them, and some that come and go
    engine.add("/*", id="all")
    for i in range(0, 150, 7):
        engine.remove(i)
    for i in range(0, 150, 14):
        engine.add(queries[i], id=i)
    live = [i for i in range(150) if i % 7 or i % 14 == 0]
    batch = pa.record_batch({"id": range(len(documents)), "xml": pa.array(documents, pa.binary())})
    rows = engine.select_batch(batch).column("matches").to_pylist()
    numbers = engine.match_batch(batch).column("matches").to_pylist()
    made = 0
    for xml, row, plain in zip(documents, rows, numbers, strict=True):
        wanted = {i: payload for i in live if (payload := transformed(parse_transform(queries[i]), xml)) is not None}
        found = {s.id: s for s in engine.select(xml)}
        assert found.pop("all").payload is None
        assert set(found) == set(wanted)
        for i, payload in wanted.items():
            given = found[i].payload
            assert given is not None
            assert canonical(given) == canonical(payload), queries[i]
        assert sorted(map(str, [*wanted, "all"])) == sorted(map(str, engine.match(xml)))
        ids = engine.ids.to_pylist()
        assert {str(i): canonical(p) for i, p in wanted.items()} == {
            ids[one["subscription"]]: canonical(one["payload"]) for one in row if one["payload"] is not None
        }
        assert [one["subscription"] for one in row] == plain == sorted(plain)
        made += len(wanted)
    assert made > 100


def test_a_snapshot_and_a_delta_keep_transforms(tmp_path: Path) -> None:
    engine = Engine()
    engine.add(FIGURES, id="f")
    engine.add("//figure", id="x")
    engine.save(tmp_path / "base")
    version = engine.version
    engine.add(FIGURES.replace("figures", "again"), id="g")
    engine.remove("f")
    engine.save_delta(tmp_path / "delta", version)
    opened = Engine.open(tmp_path / "base")
    assert [s.id for s in opened.select(BOOK)] == ["f", "x"]
    opened.apply(tmp_path / "delta")
    assert sorted(s.id for s in opened.select(BOOK)) == ["g", "x"]
    opened.add("//section", id="y")
    assert sorted(opened.match(BOOK)) == ["g", "x", "y"]


def test_the_broker_delivers_payloads() -> None:
    broker = Broker()
    broker.subscribe(FIGURES, id="a", subscriber="ann")
    broker.subscribe(FIGURES, id="b")
    first, second = broker.publish(BOOK, id="m")
    assert (first.subscription, first.subscriber, second.subscription) == ("a", "ann", "b")
    assert first.payload == b'<figures><figure n="2"><image/><image/></figure></figures>'
    assert second.payload is first.payload  # made once
    broker.unsubscribe("a")
    assert [m.subscription for m in broker.publish(BOOK)] == ["b"]
    assert broker.publish(b"<book/>") == []


def test_what_is_wrong_is_said() -> None:
    engine = Engine()
    with pytest.raises(QueryError):
        engine.add("<a>{ for $x in //b return $y }</a>")
    with pytest.raises(OptionError, match="fragments"):
        engine.add(FIGURES, result="fragments")
    assert len(engine) == 0


def test_a_path_that_no_message_has_is_refused() -> None:
    engine = Engine()
    for query in ("for $o in {} return $o", "for $o in //a where $o{} return $o", "for $o in //a return $o{}"):
        with pytest.raises(QueryError, match="more than 1000 steps"):
            engine.add("<r>{ " + query.format("/a" * 5000) + " }</r>")
    engine.add("<r>{ for $o in " + "/a" * 900 + " return $o }</r>")
    assert engine.match(b"<a/>") == []


def test_a_payload_beyond_the_limit_is_left_out() -> None:
    engine = Engine(limits=Limits(max_result_bytes=20))
    engine.add(FIGURES)
    (one,) = engine.select(BOOK)
    assert (one.payload, one.complete) == (None, False)
    batch = pa.record_batch({"id": [1], "xml": [BOOK]})
    ((match,),) = engine.select_batch(batch).column("matches").to_pylist()
    assert (match["payload"], match["complete"]) == (None, False)
