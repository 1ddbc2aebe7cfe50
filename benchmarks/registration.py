"""Subscriptions from text to matching: of shapes that are known, and of new ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks import stock
from benchmarks.predicates import mixed_queries, peer_queries
from benchmarks.timing import Line, seconds
from twigcast import Engine, Subscription

_LITERAL = re.compile(r'"[^"]*"|(?<=[<>=]) ?-?[0-9.]+')


def lines(quick: bool) -> Iterator[Line]:
    count = 20_000 if quick else 100_000
    interests = [one.query() for one in stock.interests(2 * count)]
    yield _known("stock, one shape", interests)
    twigs = peer_queries("bib", "p1", count)
    yield _known("bib p1, of many shapes", _known_shapes(twigs))
    yield _as_they_come("bib, twigs", peer_queries("bib", "t", count))
    for name, queries in (
        ("NITF, mixed", mixed_queries(5_000 if quick else 20_000)),
        ("bib, twigs", peer_queries("bib", "t", count)),
    ):
        yield _new(name, _one_per_shape(queries)[: 1_000 if quick else 5_000])


def _as_they_come(name: str, queries: list[str]) -> Line:
    """Shapes that come once, and others that come again and again, in one engine that knows none of them."""
    subscriptions = [Subscription(i, query) for i, query in enumerate(queries)]
    best = min(seconds(lambda: _add(Engine(), subscriptions)) for _ in range(2))
    note = f"{len({shape(q) for q in queries}):,} shapes; {best / len(queries) * 1e6:,.0f} µs each"
    return Line("registering", f"as they come: {name}", len(queries) / best, "a second", None, "higher", note)


def shape(query: str) -> str:
    return _LITERAL.sub("#", query)


def _one_per_shape(queries: list[str]) -> list[str]:
    return list({shape(query): query for query in queries}.values())


def _known_shapes(queries: list[str]) -> list[str]:
    """First three of each shape, which teach it, then as many again whose shapes are among these."""
    first: dict[str, int] = {}
    teach, rest = [], []
    for query in queries:
        n = first[shape(query)] = first.get(shape(query), 0) + 1
        (teach if n <= 3 else rest).append(query)
    return teach[: len(rest)] + rest if len(teach) <= len(rest) else teach + rest


def _known(name: str, queries: list[str]) -> Line:
    """The first half makes the shapes known."""
    half = len(queries) // 2
    subscriptions = [Subscription(i, query) for i, query in enumerate(queries)]
    best = float("inf")
    for _ in range(3):
        engine = Engine()
        _add(engine, subscriptions[:half])
        best = min(best, seconds(lambda e=engine: _add(e, subscriptions[half:])))  # type: ignore[misc]
    rate = (len(queries) - half) / best
    note = f"{len({shape(q) for q in queries}):,} shapes; until the next message is matched"
    return Line("registering", f"known shapes: {name}", rate, "a second", 100_000, "higher", note)


def _new(name: str, queries: list[str]) -> Line:
    subscriptions = [Subscription(i, query) for i, query in enumerate(queries)]
    best = min(seconds(lambda: _add(Engine(), subscriptions)) for _ in range(3))
    note = f"{len(queries):,} shapes; {best / len(queries) * 1e6:,.0f} µs each"
    return Line("registering", f"new shapes: {name}", len(queries) / best, "a second", 5_000, "higher", note)


def _add(engine: Engine, subscriptions: list[Subscription]) -> None:
    engine.add_many(subscriptions)
    engine.match(b"<a/>")  # the first message settles what was added
