"""Stock quotes: one equality and four ranges per subscription, against DuckDB's join and a counting algorithm."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import islice
from multiprocessing import get_context
from random import Random
from typing import NamedTuple

import duckdb
import numpy as np
import psutil
import pyarrow as pa

from benchmarks.filtering import any_order
from benchmarks.timing import Chunk, Line, chunks, expat_parse, interleaved, reader, seconds
from twigcast import Engine, Subscription

SYMBOLS = 3_000
BATCH = 10_000


class Quote(NamedTuple):
    symbol: str
    price: float
    volume: int
    change: float


class Interest(NamedTuple):
    """``above < price < below``, ``volume > least`` and ``change >= rise`` of one symbol."""

    symbol: str
    above: float
    below: float
    least: int
    rise: float

    def query(self) -> str:
        return (
            f'/quote[symbol = "{self.symbol}" and price > {self.above} and price < {self.below}'
            f" and volume > {self.least} and change >= {self.rise}]"
        )


@cache
def symbols() -> list[tuple[str, float]]:
    """Names, and the price about which each moves."""
    chance = Random("symbols").random
    letters = [chr(ord("A") + i) for i in range(26)]
    names = [
        letters[i % 26] + letters[i // 26 % 26] + letters[i // 676] + (".N" if i % 3 == 0 else "")
        for i in range(SYMBOLS)
    ]
    return [(name, 5 + 400 * chance()) for name in names]


def quotes(count: int) -> Iterator[Quote]:
    chance = Random("quotes").random
    for _ in range(count):
        name, base = symbols()[int(chance() * SYMBOLS)]
        price, volume = round(base * (0.9 + 0.2 * chance()), 2), int(1e6 * chance())
        yield Quote(name, price, volume, round(10 * chance() - 5, 2))


def interests(count: int) -> Iterator[Interest]:
    """Each bound holds for half of the quotes of its symbol; the price lies between its two bounds for a third."""
    chance = Random("interests").random
    for _ in range(count):
        name, base = symbols()[int(chance() * SYMBOLS)]
        above, below = sorted(round(base * (0.9 + 0.2 * chance()), 2) for _ in range(2))
        if above == below:
            below = round(below + 0.02, 2)
        yield Interest(name, above, below, int(1e6 * chance()), round(10 * chance() - 5, 2))


def message(quote: Quote) -> bytes:
    price = quote.price
    return (
        f'<?xml version="1.0"?>\n<quote><symbol>{quote.symbol}</symbol><date>2024-03-15</date><time>10:31:05</time>'
        f"<open>{price * 0.99:.2f}</open><high>{price * 1.01:.2f}</high><low>{price * 0.98:.2f}</low>"
        f"<price>{price:.2f}</price><volume>{quote.volume}</volume><change>{quote.change:.2f}</change>"
        "<exchange>NYSE</exchange></quote>"
    ).encode()


def engine(count: int) -> Engine:
    e = Engine()
    e.add_many(Subscription(i, one.query()) for i, one in enumerate(interests(count)))
    return e


def lines(quick: bool) -> Iterator[Line]:
    few, many = (1_000, 100_000) if quick else (10_000, 1_000_000)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # a process of its own, where nothing else grows
        whole, ids, own = pool.submit(_memory, many).result()
    note = f"growth of the process {whole:.0f} B, of which its id {ids:.0f} B; the kernel's own figure {own:.0f} B"
    yield Line("memory", f"stock, {many:,} of one shape", whole - ids, "B", 64, note=note)

    table = list(quotes(BATCH))
    parts = chunks([message(quote) for quote in table], BATCH)
    engines = {"few": engine(few), "many": engine(many)}
    join = Join(many, table)
    variants = {
        "x": expat_parse, "parse": reader, "few": any_order(engines["few"]), "many": any_order(engines["many"]),
    }  # fmt: skip
    for variant in variants.values():
        variant(parts[0])
    matches = len(engines["many"].match_batch(parts[0].batch).column("matches").values)
    took = interleaved({**variants, "duckdb": join.run}, parts, repeat=3 if quick else 15)
    if join.found != matches:
        raise AssertionError(f"DuckDB finds {join.found} matches, we find {matches}")
    each = {name: time / BATCH * 1e6 for name, time in took.items()}
    size = sum(map(len, parts[0].documents)) / BATCH
    note = f"{matches / BATCH:.1f} matches a message of {size:.0f} B; {each['many']:.2f} µs, "
    note += f"{each['many'] / each['x']:.2f} X"
    yield Line("stock", f"{many:,} subscriptions", took["many"] / took["parse"], "parses", 10, note=note)
    note = f"{each['few']:.2f} µs a message with {few:,}, parse {each['parse']:.2f} µs"
    yield Line("stock", f"{many:,} : {few:,} subscriptions", took["many"] / took["few"], "times", 5, note=note)
    note = f"DuckDB {duckdb.__version__} {each['duckdb']:.1f} µs a message, of parsed ones; ours with parse"
    yield Line("speed-up", f"over DuckDB's join, {many:,}", took["duckdb"] / took["many"], "times", 8, "higher", note)
    yield _counting(many, table[: 20 if quick else 50], each["many"], engines["many"], parts[0])


class Join:
    """The same as a relational join, on one thread: subscriptions in a table, a batch of messages parsed already."""

    def __init__(self, count: int, table: list[Quote]) -> None:
        self.db = duckdb.connect()
        self.db.execute("SET threads = 1")
        rows = list(interests(count))
        subscriptions = pa.table({name: [getattr(r, name) for r in rows] for name in Interest._fields})
        subscriptions = subscriptions.append_column("id", pa.array(range(count), pa.uint32()))
        messages = pa.table({name: [getattr(q, name) for q in table] for name in Quote._fields})
        messages = messages.append_column("id", pa.array(range(len(table)), pa.uint32()))
        for name, data in (("subscriptions", subscriptions), ("messages", messages)):
            self.db.register("given", data)
            self.db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self.db.unregister("given")
        self.found = 0

    def run(self, _: Chunk) -> None:
        result = self.db.execute(
            "SELECT m.id AS message, s.id AS subscription FROM messages m JOIN subscriptions s ON m.symbol = s.symbol"
            " AND m.price > s.above AND m.price < s.below AND m.volume > s.least AND m.change >= s.rise"
        )
        self.found = len(result.fetchnumpy()["message"])


class Counting:
    """Per attribute all thresholds in order: a message adds one to the counter of each range that holds, and those
    subscriptions of its symbol match whose counter reached four. The loops are numpy's."""

    def __init__(self, rows: list[Interest]) -> None:
        self.by_symbol: dict[str, np.ndarray] = {}
        for i, row in enumerate(rows):
            self.by_symbol.setdefault(row.symbol, []).append(i)  # type: ignore[attr-defined,arg-type]
        self.by_symbol = {name: np.array(list, np.uint32) for name, list in self.by_symbol.items()}
        self.orders = {}
        for field in Interest._fields[1:]:
            values = np.array([getattr(row, field) for row in rows], np.float64)
            order = np.argsort(values).astype(np.uint32)
            self.orders[field] = values[order], order
        self.counters = np.zeros(len(rows), np.uint8)

    def match(self, quote: Quote) -> np.ndarray:
        counters = self.counters
        counters.fill(0)
        for field, value, side in (
            ("above", quote.price, "left"), ("least", quote.volume, "left"), ("rise", quote.change, "right"),
        ):  # fmt: skip
            values, order = self.orders[field]
            counters[order[: np.searchsorted(values, value, side)]] += 1  # type: ignore[call-overload]
        values, order = self.orders["below"]
        counters[order[np.searchsorted(values, quote.price, "right") :]] += 1
        mine = self.by_symbol.get(quote.symbol, np.zeros(0, np.uint32))
        return mine[counters[mine] == 4]


def _counting(count: int, table: list[Quote], ours: float, own: Engine, part: Chunk) -> Line:
    counting = Counting(list(interests(count)))
    found = [sorted(counting.match(quote)) for quote in table]
    if found != own.match_batch(part.batch.slice(0, len(table))).column("matches").to_pylist():
        raise AssertionError("counting does not find what we find")
    took = min(seconds(lambda: [counting.match(quote) for quote in table]) for _ in range(2)) / len(table) * 1e6
    note = f"counting {took:,.0f} µs a message, of parsed ones, in numpy"
    return Line("speed-up", f"over a counting algorithm, {count:,}", took / ours, "times", 1000, "higher", note)


def _memory(count: int) -> tuple[float, float, float]:
    """Bytes per subscription: how much the process grows, how much of that the id takes, the kernel's own figure."""
    e = Engine()
    e.add_many(Subscription(f"first {i}", one.query()) for i, one in enumerate(interests(1_000)))
    e.match(b"<a/>")
    before = _resident(), e.kernel.stats()[2]
    rows = enumerate(interests(count))
    while some := [Subscription(i, one.query()) for i, one in islice(rows, 10_000)]:
        e.add_many(some)
    e.match(b"<a/>")
    del some
    after = _resident(), e.kernel.stats()[2]
    ids = e._ids
    number = sys.getsizeof(1 << 20)  # of an id and of the number it stands for
    held = sys.getsizeof(ids._numbers) + sys.getsizeof(ids._list) + 2 * number * count
    return (after[0] - before[0]) / count, held / count, (after[1] - before[1]) / count


def _resident() -> int:
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)  # what is free is not growth
    return int(psutil.Process().memory_info().rss)
