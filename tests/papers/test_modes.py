"""Every mode and strategy for predicates gives the answers of ``twigcast.Engine``, whatever is done to the set."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from support import QUERY_PREFIXES, random_document, random_query, subscription
from twigcast import Engine, Limits, MessageError, OptionError, Subscription, papers
from twigcast.engine.snapshot import compact
from twigcast.papers.engine import MODES
from twigcast.papers.predicates import PREDICATES

OTHERS = [mode for mode in MODES if mode != "trie"]


def _subscriptions(random: Random, count: int) -> list[Subscription]:
    names, made = ("a", "b", "c"), []
    for i in range(count):
        first, second, value = random.choice(names), random.choice(names), random.choice(("t", "1", "v"))
        query, result = random.choice(
            [
                (f"//{first}/{second}", "nodes"),
                (f'//{first}[{second} = "{value}"]', "match"),
                (f'//{first}[{second} = {i % 3} and @a != "{value}"]', "fragments"),
                (f"//{first}[contains({second}, '{value}')][{second} < {i}]", "match"),
                (f"count(//{first}) > {i % 5}", "match"),
                (f"<r>{{ for $x in //{first} where $x/{second} = '{value}' return $x/{second} }}</r>", "match"),
            ]
        )
        made.append(Subscription(f"s{i}", query, result=result))
    return made


def _answers(engine: Engine, documents: list[bytes]) -> list[list[object]]:
    """Return what is selected, by id: results come in the order of numbers, which strategies give in other orders."""
    return [sorted(engine.select(xml), key=lambda one: str(one.id)) for xml in documents]


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("mode", MODES)
def test_sets_that_change_are_saved_and_compacted(mode: str, predicates: str, tmp_path: Path) -> None:
    random = Random(f"{mode} {predicates}")
    engines: list[Engine] = [Engine(), papers.Engine(mode=mode, predicates=predicates)]
    documents = [random_document(random) for _ in range(12)]
    subscriptions = _subscriptions(random, 240)
    for start in range(0, 240, 60):
        gone = random.sample([s.id for s in subscriptions[:start]], start // 6)
        for engine in engines:
            for id in gone:
                if id in engine:
                    engine.remove(id)
            engine.add_many(subscriptions[start : start + 60])
        expected, found = (_answers(engine, documents) for engine in engines)
        assert found == expected and any(expected)
        if start == 60:
            compact(engines[1])
        if start == 120:
            engines[1].save(tmp_path / "engine")
            engines[1] = papers.Engine.open(tmp_path / "engine")
            assert (engines[1].mode, engines[1].predicates) == (mode, predicates)  # type: ignore[attr-defined]
    engines[1].save(tmp_path / "engine")
    opened = Engine.open(tmp_path / "engine")
    assert _answers(opened, documents) == _answers(engines[0], documents)


@pytest.mark.parametrize("mode", OTHERS)
def test_random_paths_that_come_and_go(mode: str) -> None:
    random = Random(mode)
    pool = [random_query(random) for _ in range(300)]
    engines = [Engine(namespaces=QUERY_PREFIXES), papers.Engine(namespaces=QUERY_PREFIXES, mode=mode)]
    live: set[int] = set()
    for _ in range(12):
        leaving = {i for i in sorted(live) if random.random() < 0.3}
        coming = [i for i in range(len(pool)) if i not in live and random.random() < 0.4]
        live = live - leaving | set(coming)
        for engine in engines:
            for i in sorted(leaving):
                engine.remove(i)
            engine.add_many(subscription(i, pool[i]) for i in coming)
        for document in [random_document(random) for _ in range(4)]:
            expected, found = (engine.match(document) for engine in engines)
            assert found == expected


@pytest.mark.parametrize("mode", OTHERS)
def test_yfilters_simple_paths(mode: str, shared_data: Path, tmp_path: Path) -> None:
    tests = shared_data / "yfilter-nitf/tests"
    queries = (tests / "test_simple_paths/queries.txt").read_text().splitlines()
    expected = json.loads((tests / "expected_matches.json").read_text())["test_simple_paths"]
    engine = papers.Engine(mode=mode)
    engine.add_many(Subscription(i, query.strip()) for i, query in enumerate(queries, 1))
    engine.save(tmp_path / "engine")
    opened = papers.Engine.open(tmp_path / "engine")
    names = sorted(expected)
    messages = [(tests / "xmldocs" / name).read_bytes() for name in names]
    assert {name: engine.match(xml) for name, xml in zip(names, messages, strict=True)} == expected
    result = opened.match_batch(pa.record_batch({"id": names, "xml": messages}))
    ids = opened.ids
    found = {row["id"]: ids.take(pa.array(row["matches"], pa.uint32())).to_pylist() for row in result.to_pylist()}
    assert found == expected


@pytest.mark.parametrize("mode", OTHERS)
def test_deep_and_broken_messages(mode: str) -> None:
    engine = papers.Engine(mode=mode, limits=Limits(max_depth=200_000))
    engine.add_many(Subscription(i, q) for i, q in enumerate(["//a", "/a/b", "//b/@a", "//a//b//a"]))
    assert engine.match(b"<a><b>" * 20_000 + b"</b></a>" * 20_000) == [0, 1, 3]
    with pytest.raises(MessageError):
        engine.match(b"<a><b></a>")
    assert engine.match(b"<a><b a='1'/></a>") == [0, 1, 2]


def test_options_that_are_not_there() -> None:
    for options, code in (({"mode": "dfa"}, "unknown-mode"), ({"predicates": "late"}, "unknown-predicates")):
        with pytest.raises(OptionError) as caught:
            papers.Engine(**options)  # type: ignore[arg-type]
        assert caught.value.code == code
    with pytest.raises(OptionError) as caught:
        papers.Broker(strategy="best")
    assert caught.value.code == "unknown-strategy"
