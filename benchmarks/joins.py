"""Correlations: the default strategy against those of the paper, and messages per second with very many queries."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from random import Random
from time import thread_time

import psutil
import pyarrow as pa

from benchmarks.timing import Line, seconds
from twigcast.correlate.default import Default
from twigcast.correlate.engine import Correlations
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.papers.joins.strategies import make_strategy
from twigcast.papers.joins.strategy import Arrival, Strategy
from twigcast.papers.joins.workload import STREAM, JoinSchema, feed, feed_items, join_queries, three_level, two_level
from twigcast.units import SECOND

Pair = tuple[bytes, bytes]


def lines(quick: bool) -> Iterator[Line]:
    count = 2_000 if quick else 100_000
    for name, schema, most in (("two-level", two_level(), None), ("three-level", three_level(), 4)):
        yield from _against_the_paper(name, schema, most, count)
    yield _feeds(count, 2_000 if quick else 20_000)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # a process of its own, where nothing else grows
        yield from pool.submit(_hot, 1_000 if quick else 10_000, 200_000).result()


def _against_the_paper(name: str, schema: JoinSchema, most: int | None, count: int) -> Iterator[Line]:
    """Two messages that agree in every leaf (joins §6.1): what the second one costs, without output."""
    queries = [one.correlation for one in islice(join_queries(schema, most=most), count)]
    took, found = {}, {}
    default = Default()
    for number, query in enumerate(queries):
        default.add(number, query)
    rounds = []
    for at, (first, second) in enumerate(_pairs(schema, 5)):
        default.push(STREAM, False, 2 * at * SECOND, b"", first)
        start = thread_time()
        _, results, _ = default.push(STREAM, False, (2 * at + 1) * SECOND, b"", second)
        rounds.append(thread_time() - start)
    took["default"], found["default"] = min(rounds), len(results)
    for other in ("mmqjp-materialized", "sequential"):
        took[other], found[other] = _second_message(make_strategy(other), queries, schema)
    if len(set(found.values())) != 1:
        raise AssertionError(f"the strategies disagree: {found}")
    each = ", ".join(f"{strategy} {1e3 * time:.2f} ms" for strategy, time in took.items())
    note = f"{found['default']:,} results; {each}"
    for other, bar in (("sequential", 100), ("mmqjp-materialized", 5)):
        ratio = took[other] / took["default"]
        yield Line("joins", f"{name}, {count:,} queries, over {other}", ratio, "times", bar, "higher", note)


def _second_message(strategy: Strategy, queries: list[Correlation], schema: JoinSchema) -> tuple[float, int]:
    for number, query in enumerate(queries):
        strategy.add(number, query)
    ((first, second),) = _pairs(schema, 1)
    strategy.process(Arrival(0, STREAM, 0, first))
    start = thread_time()
    found = strategy.process(Arrival(1, STREAM, SECOND, second))
    return thread_time() - start, len(found)


def _pairs(schema: JoinSchema, rounds: int) -> Iterator[Pair]:
    """In each round other values: rounds do not join."""
    for at in range(rounds):
        message = schema.message([f"value {at} {leaf}" for leaf in range(len(schema.leaves))])
        yield message, message


def _feeds(count: int, messages: int) -> Line:
    """Items of five leaves; each query wants two of 418 channels, so that all are distinct and few match."""
    default = Default()
    for number, query in enumerate(islice(join_queries(feed(), channels=418), count)):
        default.add(number, query.correlation)
    items = list(islice(feed_items(), messages))
    step = 500
    took, results = 0.0, 0
    for start in range(0, messages, step):
        some = items[start : start + step]
        streams, routes = default.columns([STREAM] * len(some), [False] * len(some))
        times = pa.array([(start + i) * SECOND for i in range(len(some))], pa.int64())
        labels = pa.array([b"%d" % (start + i) for i in range(len(some))], pa.binary())
        texts = pa.array(some, pa.binary())
        made: list[pa.Array] = []

        def push() -> None:
            pushed = default.kernel.push_column(default.blocks.kernel, streams, routes, times, labels, texts)  # noqa: B023
            made.append(pa.array(pushed[1]))  # noqa: B023

        took += seconds(push)
        results += len(made[0])
    stats = default.stats()
    note = f"{stats['queries']:,} distinct queries, {results / messages:.2f} results a message,"
    note += f" {stats['stored']:,} messages stored, {stats['bytes'] / 1e6:.0f} MB"
    return Line("joins", f"feed items, {count:,} queries", messages / took, "messages/s", 20_000, "higher", note)


def _hot(count: int, messages: int) -> list[Line]:
    """Windows without an end, and one value that a message in ten has: it is told apart by a second value."""
    bound = 32_000_000
    engine = Correlations(max_bytes=bound)
    for number in range(count):
        query = f"S/m->x[k->v][n->m] FOLLOWED BY{{v=w AND m=p, INF}} S/m->y[k->w][n->p][c = '{number}']"
        engine.add(f"q{number}", parse_correlation(query))
    dice = Random("hot").randrange
    times: list[float] = []
    told: list[object] = []
    engine.on_eviction = lambda many, id, _: told.append(id)
    most = before = 0
    step = messages // 20
    for start in range(0, messages, step):
        rows = []
        for at in range(start, start + step):
            key = "hot" if dice(10) == 0 else f"key {dice(messages)}"
            xml = f"<m><k>{key}</k><n>{dice(messages)}</n><c>{dice(count)}</c></m>".encode()
            rows.append((xml, str(at), at * SECOND, "S"))
        times.append(seconds(lambda: sum(1 for _ in engine.publish_all(rows))))  # noqa: B023
        before = before or _resident()  # with the first messages comes what any number of them needs
        most = max(most, _resident())
    stats = engine.stats()
    note = f"{stats['stored']:,} of {messages:,} messages kept, {stats['evicted']:,} forgotten before their time; the"
    note += f" warning names {told[-1]!r}" if told else " bound was not reached"
    name = f"hot value, INF, {count:,} queries"
    grown = (most - before) / bound
    lines = [Line("joins", f"{name}: growth of the process to max_bytes", grown, "times", 1.5, note=note)]
    full, last = min(times[10:15]), min(times[15:])
    note = f"{step / last:,.0f} messages/s in the end; {step / times[0]:,.0f} with an empty state"
    return [*lines, Line("joins", f"{name}: last quarter to the one before", last / full, "times", 1.5, note=note)]


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)
