"""All kinds of queries over one message: what they cost together, against one kind alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.timing import Chunk, Line, Variant, chunks, interleaved
from twigcast import Broker

ITEM = "<item id='i{n}'><name>n{n}</name><price>{n}</price><note>some words of text about item {n}</note></item>"

# Each makes the query of a number. None matches: no item has such a value.
KINDS: Mapping[str, Callable[[int], str]] = {
    "filter": lambda n: f"/list/item[name = 'none{n}']/price",
    "residual filter": lambda n: f"/list/item[string-length(name) = 99 and following-sibling::item/@id = 'none{n}']",
    "transform": lambda n: f"<r>{{ for $i in /list/item where $i/name = 'none{n}' return $i/price }}</r>",
    "correlation": lambda n: (
        f"SELECT * FROM S//item->a[./@id->i][./name->x = 'none{n}'] FOLLOWED BY{{i = j, 1h}}"
        f" S//item->b[./@id->j][./name->y = 'other{n}']"
    ),
}


def lines(quick: bool) -> Iterator[Line]:
    """Yield ratios: one of each kind against one filter on 2 MB, 1,000 of each against the dearest kind on 2 KB."""
    yield compared("2 MB, one of each kind", 1, message(200_000 if quick else 2_000_000), 1, ["filter"], 1.6)
    count = 100 if quick else 1_000
    yield compared(f"2 KB, {count:,} of each kind", count, message(2_000), 50, list(KINDS), 1.5)


def compared(name: str, count: int, xml: bytes, messages: int, alone: list[str], bar: float) -> Line:
    """Return the cost of all kinds together as a multiple of the dearest of those named in `alone`."""
    brokers = {kind: broker([kind], count) for kind in alone} | {"all": broker(list(KINDS), count)}
    variants = {kind: published(one) for kind, one in brokers.items()}
    took = interleaved(variants, chunks([xml] * messages), repeat=20)
    dearest = max(alone, key=lambda kind: took[kind])
    each = ", ".join(f"{kind} {seconds / messages * 1e6:,.0f}" for kind, seconds in took.items())
    return Line("kinds", name, took["all"] / took[dearest], f"x {dearest}", bar, "lower", f"µs a message: {each}")


def message(size: int) -> bytes:
    """Return a list of items of about this size."""
    items: list[str] = []
    total = 0
    while total < size:
        items.append(ITEM.format(n=len(items)))
        total += len(items[-1])
    return f"<list>{''.join(items)}</list>".encode()


def broker(kinds: list[str], count: int) -> Broker:
    """Return a broker with this number of subscriptions of each kind."""
    made = Broker()
    for kind in kinds:
        for n in range(count):
            made.subscribe(KINDS[kind](n), id=f"{kind} {n}")
    return made


def published(one: Broker) -> Variant:
    """Publish messages on the stream that correlations read; nothing matches."""
    time = 0

    def run(chunk: Chunk) -> None:
        nonlocal time
        for xml in chunk.documents:
            time += 1
            if one.publish(xml, stream="S", time=time):
                raise AssertionError("a query matches that must not")

    return run
