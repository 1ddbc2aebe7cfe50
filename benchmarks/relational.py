"""The relational engine on DuckDB: against a join by hand on a flat table of the same data, and plan by plan."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time

import psutil

from benchmarks.stock import BATCH, Join, interests, message, quotes
from benchmarks.timing import Chunk, Line, chunks
from twigcast import Engine, Subscription
from twigcast.papers.experiments.relational import SYMBOLS, Stocks, loaded
from twigcast.papers.relational import RelationalEngine
from twigcast.relational.duckdb_database import DuckDB


def lines(quick: bool) -> Iterator[Line]:
    many = 50_000 if quick else 1_000_000
    few = many // 10
    table = list(quotes(BATCH))
    (part,) = chunks([message(quote) for quote in table], BATCH)
    engine = RelationalEngine(DuckDB(threads=1), plan="unroll")
    engine.add_many(Subscription(i, one.query()) for i, one in enumerate(interests(many)))
    join = Join(many, table)
    best = _turns({"ours": partial(_match, engine, part), "join": partial(join.run, part)}, 6)
    matches = _match(engine, part)
    if matches != join.found:
        raise AssertionError(f"the hand-written join finds {join.found} matches, we find {matches}")
    note = (
        f"{best['ours'] * 1e3:.0f} ms for {BATCH:,} messages, shredding included; the join {best['join'] * 1e3:.0f} ms,"
    )
    note += f" of parsed ones; {matches:,} matches"
    yield Line(
        "relational", f"unroll, {many:,} : hand-written join", best["ours"] / best["join"], "times", 2, note=note
    )
    engine.close()

    # as many symbols as it takes for the same matches
    sets = {n: Stocks(n, notifications=BATCH, symbols=n // 30) for n in (few, many)}
    grown = {n: loaded(stocks, "unroll") for n, stocks in sets.items()}
    batches = {n: stocks.batch(BATCH) for n, stocks in sets.items()}
    found = {n: grown[n].match_rows(batches[n])[0].num_rows for n in sets}
    best = _turns({str(n): partial(grown[n].match_rows, batches[n]) for n in sets}, 6)
    note = f"{best[str(few)] * 1e3:.0f} ms and {found[few]:,} matches with {few:,}; {found[many]:,} with {many:,}"
    yield Line("relational", f"unroll, {many:,} : {few:,}", best[str(many)] / best[str(few)], "times", 1.5, note=note)
    for one in grown.values():
        one.close()

    # both ends of Table 5.1; the paper calls a selectivity low where many match
    for notifications in (1_000, 1_000_000):
        stocks = Stocks(many, notifications * many // 1_000_000, SYMBOLS * many // 1_000_000)
        engines = {plan: loaded(stocks, plan) for plan in ("share", "share-bucket")}
        batch = stocks.batch(BATCH)
        found = {0: engines["share"].match_rows(batch)[0].num_rows}
        best = _turns({plan: partial(one.match_rows, batch) for plan, one in engines.items()}, 2)
        for one in engines.values():
            one.close()
        note = f"share {best['share']:.2f} s, share-bucket {best['share-bucket']:.2f} s, {found[0]:,} notifications"
        name = f"share-bucket : share, {many:,}, {stocks.notifications:,} match"
        yield Line("relational", name, best["share-bucket"] / best["share"], "times", 1, note=note)

    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        path = Path(folder) / "rules.db"
        pool.submit(_load, str(path), many).result()
        ours = _fresh(_resident_relational, str(path), few)
        automaton = _fresh(_resident_automaton, many, few)
    note = f"opened and matching 100 messages; the automaton {automaton:.0f} MB"
    yield Line("memory", f"relational, {many:,}", ours, "MB", automaton, note=note)


def _match(engine: RelationalEngine, part: Chunk) -> int:
    return int(engine.match_rows(part.batch.column("xml"))[0].num_rows)


def _turns(variants: dict[str, object], repeat: int) -> dict[str, float]:
    """CPU seconds of the process: a database works in threads of its own."""
    best = dict.fromkeys(variants, float("inf"))
    for run in variants.values():
        run()  # type: ignore[operator]
    gc.collect()
    for _ in range(repeat):
        for name, run in variants.items():
            start = process_time()
            run()  # type: ignore[operator]
            best[name] = min(best[name], process_time() - start)
    return best


def _load(path: str, count: int) -> None:
    engine = RelationalEngine(f"duckdb:///{path}", plan="unroll")
    engine.add_many(Subscription(i, one.query()) for i, one in enumerate(interests(count)))
    engine.close()


def _fresh(run: object, *arguments: object) -> float:
    """In a process of its own, where nothing else grows."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return float(pool.submit(run, *arguments).result())  # type: ignore[arg-type]


def _resident_relational(path: str, _: int) -> float:
    engine = RelationalEngine(f"duckdb:///{path}")
    for quote in quotes(100):
        engine.match(message(quote))
    return _megabytes()


def _resident_automaton(count: int, _: int) -> float:
    engine = Engine()
    engine.add_many(Subscription(i, one.query()) for i, one in enumerate(interests(count)))
    for quote in quotes(100):
        engine.match(message(quote))
    return _megabytes()


def _megabytes() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss / 1e6)
