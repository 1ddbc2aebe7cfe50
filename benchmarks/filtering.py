"""Parsing, matching and delivery as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from benchmarks import corpora
from benchmarks.timing import Chunk, Line, Variant, chunks, expat_parse, interleaved
from twigcast import Engine

WARM = 8  # passes after which every tag path of the corpus is compiled


def any_order(engine: Engine) -> Variant:
    return lambda chunk: engine.match_batch(chunk.batch, order="any")


def ascending(engine: Engine) -> Variant:
    return lambda chunk: engine.match_batch(chunk.batch)


def recognise(engine: Engine) -> Variant:
    """Everything but the delivery of ids."""
    return lambda chunk: engine.kernel.process(chunk.batch.column("xml"), 0, 1 << 30, order="none")


def warm(engine: Engine, parts: list[Chunk]) -> float:
    """Sees every message often enough; returns the matches per message."""
    for _ in range(WARM):
        found = [engine.match_batch(part.batch, order="any").column("matches") for part in parts]
    return sum(len(m.values) for m in found) / sum(len(p.documents) for p in parts)


def structure(quick: bool) -> Iterator[Line]:
    """1k, 10k and 100k distinct paths, warm and from an empty cache."""
    repeat = 3 if quick else 8
    for name, documents, paths in (
        ("NITF", corpora.nitf_documents(), corpora.nitf_queries()),
        ("book", corpora.book_documents(500), corpora.queries("book", 10_000 if quick else 100_000)),
    ):
        parts = chunks(documents)
        for count in (1_000, 10_000, 100_000):
            if count > len(paths):
                continue
            engine = corpora.engine(paths[:count])
            cold = interleaved(
                {"x": expat_parse, "cold": any_order(engine)}, parts, repeat=2, before=engine.kernel.forget
            )
            each = warm(engine, parts)
            variants = {
                "x": expat_parse, "any": any_order(engine), "ascending": ascending(engine), "none": recognise(engine)
            }  # fmt: skip
            took = interleaved(variants, parts, repeat=repeat)
            note = f"{each:,.0f} matches a message; ascending {took['ascending'] / took['x']:.2f} X"
            note += f", without delivery {took['none'] / took['x']:.2f} X"
            group = "parse + match + ids"
            yield Line(group, f"{name}, {count:,} paths, warm", took["any"] / took["x"], "X", 0.5, note=note)
            tag_paths = f"{engine.kernel.stats()[3]:,} tag paths in {len(documents)} messages"
            yield Line(group, f"{name}, {count:,} paths, cold", cold["cold"] / cold["x"], "X", note=tag_paths)


def subscribers(quick: bool) -> Iterator[Line]:
    """Ten subscriptions on each of 100k paths."""
    parts = chunks(corpora.nitf_documents()[: 100 if quick else 500], 50)
    engine = corpora.engine(corpora.nitf_queries()[:100_000], copies=10)
    each = warm(engine, parts)
    variants = {"x": expat_parse, "any": any_order(engine), "none": recognise(engine), "ascending": ascending(engine)}
    took = interleaved(variants, parts, repeat=3 if quick else 6)
    note = f"{each:,.0f} matches a message; ascending {took['ascending'] / took['x']:.2f} X"
    yield Line("parse + match + ids", "NITF, 1M on 100,000 paths, warm", took["any"] / took["x"], "X", 1.25, note=note)
    yield _delivery("NITF, 1M on 100,000 paths", took, each, parts)


def _delivery(name: str, took: dict[str, float], each: float, parts: list[Chunk]) -> Line:
    matches = each * sum(len(p.documents) for p in parts)
    bar = 1.0 if each >= 5_000 else None
    value = (took["any"] - took["none"]) / matches * 1e9
    return Line("delivery", name, value, "ns/match", bar, note=f"{each:,.0f} matches a message")


def recognition(quick: bool) -> Iterator[Line]:
    """The look-up per element does not know how many paths there are."""
    few, many = 1_000, 100_000 if quick else 500_000
    paths = corpora.generated_nitf_queries(many)
    parts = chunks(corpora.generated_nitf(200 if quick else 500))
    engines = {"few": corpora.engine(paths[:few]), "many": corpora.engine(paths)}
    for engine in engines.values():
        each = warm(engine, parts)
    variants = {name: recognise(engine) for name, engine in engines.items()}
    took = interleaved(
        {**variants, "x": expat_parse, "any": any_order(engines["many"])}, parts, repeat=4 if quick else 10
    )
    note = f"{took['few'] / took['x']:.3f} X and {took['many'] / took['x']:.3f} X, reading included"
    ratio = took["many"] / took["few"]
    yield Line("recognition", f"NITF, {many:,} : {few:,} paths", ratio, "times", 1.2, note=note)
    yield _delivery(f"NITF, {many:,} paths", {"any": took["any"], "none": took["many"]}, each, parts)
    note = f"{each:,.0f} matches a message"
    yield Line("parse + match + ids", f"NITF, {many:,} paths, warm", took["any"] / took["x"], "X", 1.0, note=note)


def streams(quick: bool) -> Iterator[Line]:
    """Messages that were never seen before, from an empty cache on."""
    count = 1_000 if quick else 6_000
    paths = 10_000 if quick else 100_000
    for name, documents, queries, bar in (
        ("NITF-like", corpora.generated_nitf(count), corpora.generated_nitf_queries(paths), 5.0),
        ("closed vocabulary", corpora.catalog_documents(count), corpora.queries("catalog", paths), 1.0),
    ):
        engine = corpora.engine(queries)
        parts = chunks(documents)
        variants = {"x": expat_parse, "cold": any_order(engine)}
        took = interleaved(variants, parts, repeat=2, before=engine.kernel.forget)
        last = parts[-len(parts) // 6 :]
        again = interleaved(variants, last, repeat=2)
        each = sum(len(engine.match_batch(p.batch).column("matches").values) for p in last) / sum(
            len(p.documents) for p in last
        )
        note = f"{engine.kernel.stats()[3]:,} tag paths, {each:,.0f} matches a message; last sixth again "
        note += f"{again['cold'] / again['x']:.2f} X"
        label = f"{name}, {paths:,} paths, {count:,} messages"
        yield Line("cold stream", label, took["cold"] / took["x"], "X", None if quick else bar, note=note)


def peers(quick: bool) -> Iterator[Line]:
    """Against YFilter's automaton, run as such, and against one XPath after another."""
    for count, documents in ((10_000, 20),) if quick else ((10_000, 50), (100_000, 50)):
        parts = chunks(corpora.nitf_documents()[:documents])
        paths = corpora.nitf_queries()[:count]
        ours, nfa = corpora.engine(paths), corpora.engine(paths, mode="nfa")
        warm(ours, parts)
        took = interleaved({"ours": any_order(ours), "nfa": any_order(nfa)}, parts, repeat=3)
        bar = 100 if count == 100_000 else None
        value = took["nfa"] / took["ours"]
        yield Line("speed-up", f"over mode nfa, NITF, {count:,} paths, warm", value, "times", bar, "higher")
    parts = chunks(corpora.nitf_documents()[: 10 if quick else 25])
    paths = corpora.nitf_queries()[:10_000]
    ours = corpora.engine(paths)
    warm(ours, parts)
    compiled = [etree.XPath(f"boolean({path})") for path in paths]

    def loop(chunk: Chunk) -> None:
        for document in chunk.documents:
            tree = etree.fromstring(document)
            for path in compiled:
                path(tree)

    took = interleaved({"ours": any_order(ours), "lxml": loop}, parts, repeat=2)
    value = took["lxml"] / took["ours"]
    yield Line("speed-up", "over an lxml XPath loop, NITF, 10,000 paths", value, "times", 1000, "higher")
