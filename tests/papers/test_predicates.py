"""The strategies for predicates: plans differ as YFilter's do, answers do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree

from twigcast import Subscription
from twigcast.lang.compile import compile_query
from twigcast.papers import Broker, Engine
from twigcast.papers.predicates import PREDICATES
from twigcast.plan.planner import plan

SHAPES = [
    "/a/b[c = '{0}']",
    "/a/b[c = '{0}']/d",
    "//b[@x = {0}]/d",
    "/a[b/c = '{0}'][b/d = {1}]",
    "/a[@x = '{0}'][.//d][b/@x = '{1}']",
    "//b[c = '{0}' or d = '{1}']",
    "//b[c = '{0}' and (d = {1} or @x = '{1}')]",
    "/a[b = {0}]/b[c > {1}]",
    "//b[not(c = '{0}')][d = '{1}']",
    "/a[string(b/c) = '{0}']/b",
    "//b[contains(c, '{0}')]/d[. = {1}]",
    "/a/b[c = {0}][c = '{1}'][d = {0}][@x = {1}]",
    "/a[b/c = '{0}']/b/following-sibling::b[d = '{1}']",
]


def queries(count: int, source: random.Random) -> list[str]:
    return [source.choice(SHAPES).format(source.randint(0, 3), source.randint(0, 3)) for _ in range(count)]


def message(source: random.Random) -> bytes:
    def value() -> str:
        return source.choice(["", "0", "1", "2", "3", " 1 ", "2.0"])

    def child() -> str:
        parts = [f"<{name}>{value()}</{name}>" for name in source.choices("cd", k=source.randint(0, 3))]
        return f'<b x="{value()}">{"".join(parts)}{value()}</b>'

    return f'<a x="{value()}">{"".join(child() for _ in range(source.randint(0, 3)))}</a>'.encode()


@pytest.mark.parametrize("predicates", PREDICATES)
def test_many_constants_of_few_shapes_as_they_come_and_go(predicates: str, tmp_path: Path) -> None:
    source = random.Random(11)
    engine = Engine(predicates=predicates)
    live = dict(enumerate(queries(600, source)))
    engine.add_many(Subscription(i, query) for i, query in live.items())
    oracles = {query: etree.XPath(f"boolean({query})") for query in live.values()}
    for round in range(60):
        if round in (20, 40):
            engine.save(tmp_path / "snapshot")
            engine = Engine.open(tmp_path / "snapshot")
            assert engine.predicates == predicates
        for id in source.sample(sorted(live), 20):
            engine.remove(id)
            del live[id]
        for id, query in enumerate(queries(20, source), 1000 * (round + 1)):
            engine.add(query, id=id)
            live[id] = query
            oracles.setdefault(query, etree.XPath(f"boolean({query})"))
        xml = message(source)
        tree = etree.ElementTree(etree.fromstring(xml))
        assert set(engine.match(xml)) == {id for id, query in live.items() if oracles[query](tree)}


@pytest.mark.parametrize("predicates", PREDICATES)
def test_results_do_not_depend_on_it(predicates: str) -> None:
    broker = Broker(predicates=predicates)
    for symbol in ("IBM", "SAP", "IBM"):
        broker.subscribe(f'/stock[symbol = "{symbol}"]/price', result="fragments")
    broker.subscribe('/stock/symbol[. = "IBM"]', result="nodes")
    found = broker.publish(b"<stock><symbol>IBM</symbol><price>7</price></stock>")
    assert [(m.subscription, m.fragments, m.nodes and len(m.nodes)) for m in found] == [
        (1, [b"<price>7</price>"], None),
        (3, [b"<price>7</price>"], None),
        (4, None, 1),
    ]


@pytest.mark.parametrize("query", ["/a/b[c = '1']", "/a/b[c = '1']/d", "/a[b = 1][c]", "/a[b = '1' or c = 2]/d"])
def test_structure_leads_unless_shared(query: str) -> None:
    compiled = compile_query(query)
    shared, inline, postponed = (plan(compiled, one) for one in PREDICATES.values())
    assert any(path.slot for path in shared.paths)
    assert postponed.program is not None and not postponed.exact
    assert not any(path.slot for path in postponed.paths + postponed.guards)
    assert inline.program is not None and not inline.exact
    ways = [path for path in inline.paths if path not in inline.guards]
    assert ways == list(postponed.paths)
    assert any(path.slot for path in inline.guards) == (" or " not in query)


def test_mere_structure_is_the_same_for_all() -> None:
    for query in ("/a/b//c", "/a[b][c]", "//a[b]/c | /d"):
        assert len({plan(compile_query(query), one) for one in PREDICATES.values()}) == 1
