"""Tests of the local name alone (`*[local-name() = 'x']`) are steps of patterns, in every engine."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from lxml import etree

from twigcast import Broker, Engine, QueryError, Subscription
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, match
from twigcast.explain import explain
from twigcast.papers import engine as papers_engine
from twigcast.relational import RelationalEngine

NAMESPACES = {"p": "urn:p", "q": "urn:q", "r": "urn:r"}
PREFIXES = ("", "", "p:", "q:", "r:", "s:")


def document(random: Random, depth: int = 0) -> str:
    """Return a random element, the outermost one with declarations; `s` is a prefix that no query knows."""
    name = random.choice(PREFIXES) + random.choice("abcd")
    attributes = {
        random.choice(PREFIXES) + random.choice("ab"): random.choice("123") for _ in range(random.randrange(3))
    }
    declared = "".join(f' xmlns:{p}="urn:{p}"' for p in "pqrs") if depth == 0 else ""
    default = random.choice(("", "", ' xmlns="urn:p"', ' xmlns="urn:s"', ' xmlns=""'))
    inner = "".join(document(random, depth + 1) for _ in range(random.randrange(4 if depth < 4 else 1)))
    written = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{declared}{default}{written}>{inner or random.choice(('', '1', '2'))}</{name}>"


def step(random: Random) -> str:
    local = random.choice("abcd")
    return random.choice(
        (
            f"*[local-name() = '{local}']",
            f"*[local-name(.) = '{local}']",
            f"*[local-name() = '{local}'][. = '1']",
            f"*[local-name() != '{local}']",
            f"*[local-name() = '{local}' or self::p:a]",
            f"*[local-name() = '{local}' and namespace-uri() = 'urn:s']",
            f"*[name() = 'p:{local}']",
            f"*[@*[local-name() = '{local}'] = 1]",
            f"{random.choice(('p', 'q', 'r'))}:*",
            f"{random.choice(('', 'p:', 'q:'))}{local}",
            "*",
        )
    )


def query(random: Random) -> str:
    path = "".join(random.choice(("/", "//")) + step(random) for _ in range(random.randint(1, 3)))
    return path + random.choice(("", "", "/@*[local-name() = 'a']", "//@*[local-name() = 'b'] = 2", "/@q:*"))


def expected(queries: list[str], xml: str) -> list[int]:
    tree = etree.fromstring(xml)
    found = [etree.XPath(f"boolean({text})", namespaces=NAMESPACES)(tree) for text in queries]
    return [number for number, holds in enumerate(found) if holds]


@pytest.mark.parametrize("seed", range(6))
def test_an_engine_that_changes_agrees_with_libxml2(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    engine = Engine(namespaces=NAMESPACES, **({"cache_bytes": 2_000} if seed % 3 == 2 else {}))
    queries: list[str] = []
    for turn in range(12):
        more = [query(random) for _ in range(random.choice((1, 3, 30)))]
        engine.add_many(Subscription(len(queries) + i, text) for i, text in enumerate(more))
        queries += more
        for _ in range(8):
            xml = document(random)
            assert sorted(engine.match(xml.encode())) == expected(queries, xml), xml
        if turn % 4 == 3:
            engine.save(tmp_path / f"{turn}")
            engine = Engine.open(tmp_path / f"{turn}")


def test_every_engine_agrees_with_libxml2() -> None:
    random = Random(1)
    queries = [query(random) for _ in range(150)]
    subscriptions = [Subscription(i, text, namespaces=NAMESPACES) for i, text in enumerate(queries)]
    relational, kept = RelationalEngine(), []
    for one in subscriptions:
        try:
            relational.check(one)
            kept.append(one)
        except QueryError as error:  # tables cannot express it
            assert error.code == "not-relational", error
    assert len(kept) > 50
    relational.add_many(kept)
    papers = {mode: papers_engine.Engine(mode=mode) for mode in ("nfa", "fsm-per-query")}
    for engine in papers.values():
        engine.add_many(subscriptions)
    scheme = prepare(subscriptions, chunks=2)
    for _ in range(25):
        xml = document(random)
        data, wanted = [xml.encode()], expected(queries, xml)
        for mode, engine in papers.items():
            assert sorted(engine.match(xml.encode())) == wanted, (mode, xml)
        assert sorted(relational.match(xml.encode())) == [one.id for one in kept if one.id in wanted], xml
        report = match(data.copy, lambda _: scheme, Options(batch_bytes=100))
        assert sorted(one.id for one in report.answers) == wanted, xml


def test_a_transform_may_test_local_names() -> None:
    broker = Broker()
    broker.subscribe(
        "<out>{ for $x in //*[local-name() = 'order'] return $x/*[local-name() = 'id'] }</out>", id="transform"
    )
    (found,) = broker.publish(b"<m><o:order xmlns:o='urn:o'><o:id>1</o:id><id>2</id><no/></o:order></m>")
    assert found.payload == b"<out><o:id xmlns:o='urn:o'>1</o:id><id xmlns:o='urn:o'>2</id></out>"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("//*[local-name() = 'order']", "paths"),
        ("/*[local-name() = 'Invoice']/*[local-name() = 'ID'] = 'x'", "paths"),
        ("//*[local-name() = 'order'][@*[local-name() = 'id'] > 5]", "pattern"),
    ],
)
def test_no_evaluator_is_needed(text: str, kind: str) -> None:
    assert kind in str(explain(text)) and "residual" not in str(explain(text))


def test_a_qualified_name_is_looked_for_where_its_local_name_occurs() -> None:
    text = str(explain("//*[name() = 'x:order']"))
    assert "//*:order" in text and "residual" in text


def test_pairs_of_wildcards_are_bounded() -> None:
    """The names that satisfy two wildcards cannot fill the memory: beyond a bound the evaluator takes the query."""
    engine = Engine()
    engine.add_many(Subscription(f"n{i}", "//p:*", namespaces={"p": f"urn:{i}"}) for i in range(256))
    engine.add_many(Subscription(f"l{i}", f"//*[local-name() = 'l{i}']") for i in range(100))
    xml = b"<m xmlns:p='urn:7'><p:l3/><p:l99/><l98/></m>"
    assert sorted(engine.match(xml)) == ["l3", "l98", "l99", "n7"]
    with pytest.raises(QueryError, match="too many"):
        engine.add_many(Subscription(f"m{i}", "//p:*", namespaces={"p": f"urn:{i}"}) for i in range(256, 1000))
    assert sorted(engine.match(xml)) == ["l3", "l98", "l99", "n7"]
