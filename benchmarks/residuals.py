"""Queries beyond tree patterns: many of them on messages that pass their patterns, and how fast they come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import NamedTuple

from lxml import etree

from benchmarks import corpora
from benchmarks.filtering import any_order, warm
from benchmarks.timing import Chunk, Line, chunks, interleaved, reader, seconds
from twigcast import Engine

# Axes that no pattern has.
AXES = ("following", "preceding", "following-sibling", "preceding-sibling")


def _names(document: bytes) -> frozenset[str]:
    return frozenset(str(one.tag) for one in etree.fromstring(document).iter(etree.Element))


class Query(NamedTuple):
    """An XPath expression, and the names that a message must have to get as far as its evaluation."""

    text: str
    names: frozenset[str]


def _queries(count: int, names: list[str]) -> list[Query]:
    """Return distinct queries with such an axis between two elements."""
    random = Random("residuals")
    found: dict[str, frozenset[str]] = {}
    while len(found) < count:
        a, b, c = (random.choice(names) for _ in range(3))
        axis = random.choice(AXES)
        value = random.randrange(1000)
        both = frozenset((a, b))
        text, needs = random.choice(
            (
                (f"//{a}[{axis}::{b}]", both),
                (f"//{a}[{axis}::{b} != '{value}']", both),
                (f"//{a}/{axis}::{b}[{c}]", both | {c}),
                (f"count(//{a}[{axis}::{b}]) > {value % 5}", both),
                (f"//{a}[not({axis}::{b}/{c} = '{value}')]", frozenset((a,))),
            )
        )
        found[text] = needs
    return [Query(*one) for one in found.items()]


def many(quick: bool) -> Iterator[Line]:
    """Distinct residual subscriptions, against libxml2 for those that get as far as their evaluation."""
    documents = corpora.nitf_documents()[: 20 if quick else 100]
    parts = chunks(documents)
    present = [_names(document) for document in documents]
    counts = Counter(name for some in present for name in some)
    names = sorted(name for name, count in counts.items() if 3 * count >= len(documents))
    pairs = [Query(f"//{a} = //{b}", frozenset((a, b))) for a in names for b in names if a < b]
    pairs += [Query(f"//{a}/* = //{b}/@*", frozenset((a, b))) for a in names for b in names]
    sets = (("mixed", _queries(200 if quick else 1_000, names), 20), ("path = path", pairs[:2_000], None))
    for name, queries, bar in sets:
        engine = corpora.engine([query.text for query in queries])
        each = warm(engine, parts)
        compiled = [etree.XPath(f"boolean({query.text})", smart_strings=False) for query in queries]
        tests = {
            document: [test for test, query in zip(compiled, queries, strict=True) if query.names <= has]
            for document, has in zip(documents, present, strict=True)
        }

        def loop(chunk: Chunk, tests: dict[bytes, list[etree.XPath]] = tests) -> None:
            for document in chunk.documents:
                tree = etree.fromstring(document).getroottree()
                for test in tests[document]:
                    test(tree)

        took = interleaved({"lxml": loop, "ours": any_order(engine), "parse": reader}, parts, repeat=2)
        tried = sum(map(len, tests.values())) / len(documents)
        note = f"{tried:,.0f} tried, {each:,.0f} matches, {took['ours'] / len(documents) * 1e3:.2f} ms a message"
        note += f" ({took['ours'] / took['parse']:.1f} parses)"
        times = took["lxml"] / took["ours"]
        yield Line("residuals", f"{len(queries):,} {name}, over libxml2", times, "times", bar, "higher", note)


def churn(quick: bool) -> Iterator[Line]:
    """Subscriptions of known shapes with new constants that come and go, residual ones against tree patterns."""
    count = 500 if quick else 2_000
    shapes = {
        "patterns": ["/nitf[body = '{}']/head[title = '{}']", "//p[em = '{}'][@id > {}]"],
        "residuals": ["//p[following-sibling::p = '{}']", "//p[preceding::em = '{}'][@id > {}]"],
    }
    rates = {}
    for name, texts in shapes.items():
        engine = Engine()
        for n in range(100):
            engine.add(texts[n % 2].format(n, n), id=-n - 1)

        def run(first: int, engine: Engine = engine, texts: list[str] = texts) -> None:
            for n in range(count):
                engine.add(texts[n % 2].format(first + n, first + n), id=n)
            for n in range(count):
                engine.remove(n)

        rates[name] = count / min(seconds(partial(run, first)) for first in range(count, 4 * count, count))
    note = f"{rates['residuals']:,.0f} against {rates['patterns']:,.0f} a second"
    yield Line(
        "residuals", "churn, patterns over residuals", rates["patterns"] / rates["residuals"], "times", 2, note=note
    )


def lines(quick: bool) -> Iterator[Line]:
    yield from many(quick)
    yield from churn(quick)
