"""Messages that repeat an element: what an item costs must not depend on how many items its message has.

The same items come as one message of 1,600, as 16 messages of 100, and as 1,600 messages of one. A row is a kind of
query; the 5,000 queries of a row differ in their constants. Memory is that of a process that matches one large message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from xml.parsers import expat

import pyarrow as pa

from benchmarks.timing import Chunk, Line, interleaved, seconds
from twigcast import Broker, Engine, Subscription

QUERIES = 5_000
ITEMS = 1_600
FEW = 100
NESTED = 8
"""Items within items, where they nest."""

Make = Callable[[int, Random], str]
Run = Callable[[list[bytes]], object]


def _price(random: Random) -> int:
    return random.randrange(1_000)


FILTERS: dict[str, Make] = {
    "value, range": lambda k, r: f'/cat/item[name = "n{k}"][price > {_price(r)}]',
    "10 a value, ranges": lambda k, r: (
        f'/cat/item[name = "n{k % 500}" and price > {_price(r)} and price < {_price(r)}]'
    ),
    "number, range": lambda k, r: f"/cat/item[number = {k}][price > {_price(r)}]",
    "value or @id, not range": lambda k, r: (
        f'/cat/item[(name = "n{k}" or @id = "i{k * 7 % QUERIES}") and not(price > {_price(r)})]'
    ),
    "value, word": lambda k, r: f'/cat/item[name = "n{k}"][contains(text, "w{k % 50}")]',
    "position, value": lambda k, _: f'/cat/item[{k % ITEMS + 1}][name = "n{k}"]',
    "value, range anywhere": lambda k, r: f'/cat[item/name = "n{k}"][item/price > {_price(r)}]',
    "range": lambda _, r: f"/cat/item[price > {_price(r)}]",
    "two ranges": lambda _, r: f"/cat/item[price > {_price(r)} and number < {r.randrange(QUERIES)}]",
    "nested //, value, range": lambda k, r: f'//item[.//name = "n{k}"][.//price > {_price(r)}]',
}


def lines(quick: bool) -> Iterator[Line]:
    """Yield the cost of an item in one large message, against smaller ones, for every kind of query."""
    count = QUERIES // 10 if quick else QUERIES
    for name, make in FILTERS.items():
        yield from _rows(f"filter: {name}", _matching(_queries(make, count)), name.startswith("nested"))
    select = _queries(lambda k, _: f'/cat/item[name = "n{k}"]/price', count)
    yield from _rows("fragments: value", _selecting(select, "fragments"))
    transform = _queries(lambda k, _: f'<o>{{for $i in /cat/item where $i/name = "n{k}" return $i/price}}</o>', count)
    yield from _rows("transform: value", _selecting(transform))
    transform = _queries(
        lambda k, r: (
            f'<o>{{for $i in /cat/item where $i/name = "n{k}" and $i/price > {_price(r)} return $i/price}}</o>'
        ),
        count,
    )
    yield from _rows("transform: value, range", _selecting(transform))
    yield from _rows("block: value", _publishing(_queries(_block, count // 5)))
    yield from _rows("block: value, range", _publishing(_queries(_block_with_range, count // 5)))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # a process of its own, where nothing else grows
        yield from pool.submit(_quotes, 10_000 if quick else 100_000, 8_000).result()


def _block(k: int, _: Random, price: str = "price->p") -> str:
    return f'S/cat/item->i[name->n[. = "n{k}"]][{price}] FOLLOWED BY{{p = q, 1 s}} S/none->m[price->q]'


def _block_with_range(k: int, random: Random) -> str:
    return _block(k, random, f"price->p[. > {_price(random)}]")


def _queries(make: Make, count: int) -> list[str]:
    random = Random(1)
    return [make(k, random) for k in range(count)]


def _items(count: int) -> list[str]:
    random = Random(2)
    found = []
    for _ in range(count):
        k = random.randrange(QUERIES)
        words = " ".join(f"w{random.randrange(50)}" for _ in range(4))
        found.append(
            f'<item id="i{k}"><name>n{k}</name><number>{k}</number>'
            f"<price>{random.randrange(100_000) / 100}</price><text>{words}</text></item>"
        )
    return found


def _messages(items: list[str], size: int, nested: bool) -> list[bytes]:
    """Return messages of so many items each; nested ones hold each other, a few at a time."""
    found = []
    for at in range(0, len(items), size):
        part = items[at : at + size]
        if nested:
            chains = [part[i : i + NESTED] for i in range(0, len(part), NESTED)]
            part = ["".join(i.removesuffix("</item>") for i in chain) + "</item>" * len(chain) for chain in chains]
        found.append(f"<cat>{''.join(part)}</cat>".encode())
    return found


def _rows(name: str, run: Run, nested: bool = False) -> Iterator[Line]:
    items = _items(ITEMS)
    works = {size: _messages(items, size, nested) for size in (ITEMS, FEW, 1)}
    for messages in works.values():
        run(messages)
        run(messages)  # values that come again are cached
    variants = {str(size): partial(_on, run, messages) for size, messages in works.items()}
    took = interleaved(variants, [Chunk([], pa.record_batch({}))], repeat=5)
    each = {size: took[str(size)] / ITEMS * 1e6 for size in works}
    note = f"{each[ITEMS]:.2f} µs an item; of {FEW} {each[FEW]:.2f}, alone {each[1]:.2f}"
    yield Line("repeated", f"{name}, 1,600 : 100", each[ITEMS] / each[FEW], "times", 2.0, note=note)
    yield Line("repeated", f"{name}, 1,600 : 1", each[ITEMS] / each[1], "times", 3.0, note=note)


def _on(run: Run, messages: list[bytes], _: Chunk) -> None:
    run(messages)


def _engine(queries: list[str], result: str = "match") -> Engine:
    engine = Engine()
    engine.add_many(Subscription(k, query, result=result) for k, query in enumerate(queries))
    return engine


def _batch(messages: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"id": range(len(messages)), "xml": pa.array(messages, pa.binary())})


def _matching(queries: list[str]) -> Run:
    engine = _engine(queries)
    return lambda messages: engine.match_batch(_batch(messages), order="any")


def _selecting(queries: list[str], result: str = "match") -> Run:
    engine = _engine(queries, result)
    return lambda messages: engine.select_batch(_batch(messages))


def _publishing(queries: list[str]) -> Run:
    """Publish to correlations whose second block no message has: what is measured is the first."""
    broker = Broker()
    for k, query in enumerate(queries):
        broker.subscribe(query, id=k)

    def run(messages: list[bytes]) -> None:
        for message in messages:
            broker.publish(message, stream="S")

    return run


def _quotes(count: int, quotes: int) -> list[Line]:
    """Match one message of many quotes against subscriptions of a symbol and ranges, for time and memory."""
    random = Random(3)
    engine = _engine(
        [
            f'/quotes/quote[symbol = "S{k % 3_000}" and price > {_price(random)} and price < {_price(random)}'
            f" and volume > {random.randrange(10_000)}]"
            for k in range(count)
        ]
    )
    found = []
    for _ in range(quotes):
        found.append(
            f"<quote><symbol>S{random.randrange(3_000)}</symbol><price>{random.randrange(100_000) / 100}</price>"
            f"<volume>{random.randrange(10_000)}</volume><change>{random.random():.4f}</change></quote>"
        )
    message = f"<quotes>{''.join(found)}</quotes>".encode()
    batch = _batch([message])
    before = _reset_peak()
    first = seconds(lambda: engine.match_batch(batch))
    grown = _status("VmHWM") - before
    took = min(seconds(lambda: engine.match_batch(batch)) for _ in range(5))
    parse = min(seconds(lambda: expat.ParserCreate().Parse(message, True)) for _ in range(5))
    note = f"{len(message) >> 10} KB, {took * 1e3:.1f} ms, the first time {first * 1e3:.0f}, expat {parse * 1e3:.1f}"
    size = f"{quotes:,} quotes x {count:,}"
    return [
        Line("repeated", f"{size}, warm", took / parse, "X", 3.0, note=note),
        Line(
            "repeated",
            f"{size}, memory",
            grown / (len(message) / 1024),
            "times its size",
            50.0,
            note=f"{grown >> 10} MB",
        ),
    ]


def _reset_peak() -> int:
    """Make the peak of this process's memory what it takes now, and return that."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(key: str) -> int:
    """Return one of the sizes that Linux tells of this process, in KB."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{key}:"))
