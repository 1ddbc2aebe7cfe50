"""Value predicates and nested paths: NITF against our own parse, the papers' bib and book against expat and lxml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import NamedTuple

from lxml import etree

from benchmarks import corpora
from benchmarks.filtering import any_order, recognise, warm
from benchmarks.timing import Chunk, Line, chunks, expat_parse, interleaved, reader
from twigcast.papers.predicates import PREDICATES as STRATEGIES
from twigcast.workload import DocumentGenerator, QueryGenerator, QuerySettings, vocabulary

# Values of a real feed (names, dates, amounts) repeat less than the 20 of YFilter's generator; with those a tenth of
# all subscriptions would match each message.
NITF_VALUES = 100
PEER_VALUES = 1_000

_EQUALITY = re.compile('="[0-9]+"')

PREDICATES = tuple(STRATEGIES)


class Part(NamedTuple):
    """A share of the mixed subscriptions."""

    share: float
    settings: QuerySettings


MIX = (
    Part(0.4, QuerySettings(depth=6, predicates=1, max_value=NITF_VALUES, seed=1)),
    Part(
        0.3, QuerySettings(depth=6, predicates=2, predicate_depth=1, inequalities=0.25, max_value=NITF_VALUES, seed=2)
    ),
    Part(0.2, QuerySettings(depth=6, predicates=1, nested=1, max_value=NITF_VALUES, seed=3)),
    Part(0.1, QuerySettings(depth=6, predicates=2, nested=1, inequalities=0.25, max_value=NITF_VALUES, seed=4)),
)


@cache
def mixed_queries(count: int) -> list[str]:
    """NITF subscriptions of all kinds; each compares something for equality."""
    found: list[str] = []
    for share, settings in MIX:
        generator = QueryGenerator(corpora.nitf_dtd(), settings, root="nitf")
        wanted = round(count * share)
        found += islice((q for q in generator.queries(4 * wanted) if _EQUALITY.search(q)), wanted)
    return found


@cache
def nitf_documents(count: int) -> list[bytes]:
    settings = {"root": "nitf", "depth": 7, "max_repeats": 3, "max_value": NITF_VALUES, "seed": 1}
    return list(DocumentGenerator(corpora.nitf_dtd(), **settings).documents(count))  # type: ignore[arg-type]


def mixed(quick: bool) -> Iterator[Line]:
    """NITF: value predicates and nested paths, warm, against our own parse of the same messages."""
    parts = chunks(nitf_documents(100 if quick else 300))
    for count in (5_000,) if quick else (10_000, 100_000):
        engine = corpora.engine(mixed_queries(count))
        each = warm(engine, parts)
        variants = {"x": expat_parse, "parse": reader, "any": any_order(engine), "none": recognise(engine)}
        took = interleaved(variants, parts, repeat=3 if quick else 6)
        note = f"{each:,.0f} matches a message, {each / count:.2%} of all; {took['any'] / took['x']:.2f} X"
        note += f", without delivery {took['none'] / took['parse']:.2f} parses"
        bar = 5.0 if count == 100_000 else None
        yield Line("predicates", f"NITF, {count:,} mixed, warm", took["any"] / took["parse"], "parses", bar, note=note)


# About 150 and 85 elements a message.
PEER_DOCUMENTS = {
    "bib": {"depth": 5, "max_repeats": 11},
    "book": {"depth": 6, "max_repeats": 4, "repeats": {"figure": 5}},
}
PEER_QUERIES = {
    "p1": QuerySettings(depth=5, predicates=1, predicate_depth=1, max_value=PEER_VALUES, seed=1),
    "t": QuerySettings(depth=5, predicates=2, predicate_depth=2, nested=1, max_value=PEER_VALUES, seed=2),
}


def peer_queries(name: str, kind: str, count: int) -> list[str]:
    generator = QueryGenerator(vocabulary(name), PEER_QUERIES[kind])
    return list(islice((q for q in generator.queries(4 * count) if _EQUALITY.search(q)), count))


def peers(quick: bool) -> Iterator[Line]:
    """bib and book, one equality (p1) or twigs with equalities (t), as YFilter and others were measured with."""
    for name, settings in PEER_DOCUMENTS.items():
        generator = DocumentGenerator(vocabulary(name), max_value=PEER_VALUES, seed=1, **settings)  # type: ignore[arg-type]
        documents = list(generator.documents(100 if quick else 300))
        size = f"{sum(d.count(b'</') + d.count(b'/>') for d in documents) / len(documents):.0f} elements"
        for kind in PEER_QUERIES:
            queries = peer_queries(name, kind, 10_000 if quick else 100_000)
            for count, bar in ((10_000, 2.0), (100_000, 20.0)):
                if count > len(queries):
                    continue
                engine = corpora.engine(queries[:count])
                parts = chunks(documents)
                each = warm(engine, parts)
                variants = {"x": expat_parse, "any": any_order(engine), "parse": reader}
                took = interleaved(variants, parts, repeat=3 if quick else 5)
                note = f"{each:,.0f} matches a message, {each / count:.2%} of all; {size}; "
                note += f"{took['any'] / took['parse']:.1f} parses"
                label = f"{name} {kind}, {count:,}, warm"
                yield Line("predicates", label, took["any"] / took["x"], "X", bar, note=note)
                if count == 10_000:
                    yield _lxml(name, kind, queries[:count], any_order(engine), documents[: 2 if quick else 5])


def strategies(quick: bool) -> Iterator[Line]:
    """YFilter's two strategies for predicates against ours, over workloads of both kinds.

    The same subscriptions and messages for all strategies: book p1 as above, and a grid of two properties. A structure
    is selective if few subscriptions are reached by it; values are few if each of them satisfies many subscriptions.
    """
    count = 10_000
    documents = 100 if quick else 300
    generator = DocumentGenerator(vocabulary("book"), max_value=PEER_VALUES, seed=1, **PEER_DOCUMENTS["book"])  # type: ignore[arg-type]
    works = {"book p1": (peer_queries("book", "p1", count), list(generator.documents(documents)))}
    for selective in (True, False):
        for values in (5, 1_000):
            name = f"{'selective' if selective else 'unselective'} structure, {values:,} values"
            works[name] = _grid(count, documents, selective, values)
    for name, (queries, messages) in works.items():
        yield from _strategies(name, queries, chunks(messages), 3 if quick else 5)


def _strategies(name: str, queries: list[str], parts: list[Chunk], repeat: int) -> Iterator[Line]:
    """Measure all strategies on one workload, and compare `inline` with `postponed`."""
    engines = {one: corpora.engine(queries, predicates=one) for one in PREDICATES}
    each = {one: warm(engine, parts) for one, engine in engines.items()}
    assert len(set(each.values())) == 1, each
    variants = {one: any_order(engine) for one, engine in engines.items()}
    took = interleaved({"x": expat_parse, **variants}, parts, repeat=repeat)
    matches = f"{each[PREDICATES[0]]:,.1f} matches a message"
    for one in PREDICATES:
        note = f"{took[one] / took[PREDICATES[0]]:.1f} times {PREDICATES[0]}; {matches}"
        yield Line("predicates", f"{name}, {len(queries):,}, {one}", took[one] / took["x"], "X", note=note)
    yield Line("predicates", f"{name}, inline : postponed", took["inline"] / took["postponed"], "times", note=matches)


# Of the grid: names of leaves, of which a message has few or many, and how often it has the compared element.
LEAVES = 2_000
PRESENT = {True: 2, False: 200}
COMPARED = 3


def _grid(count: int, documents: int, selective: bool, values: int) -> tuple[list[str], list[bytes]]:
    """Return subscriptions `/m[v = "…"]/leaf` and messages with several `v` and some of the leaves."""
    random = Random(f"{selective} {values}")
    pairs = [(value, leaf) for value in range(min(values, count)) for leaf in range(LEAVES)]
    queries = [f'/m[v = "{value}"]/l{leaf}' for value, leaf in random.sample(pairs, count)]
    messages = []
    for _ in range(documents):
        inner = "".join(f"<v>{random.randrange(values)}</v>" for _ in range(COMPARED))
        inner += "".join(f"<l{leaf}/>" for leaf in random.sample(range(LEAVES), PRESENT[selective]))
        messages.append(f"<m>{inner}</m>".encode())
    return queries, messages


def _lxml(name: str, kind: str, queries: list[str], ours: object, documents: list[bytes]) -> Line:
    compiled = [etree.XPath(f"boolean({query})") for query in queries]

    def loop(chunk: Chunk) -> None:
        for document in chunk.documents:
            tree = etree.fromstring(document)
            for test in compiled:
                test(tree)

    # Ours in chunks of many: a call for a few messages costs more than the messages.
    few = interleaved({"lxml": loop}, chunks(documents), repeat=1)["lxml"] / len(documents)
    many = documents * 40
    own = interleaved({"ours": ours}, chunks(many), repeat=5)["ours"] / len(many)  # type: ignore[dict-item]
    note = f"lxml {few * 1e3:.0f} ms a message"
    return Line(
        "speed-up", f"over an lxml loop, {name} {kind}, {len(queries):,}", few / own, "times", 500, "higher", note
    )


def lines(quick: bool) -> Iterator[Line]:
    yield from peers(quick)
    yield from mixed(quick)
    yield from strategies(quick)
