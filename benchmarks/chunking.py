"""Chunking under an engine that takes one query at a time: scenario 1 of the eXtract paper, sequential sum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.timing import Line
from twigcast import Subscription
from twigcast.chunk.prepare import prepare
from twigcast.chunk.scheme import Fragment, Scheme
from twigcast.papers.chunk_lxml import fragments
from twigcast.papers.experiments import chunking_workload as workload
from twigcast.papers.experiments.chunking import evaluate, timed, unchunked
from twigcast.schema import dtd_schema


def lines(quick: bool) -> Iterator[Line]:
    count, elements = (100, 13_000) if quick else (2_000, 130_000)
    xml = workload.university(elements)
    queries = workload.university_queries(count)
    subscriptions = [Subscription(i, query) for i, query in enumerate(queries)]
    publisher = dtd_schema(workload.UNIVERSITY_DTD)
    wanted, alone = evaluate(unchunked(queries), [Fragment(0, xml)], "lxml")
    took: dict[int, float] = {}
    for chunks in (0, 5):
        scheme = prepare(subscriptions, chunks=chunks, schema=publisher)
        pieces, chunking = timed(partial(_chunked, scheme, xml))
        found, times = evaluate(scheme, pieces, "lxml")
        if {queries[int(one)] for one in found} != set(wanted):
            raise AssertionError(f"lxml finds something else in {chunks} chunks")
        took[chunks] = chunking + sum(times)
    note = f"{sum(alone):.2f} s unchunked, {took[5]:.2f} s chunked; {len(set(queries)):,} distinct queries, each "
    note += f"evaluated once on both sides; {sum(alone) / took[0]:.1f} times with expressions written out but no chunks"
    name = f"lxml, {count:,} queries, {elements:,} elements, 5 chunks"
    yield Line("chunking", name, sum(alone) / took[5], "times", 3, "higher", note)


def _chunked(scheme: Scheme, xml: bytes) -> list[Fragment]:
    return list(fragments(scheme, xml))
