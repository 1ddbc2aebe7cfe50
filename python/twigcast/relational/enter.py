"""Subscriptions into the tables, a chunk at a time."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from twigcast.engine import Subscription, SubscriptionId
from twigcast.errors import OptionError
from twigcast.relational import compile as compiling
from twigcast.relational.compiler import Compiler
from twigcast.relational.database import Database
from twigcast.relational.load import Conjunction, Loader, Predicate
from twigcast.relational.state import Points, State, br_info
from twigcast.subscription import is_id


@contextmanager
def no_cycles() -> Iterator[None]:
    """Rows of predicates by the million have no cycles; to look for some takes as long as to make them."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def enter(
    database: Database, compiler: Compiler, state: State, loader: Loader, subscriptions: list[Subscription]
) -> None:
    """Into all tables; the ids are new."""
    _check_ids(database, [s.id for s in subscriptions])
    numbers: list[int] = []
    alternatives: list[tuple[int, int]] = []
    compiled: list[tuple[int, list[compiling.Row]]] = []
    paths: dict[str, bool] = {}
    for s in subscriptions:
        number = loader.next_id
        numbers.append(number)
        loader.next_id += 1
        for i, rows in enumerate(compiler.compile(s)):
            sub_id = number
            if i:
                sub_id = loader.next_id
                loader.next_id += 1
                alternatives.append((sub_id, number))
            compiled.append((sub_id, rows))
            for row in rows:
                valued = row.op != compiling.EXISTS
                if valued or row.path not in paths:
                    paths[row.path] = valued
    known = state.enter_paths(paths)
    conjunctions, branches = [], []
    for sub_id, rows in compiled:
        conjunctions.append(Conjunction(sub_id, [Predicate(known[r.path], r.op, r.value, r.number) for r in rows]))
        branches += [(sub_id, i, known[r.path], r) for i, r in enumerate(rows, 1) if r.points]
    loader.store(conjunctions)
    _enter_branches(database, state, branches)
    scopes = [json.dumps([compiler.declared(s) or None, s.default_namespace, s.dialect]) for s in subscriptions]
    table = pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "id": [str(s.id) for s in subscriptions],
            "whole": [isinstance(s.id, int) for s in subscriptions],
            "query": [s.query for s in subscriptions],
            "scope": scopes,
        }
    )
    database.insert("query_subscription", table)
    if alternatives:
        subs, of = zip(*alternatives, strict=True)
        database.insert("query_alternative", pa.table({"sub_id": subs, "number": of}))


def _enter_branches(database: Database, state: State, branches: list[tuple[int, int, int, compiling.Row]]) -> None:
    if not branches:
        return
    wanted: dict[tuple[int, Points], None] = dict.fromkeys((path, row.points) for _, _, path, row in branches)
    known = state.enter_branches(wanted)
    table = pa.table(
        {
            "sub_id": pa.array([sub for sub, *_ in branches], pa.int64()),
            "branch": pa.array([i for _, i, *_ in branches], pa.int32()),
            "linear_path_id": pa.array([path for _, _, path, _ in branches], pa.int32()),
            "op": [row.op for *_, row in branches],
            "value": [row.value for *_, row in branches],
            "number": pa.array([row.number for *_, row in branches], pa.float64()),
            "br_info_id": pa.array([known[path, br_info(row.points)] for _, _, path, row in branches], pa.int32()),
        }
    )
    database.insert("query_branch_point", table)


def _check_ids(db: Database, ids: list[SubscriptionId]) -> None:
    seen = set()
    for id in ids:
        if not is_id(id):
            raise OptionError("bad-id", f"a subscription's id is a string or a whole number of 64 bits, not {id!r}")
        if id in seen:
            raise OptionError("duplicate-id", f"there is a subscription {id!r} already")
        seen.add(id)
    db.execute("CREATE TEMP TABLE new_subscription (id TEXT, whole BOOLEAN)")
    columns = {"id": [str(id) for id in ids], "whole": [isinstance(id, int) for id in ids]}
    db.insert("new_subscription", pa.table(columns))
    found = db.rows(
        "SELECT s.id, s.whole FROM query_subscription s"
        " JOIN new_subscription n ON n.id = s.id AND n.whole = s.whole LIMIT 1"
    )
    db.execute("DROP TABLE new_subscription")
    for id, whole in found:
        raise OptionError("duplicate-id", f"there is a subscription {int(id) if whole else id!r} already")
