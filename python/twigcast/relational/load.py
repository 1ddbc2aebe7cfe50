"""Subscriptions into the tables, a chunk at a time.

The first predicates of a conjunction, equalities before others, are one row (relational §4.3). The rest is a chain of
rows, each of which begins where another ends.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from twigcast.engine import Subscription, SubscriptionId
from twigcast.errors import OptionError
from twigcast.relational.compile import EQUALITIES, EXISTS, IN, Compiler, Row
from twigcast.relational.database import Database, as_table, temporary
from twigcast.relational.state import State, br_info
from twigcast.relational.statements import signature_of
from twigcast.subscription import is_id

_PREDICATE = [("path", pa.int32()), ("op", pa.string()), ("value", pa.string()), ("number", pa.float64())]
_CONSTANT = [("linear_path_id", pa.int32()), *_PREDICATE[1:]]
_CHAIN = pa.schema([("pre_id", pa.int64()), *_CONSTANT, ("chain_id", pa.int64()), ("final", pa.bool_())])
_FIRST = pa.schema([("first_id", pa.int32()), *_CONSTANT])
_SHAPE = pa.schema([("shape", pa.int32()), ("signature", pa.string())])
_BRANCH = pa.schema([("sub_id", pa.int64()), ("branch", pa.int32()), *_CONSTANT, ("br_info_id", pa.int32())])
_ALTERNATIVE = pa.schema([("sub_id", pa.int64()), ("number", pa.int64())])


class Predicate(NamedTuple):
    """A predicate of a conjunction, with the number of its linear path."""

    path: int
    op: str
    value: str
    number: float


class Conjunction(NamedTuple):
    """Predicates that a message has to meet together, in the order of their evaluation."""

    sub_id: int
    predicates: list[Predicate]


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


class Loader:
    """Enters subscriptions. Knows the shapes that the tables have; ``next_id`` numbers subscriptions and chains on."""

    def __init__(self, database: Database, state: State, unroll: int, next_id: int) -> None:
        self._database = database
        self._state = state
        self._k = unroll
        self.next_id = next_id
        self._shapes: dict[str, int] = {s: n for n, s in database.rows("SELECT shape, signature FROM unroll_shape")}

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def enter(self, compiler: Compiler, subscriptions: list[Subscription]) -> None:
        """Enter subscriptions, whose ids have to be new, into all tables."""
        _check_ids(self._database, [s.id for s in subscriptions])
        numbers: list[int] = []
        alternatives: list[tuple[int, int]] = []
        compiled: list[tuple[int, list[Row]]] = []
        paths: dict[str, bool] = {}
        for s in subscriptions:
            number = self._new_id()
            numbers.append(number)
            for i, rows in enumerate(compiler.compile(s)):
                sub_id = self._new_id() if i else number
                if i:
                    alternatives.append((sub_id, number))
                compiled.append((sub_id, rows))
                for row in rows:
                    paths[row.path] = paths.get(row.path, False) or row.op != EXISTS
        known = self._state.enter_paths(paths)
        self.store(
            [
                Conjunction(sub_id, [Predicate(known[r.path], r.op, r.value, r.number) for r in rows])
                for sub_id, rows in compiled
            ]
        )
        branches = [
            (sub_id, i, known[r.path], r) for sub_id, rows in compiled for i, r in enumerate(rows, 1) if r.points
        ]
        infos = self._state.enter_branches(dict.fromkeys((path, r.points) for _, _, path, r in branches))
        self._insert(
            "query_branch_point",
            _BRANCH,
            [(sub, i, path, r.op, r.value, r.number, infos[path, br_info(r.points)]) for sub, i, path, r in branches],
        )
        self._insert("query_alternative", _ALTERNATIVE, alternatives)
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
        self._database.insert("query_subscription", table)

    def _insert(self, table: str, schema: pa.Schema, rows: Collection[tuple[Any, ...]]) -> None:
        if rows:
            self._database.insert(table, as_table(rows, schema))

    def store(self, conjunctions: list[Conjunction]) -> None:
        """Enter the predicates of conjunctions: so many in a row, the rest as a chain."""
        if not conjunctions:
            return
        k = self._k
        rows: list[tuple[object, ...]] = []
        rests: list[tuple[int, int, Sequence[Predicate]]] = []
        fresh: list[tuple[int, str]] = []
        parted = [(sub, *_parted(predicates, k)) for sub, predicates in conjunctions]
        firsts = self._firsts([head[0] for _, head, _ in parted])
        for sub, head, rest in parted:
            signature = signature_of([(p.path, p.op) for p in head])
            shape = self._shapes.get(signature)
            if shape is None:
                # not their count: gc may have taken some away
                shape = self._shapes[signature] = max(self._shapes.values(), default=0) + 1
                fresh.append((shape, signature))
            chain = self._new_id() if rest else 0
            if rest:
                rests.append((sub, chain, rest))
            row: list[object] = [sub, shape, firsts.get(head[0], 0), chain, not chain]
            for p in head:
                row += p
            # what always holds: no path
            row += [0, "", "", 0.0] * (k - len(head))
            rows.append(tuple(row))
        self._insert("unroll_shape", _SHAPE, fresh)
        names = [("sub_id", pa.int64()), ("shape", pa.int32()), ("first_id", pa.int32()), ("chain_id", pa.int64())]
        each = [(f"{name}{i}", kind) for i in range(1, k + 1) for name, kind in _PREDICATE]
        # side by side, so that what a message's first equality finds is in few places
        table = as_table(rows, pa.schema([*names, ("final", pa.bool_()), *each])).sort_by("first_id")
        self._database.insert("predicate_unroll", table)
        self.chain(rests)

    def _firsts(self, firsts: list[Predicate]) -> dict[Predicate, int]:
        """Return the numbers of the equalities among first predicates, and enter new ones."""
        wanted = list(dict.fromkeys(p for p in firsts if p.op in EQUALITIES))
        if not wanted:
            return {}
        db = self._database
        same = db.dialect.same.format(a="f.value", b="n.value")
        with temporary(db, "new_first", as_table([(i, *p) for i, p in enumerate(wanted)], _FIRST)):
            found = db.rows(
                "SELECT n.first_id, f.first_id FROM new_first n JOIN unroll_first f"
                f" ON f.linear_path_id = n.linear_path_id AND f.op = n.op AND {same} AND f.number = n.number"
            )
        known = {wanted[place]: number for place, number in found}
        ((last,),) = db.rows("SELECT coalesce(max(first_id), 0) FROM unroll_first")
        fresh = {p: number for number, p in enumerate((p for p in wanted if p not in known), last + 1)}
        self._insert("unroll_first", _FIRST, [(number, *p) for p, number in fresh.items()])
        return known | fresh

    def chain(self, conjunctions: list[tuple[int, int, Sequence[Predicate]]]) -> None:
        """Enter chains of predicates: each begins where another ends, or at 0."""
        rows: list[tuple[object, ...]] = []
        for sub, before, predicates in conjunctions:
            for p in predicates[:-1]:
                after = self._new_id()
                rows.append((before, *p, after, False))
                before = after
            rows.append((before, *predicates[-1], sub, True))
        self._insert("query_predicate", _CHAIN, rows)


def _parted(predicates: list[Predicate], k: int) -> tuple[list[Predicate], list[Predicate]]:
    """Split predicates into those of the row and those of the chain, where reference data goes unless it is first."""
    references = [p for p in predicates if p.op == IN]
    if not references:
        return predicates[:k], predicates[k:]
    others = [p for p in predicates if p.op != IN]
    if not others:
        return references[:1], references[1:]
    equal = [p for p in others[k:] if p.op in EQUALITIES]
    return others[:k], [*references, *equal, *(p for p in others[k:] if p not in equal)]


def delete_conjunction(database: Database, sub_id: int) -> None:
    """Delete a conjunction: of its chain, from the end, the rows that no other subscription goes on from."""
    database.execute("DELETE FROM query_branch_point WHERE sub_id = ?", [sub_id])
    rest = database.rows("SELECT chain_id FROM predicate_unroll WHERE sub_id = ?", [sub_id])
    database.execute("DELETE FROM predicate_unroll WHERE sub_id = ?", [sub_id])
    ends = database.rows("SELECT pre_id FROM query_predicate WHERE chain_id = ? AND final", [sub_id])
    database.execute("DELETE FROM query_predicate WHERE chain_id = ? AND final", [sub_id])
    starts = {0, *(chain for (chain,) in rest)}
    for (chain,) in ends:
        while chain not in starts:
            if database.rows("SELECT 1 FROM query_predicate WHERE pre_id = ? LIMIT 1", [chain]):
                break
            above = database.rows("SELECT pre_id FROM query_predicate WHERE chain_id = ? AND NOT final", [chain])
            database.execute("DELETE FROM query_predicate WHERE chain_id = ? AND NOT final", [chain])
            chain = above[0][0] if above else 0


def _check_ids(db: Database, ids: list[SubscriptionId]) -> None:
    seen = set()
    for id in ids:
        if not is_id(id):
            raise OptionError("bad-id", f"a subscription's id is a string or a whole number of 64 bits, not {id!r}")
        if id in seen:
            raise OptionError("duplicate-id", f"there is a subscription {id!r} already")
        seen.add(id)
    columns = {"id": [str(id) for id in ids], "whole": [isinstance(id, int) for id in ids]}
    with temporary(db, "new_subscription", pa.table(columns)):
        found = db.rows("SELECT id, whole FROM query_subscription JOIN new_subscription USING (id, whole) LIMIT 1")
    for id, whole in found:
        raise OptionError("duplicate-id", f"there is a subscription {int(id) if whole else id!r} already")
