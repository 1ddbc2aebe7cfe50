"""Messages with many equal, nested and recursive elements, and many queries: all evaluators agree with libxml2."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from lxml import etree

from twigcast import Engine, Limits, Subscription

sys.path.append(str(Path(__file__).parent / "lang"))

from filters_check import engine_with

from repeated_items import catalogue, item

FUELS = (16, 1, 0)
"""By search and columns; by lists where a message has more than 64 nodes; by lists alone."""

SHAPES = (
    '/cat/item[name = "n{n}"][price > {p}]',
    '/cat/item[name = "n{n}" and price > {p} and price <= {q}]',
    '/cat/item[@k = "{k}"][price > {p}][number < {q}]',
    '//item[name = "n{n}"][price > {p}]',
    '//item[.//name = "n{n}"][.//price > {p}]',
    '//item[.//name = "n{n}"][not(.//price > {p})]',
    '//item//item[name = "n{n}"][@k != "{k}"]',
    '/cat/*[name = "n{n}"][* > {p}]',
    '/cat/item[* = "n{n}"][price < {p}]',
    '/cat/item[name/text() = "n{n}"][price > {p}]',
    "/cat/item[number = {n}][price > {p}]",
    "//item[price = {p}][@k >= {k}]",
    "//item[price > {p} and price < {q}]",
    "/cat/item[price > {p}]",
    "/cat/item[price > {p} and number < {n}]",
    "/cat/item[price < {p} or number > 25]",
    '//item[contains(text, "w{k}")]',
    '//item[contains(text, "w{k}")][price > {p}]',
    '//item[starts-with(text, "w{k}")][@k < {k}]',
    '//item[text[contains(., "w{k} w")]][name != "n{n}"]',
    '/cat/item[(name = "n{n}" or @k = "{k}") and price > {p}]',
    '//item[name = "n{n}" or not(price > {p})]',
    '/cat/item[not(name = "n{n}")][price > {p}]',
    '/cat/item[{i}][name = "n{n}"]',
    '//item[name = "n{n}"][{k} + 1]',
    '//item[name = "n{n}"][last()][price > {p}]',
    "/cat/item[price > {p}][{i}]",
    "/cat/item[last()][number > {n}]",
    '//item[name = "n{n}"][count(item) > {k}]',
    '//item[name = "n{n}"][count(.//price[. > {p}]) < 3]',
    '//item[name = "n{n}"][string-length(text) > {p}]',
    '//item[normalize-space(name) = "n{n}"][price > {p}]',
    '/cat[item/name = "n{n}"]/item[@k = "{k}"]',
    '/cat[item/name = "n{n}"][item/price > {p}]',
    '/cat[.//name = "n{n}"][not(.//price > {p} + 49)]',
    '/cat[item/@k = "{k}"]/item[name = "n{n}"][price > {p}]',
    '/cat/item[item[name = "n{n}"][price > {p}]]/name',
    '//item[item/item[name = "n{n}"]/price > {p}][@k]',
    '/cat/item/name = "n{n}" and /cat/item/price > {p}',
    '//item/name = "n{n}" or //item/item/price < {q} - 48',
    'not(//item[name = "n{n}"][price > {p}])',
    '//a[b = "{k}"][.//c > {p}]',
    '//a//a[@k = "{k}"]/b[. > {k}]',
    '//a[a/b = "{k}" and not(c > {p})]',
    '/cat//a[.//b = "{k}"]//c[. < {p}]',
    "//a[.//c > {p}][.//c < {p}]",
)


def _query(source: random.Random) -> str:
    p = source.randrange(50)
    values = {
        "n": source.randrange(40),
        "p": p,
        "q": p + source.randrange(10),
        "k": source.randrange(4),
        "i": source.randrange(1, 9),
    }
    return source.choice(SHAPES).format(**values)


@pytest.mark.parametrize("subscriptions", [60, 1_500])
@pytest.mark.parametrize("seed", range(3))
def test_every_evaluator_agrees_with_libxml2(subscriptions: int, seed: int) -> None:
    """Few subscriptions are checked one by one, many by columns; messages come alone and in batches."""
    source = random.Random(f"{seed} {subscriptions}")
    queries = sorted({_query(source) for _ in range(subscriptions)})
    compiled = [etree.XPath(f"boolean({query})") for query in queries]
    engines = [Engine(), *(engine_with(fuel) for fuel in FUELS)]
    for engine in engines:
        engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    messages = [catalogue(source, items) for items in (1, 3, 12, 60)]
    expected = []
    for message in messages:
        tree = etree.ElementTree(etree.fromstring(message))
        expected.append([i for i, query in enumerate(compiled) if query(tree)])
    for place, engine in enumerate(engines):
        for message, right in zip(messages, expected, strict=True):
            wrong = set(engine.match(message)) ^ set(right)
            assert not wrong, (place, sorted(queries[i] for i in wrong)[:5], message)
        # as a group, what large buckets ask is answered for all of them together
        batch = pa.record_batch({"id": range(len(messages)), "xml": pa.array(messages, pa.binary())})
        assert engine.match_batch(batch).column("matches").to_pylist() == expected, place


@pytest.mark.parametrize("fuel", FUELS)
def test_selected_nodes_agree_with_libxml2(fuel: int) -> None:
    source = random.Random(fuel)
    paths = [query for query in {_query(source) for _ in range(400)} if query.startswith("/") and " or //" not in query]
    paths = [
        f"{query}/descendant-or-self::*" if source.random() < 0.2 else query for query in paths if " and /" not in query
    ]
    engine = engine_with(fuel)
    engine.add_many(Subscription(i, path, result="fragments") for i, path in enumerate(paths))
    for items in (2, 30, 300):
        message = catalogue(source, items)
        tree = etree.ElementTree(etree.fromstring(message))
        found = {one.id: one.fragments for one in engine.select(message)}
        for i, path in enumerate(paths):
            right = [etree.tostring(node, with_tail=False) for node in tree.xpath(path)]
            assert (found.get(i) or []) == right, (path, message)


def test_a_very_deep_message_is_decided_in_bounded_time_and_stack() -> None:
    """20,000 elements in each other, and subscriptions that ask for what is anywhere below."""
    queries = [f'//a[.//b = "{k}"][.//c > {k}]' for k in range(100)] + [
        f'//a[.//b = "{k}"][c < {k}]' for k in range(100)
    ]
    engine = Engine(limits=Limits(max_depth=50_000))
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    depth = 20_000
    message = b"<a><b>7</b>" * depth + b"<c>50</c>" + b"</a>" * depth
    assert engine.match(message) == [7]


def test_many_items_are_decided_like_few() -> None:
    """One message of 2,000 items satisfies what its parts do, where no subscription asks for two items."""
    source = random.Random(5)
    queries = sorted({_query(source) for _ in range(3_000)})
    local = [
        q
        for q in queries
        if not any(part in q for part in ("last()", "/cat[", " and /", "not(//", "][1", "+ 1]", " or //"))
    ]
    local = [q for q in local if not any(f"[{i}]" in q for i in range(10))]
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(local))
    items = [item(source, 2) for _ in range(2_000)]
    whole = engine.match(f"<cat>{''.join(items)}</cat>".encode())
    parts = {i for one in items for i in engine.match(f"<cat>{one}</cat>".encode())}
    assert whole == sorted(parts)
