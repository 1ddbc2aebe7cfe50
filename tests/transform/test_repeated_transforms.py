"""Transforms and blocks of correlations on messages with many equal, nested and recursive elements."""

from __future__ import annotations

from random import Random

import pytest

from canonical_xml import canonical
from correlate_reference import evaluate
from repeated_items import catalogue
from twigcast import Engine, Subscription
from twigcast.correlate.engine import Correlations
from twigcast.errors import QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.lang.xscl import parse_correlation
from twigcast.papers.plans.reference import transformed

BINDINGS = (
    "/cat/item",
    "/cat/item",
    "//item",
    "/cat",
    "/cat/*",
    "//a",
    "//a//a",
    "//item[name = 'n{n}']/price",
    "/cat/item[@k = '{k}']//item",
    "//item[price > {p}]/item",
    "/cat/item[{i}]",
    "//item[last()]",
    "//item[name = 'n{n}'][{k} + 1]",
    "//item[{k} + 1][name = 'n{n}']",
    "//item[{k} + 1][price > {p}]/item[2]",
    "//a[b = '{k}']/a[c > {p}]",
    "//item/name[. = 'n{n}']",
    "//item/@k[. = '{k}']",
    "//price[. > {p}]",
    "//item[item]/item[name = 'n{n}']/number",
)
CONDITIONS = (
    "$i/name = 'n{n}'",
    "$i/name = 'n{n}' and $i/price > {p}",
    "$i/name = 'n{n}' and $i/price >= {p} and $i/price < {q}",
    "$i/name = 'n{n}' and $i/price != {p}",
    "$i/@k = '{k}' and $i/number <= {n}",
    "$i/@k = '{k}' and $i//price > {p}",
    "$i//name = 'n{n}' and $i//price < {p}",
    "$i//name = 'n{n}' and $i//name != 'n{k}'",
    "$i//name = 'n{n}' and contains($i//text, 'w{k} w')",
    "$i//@k = '{k}' and contains($i//*, 'w{k} w')",
    "$i//@k = '{k}' and starts-with($i//text, 'w{k}')",
    "$i//b = '{k}' and $i//c > {p}",
    "$i//b = '{k}' and $i//c != {p} and $i//a",
    "$i//b = '{k}' and $i//* > {p}",
    "$i/name = 'n{n}' and not($i/price > {p})",
    "$i/name = 'n{n}' and ($i/price > {p} or $i/@k = '{k}')",
    "$i//@k = '{k}' and not($i//price > {p})",
    "$i//number = {n} and $i/item[name]",
    "$i/price > {p}",
    "$i/price > {p} and $i/number < {n}",
    "contains($i/text, 'w{k}') and $i/price > {p}",
    "$i/item/name = 'n{n}' and $i/item/price > {p}",
    "$i/* = 'n{n}' and $i/* > {p}",
    "$i = 'n{n}' or $i > {p}",
    "$i > {p}",
    "$i != '{k}'",
)
RETURNS = ("$i/name", "$i", "$i/price[. > {p}]", "$i//item[@k = '{k}']/name", "<n>{{ count($i//price) }}</n>")
BLOCKS = (
    "SELECT * FROM S/cat/item->i[./name->n = 'n{n}'][./price->p > {p}]",
    "SELECT * FROM S//item->i[./name = 'n{n}'][.//price->p > {p}]",
    "SELECT * FROM S//item->i[.//@k->k = '{k}'][./item->j[./price->p < {p}]]",
    "SELECT * FROM S//item[./name = 'n{n}']/item->i[./price->p != {p}]",
    "SELECT * FROM S//a->i[./b->b = '{k}'][.//c->c > {p}]",
    "SELECT * FROM S/cat->c[.//name->n = 'n{n}'][.//number->m > {p}]",
)


def _filled(source: Random, text: str) -> str:
    p = source.randrange(50)
    return text.format(
        n=source.randrange(40), p=p, q=p + source.randrange(10), k=source.randrange(4), i=source.randrange(1, 9)
    )


def _transforms(source: Random, count: int) -> list[str]:
    found: set[str] = set()
    while len(found) < count:
        condition = source.choice((*CONDITIONS, ""))
        where = f"where {condition}" if condition else ""
        binding, result = source.choice(BINDINGS), source.choice(RETURNS)
        query = _filled(source, f"<o>{{{{ for $i in {binding} {where} return {result} }}}}</o>")
        try:
            parse_transform(query)
        except QueryError:  # nothing is below an attribute
            continue
        found.add(query)
    return sorted(found)


@pytest.mark.parametrize("seed", range(3))
def test_transforms_give_what_the_reference_gives(seed: int) -> None:
    source = Random(f"repeated transforms {seed}")
    queries = _transforms(source, 250)
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    parsed = [parse_transform(query) for query in queries]
    made = 0
    for items in (1, 12, 50):
        xml = catalogue(source, items)
        found = {one.id: one.payload for one in engine.select(xml)}
        assert sorted(found) == sorted(engine.match(xml))
        for i, query in enumerate(parsed):
            wanted = transformed(query, xml)
            given = found.get(i)
            assert (given is None) == (wanted is None), (queries[i], xml)
            if wanted is not None and given is not None:
                assert canonical(given) == canonical(wanted), (queries[i], xml)
                made += 1
        for i in range(0, len(queries), 5):  # what leads to classes changes
            engine.remove(i)
            engine.add(queries[i], id=i)
    assert made > 50


@pytest.mark.parametrize("seed", range(3))
def test_blocks_give_what_the_reference_gives(seed: int) -> None:
    source = Random(f"repeated blocks {seed}")
    queries = sorted({_filled(source, source.choice(BLOCKS)) for _ in range(60)})
    parsed = {i: parse_correlation(query) for i, query in enumerate(queries)}
    engine = Correlations()
    for i, correlation in parsed.items():
        engine.add(i, correlation)
    arrivals = [(n, "S", n * 1_000_000, catalogue(source, items)) for n, items in enumerate((0, 2, 12, 25))]
    right = sorted((one.subscription, one.messages, one.nodes) for one in evaluate(parsed, arrivals))
    found = [
        (one.subscription, one.messages, one.nodes)
        for id, stream, time, xml in arrivals
        for one in engine.publish(xml, id=id, time=time, stream=stream).results
    ]
    assert sorted(found) == right
    assert len(right) > 20
