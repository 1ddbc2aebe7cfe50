"""`Broker.publish`: what it adds to the kernel's own time, with one match and with each further one."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.timing import Chunk, Line, Variant, chunks, interleaved
from twigcast import Broker

MESSAGE = b"<quote><symbol>IBM</symbol><price>51</price></quote>"
BATCH = 100


def lines(quick: bool) -> Iterator[Line]:
    """Yield the microseconds that `publish` takes above the kernel, all ids of the matches looked at."""
    many = 10_000 if quick else 100_000
    brokers = {count: Broker() for count in (1, many)}
    for count, broker in brokers.items():
        for id in range(count):
            broker.subscribe("/quote/symbol", id=f"s{id}", subscriber="ann" if count > 1 else None)
    one = interleaved(
        {"publish": published(brokers[1]), "kernel": matched(brokers[1])}, chunks([MESSAGE] * 100), repeat=300
    )
    above = (one["publish"] - one["kernel"]) / 100 * 1e6
    note = (
        f"{one['publish'] / 100 * 1e6:.2f} µs; in a batch the kernel takes {one['kernel'] / 100 * 1e6:.2f} µs a message"
    )
    yield Line("publishing", "one match, above the kernel", above, "µs", 3, "lower", note)
    took = interleaved({"publish": published(brokers[many])}, chunks([MESSAGE]), repeat=20)
    each = (took["publish"] - one["publish"] / 100) / (many - 1) * 1e6
    note = f"{many:,} matches with subscribers: {took['publish'] * 1e3:.1f} ms"
    yield Line("publishing", "a further match", each, "µs", 0.3, "lower", note)


def published(broker: Broker) -> Variant:
    """Publish messages, and look at the ids of all that match."""

    def run(chunk: Chunk) -> None:
        for xml in chunk.documents:
            for _ in broker.publish(xml).subscriptions:
                pass

    return run


def matched(broker: Broker) -> Variant:
    """Match the same messages as one column, without an object for any of them."""

    def run(chunk: Chunk) -> None:
        broker.engine.kernel.process(chunk.batch.column("xml"), 0, 1 << 20)

    return run
