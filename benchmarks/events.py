"""Correlations with a constant each, on small events: `Broker.publish_many` beside the kernel, results, and churn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from time import thread_time

import pyarrow as pa

from benchmarks.timing import Line, seconds
from twigcast import Broker
from twigcast.correlate.default import Default

COUNTS = (10, 100, 1_000)
QUERIES = {
    "one": "S//order->o[./id->x][./region = 'r{n}'] FOLLOWED BY{{x = y, 1h}} S//payment->p[./id->y]",
    "two": "S//order->o[./customer->x][./region = 'r{n}'] FOLLOWED BY{{x = y, 1h}}"
    " S//payment->p[./customer->y][./region = 'r{n}']",
}
"""A constant in one block, and ids that few events share; or one in both, and customers that many share."""


def lines(quick: bool) -> Iterator[Line]:
    for name, query in QUERIES.items():
        yield from _publishing(name, query, 500 if quick else 2_000, 3 if quick else 10)
    yield _result(200 if quick else 1_000)
    yield from _churn(500 if quick else 2_000)


class Events:
    """Orders and payments of five leaves; a payment in ten is for an order not long before."""

    def __init__(self, regions: int) -> None:
        self._random = Random("events")
        self._regions = regions
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        return [self._event() for _ in range(count)]

    def _event(self) -> bytes:
        dice = self._random.randrange
        self._next += 1
        id, kind = self._next, "order"
        if self._next % 2:
            kind = "payment"
            if dice(10) == 0:
                id -= 2 * dice(20) + 1
        leaves = f"<id>{id}</id><customer>c{dice(1_000)}</customer><region>r{dice(self._regions)}</region>"
        return f"<{kind}>{leaves}<kind>k{dice(9)}</kind><amount>{dice(1_000)}</amount></{kind}>".encode()


def _publishing(name: str, query: str, count: int, rounds: int) -> Iterator[Line]:
    """The same stream of events with ever more correlations, and the kernel alone on the same events."""
    brokers: dict[tuple[str, int], Broker] = {}
    for correlations in COUNTS:
        for way in ("many", "kernel", "single"):
            broker = brokers[way, correlations] = Broker()
            for n in range(correlations):
                broker.subscribe(query.format(n=n), id=n)
    best = dict.fromkeys(brokers, float("inf"))
    found = dict.fromkeys(brokers, 0)
    ways = {"many": _many, "kernel": _kernel, "single": _single}
    streams = {correlations: Events(correlations) for correlations in COUNTS}
    for _ in range(rounds):
        events = {correlations: stream.take(count) for correlations, stream in streams.items()}
        for (way, correlations), broker in brokers.items():
            took, results = ways[way](broker, events[correlations])
            best[way, correlations] = min(best[way, correlations], took / count * 1e6)
            found[way, correlations] += results
    for correlations in COUNTS:
        if len({found[way, correlations] for way in ways}) != 1:
            raise AssertionError(f"the ways disagree: {found}")
    constants = f"{name} constant{'s' * (name != 'one')} each"
    for correlations in COUNTS[1:]:
        many, kernel, single = (best[way, correlations] for way in ways)
        each = found["many", correlations] / rounds / count
        note = f"{many:.2f} µs, kernel {kernel:.2f} µs, publish {single:.2f} µs an event; {each:.3f} results an event"
        title = f"{correlations:,} correlations, {constants}"
        yield Line("events", f"{title}: publish_many over the kernel", many / kernel, "times", 1.5, note=note)
        few = best["kernel", COUNTS[0]]
        note = f"kernel {kernel:.2f} µs an event, {few:.2f} µs with {COUNTS[0]}"
        yield Line("events", f"{title}: kernel, over {COUNTS[0]}", kernel / few, "times", 2, note=note)


def _many(broker: Broker, events: list[bytes]) -> tuple[float, int]:
    start = thread_time()
    found = 0
    for matches in broker.publish_many(events):
        found += len(matches.subscriptions)
    return thread_time() - start, found


def _single(broker: Broker, events: list[bytes]) -> tuple[float, int]:
    start = thread_time()
    found = 0
    for event in events:
        found += len(broker.publish(event).subscriptions)
    return thread_time() - start, found


def _kernel(broker: Broker, events: list[bytes]) -> tuple[float, int]:
    """The call of the kernel on columns, payloads included, without an object for any message or result."""
    backend = broker.correlations.backend
    assert isinstance(backend, Default)
    streams, routes = backend.columns(["S"] * len(events), [False] * len(events))
    first = broker._times(len(events))
    times = pa.array(range(first, first + len(events)), pa.int64())
    labels = pa.array([b"%d i%d" % (first + n, n) for n in range(len(events))], pa.binary())
    texts = pa.array(events, pa.binary())
    start = thread_time()
    pushed = backend.kernel.push_column(backend.blocks.kernel, streams, routes, times, labels, texts)
    took = thread_time() - start
    return took, len(pa.array(pushed[1]))


def _result(count: int) -> Line:
    """What a result costs: pairs of which each second event completes one, against the same events without."""
    took: dict[str, float] = {}
    for name in ("results", "none"):
        best = float("inf")
        for _ in range(5):
            broker = Broker()
            broker.subscribe(QUERIES["one"].format(n=1), id="q")
            events = []
            for n in range(count):
                events.append(b"<order><id>%d</id><region>r1</region></order>" % n)
                events.append(b"<payment><id>%d</id></payment>" % (n if name == "results" else -n - 1))
            start = thread_time()
            found = [match.payload for matches in broker.publish_many(events) for match in matches]
            best = min(best, thread_time() - start)
            if len(found) != (count if name == "results" else 0):
                raise AssertionError(f"{len(found)} results")
        took[name] = best
    each = (took["results"] - took["none"]) / count * 1e6
    return Line("events", "a result, payload and Match looked at", each, "µs", note="of two elements, one match each")


def _churn(count: int) -> Iterator[Line]:
    """Subscriptions of known shapes with new constants that come and go, correlations against tree patterns."""
    shapes = {
        "patterns": ["/order[region = 'r{n}']/id", "//payment[customer = '{n}'][amount > {n}]"],
        "correlations": [QUERIES["one"], QUERIES["two"].replace("1h", "2 min")],
    }
    rates = {}
    for name, texts in shapes.items():
        broker = Broker()
        for n in range(100):
            broker.subscribe(texts[n % 2].format(n=-n - 1), id=-n - 1)

        def run(first: int, broker: Broker = broker, texts: list[str] = texts) -> None:
            for n in range(count):
                broker.subscribe(texts[n % 2].format(n=first + n), id=n)
            for n in range(count):
                broker.unsubscribe(n)

        rates[name] = count / min(seconds(partial(run, first)) for first in range(count, 6 * count, count))
    note = f"{rates['correlations']:,.0f} against {rates['patterns']:,.0f} a second"
    ratio = rates["patterns"] / rates["correlations"]
    yield Line("events", "churn, patterns over correlations", ratio, "times", 2, note=note)
