"""The reader alone, all checks on."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import corpora
from benchmarks.timing import Line, chunks, expat_parse, interleaved, lxml_parse, reader


def lines(quick: bool) -> Iterator[Line]:
    count, repeat = (100, 5) if quick else (300, 12)
    for name, documents, bar in (
        ("NITF", corpora.nitf_documents()[:count], 0.20),
        ("book", corpora.book_documents(count), 0.20),
        ("entity-heavy", corpora.entity_heavy(count), 0.5),
        ("own entities (DOCTYPE)", corpora.internal_entities(count), 0.5),
        ("attribute-heavy", corpora.attribute_heavy(count), 0.5),
        ("namespaced", corpora.namespaced(count), 0.5),
    ):
        took = interleaved({"x": expat_parse, "ours": reader, "lxml": lxml_parse}, chunks(documents), repeat=repeat)
        size = sum(map(len, documents))
        rate = f"{size / took['ours'] / 1e6:,.0f} MB/s, lxml {took['lxml'] / took['x']:.2f} X"
        yield Line("reader", name, took["ours"] / took["x"], "X", bar, note=rate)
