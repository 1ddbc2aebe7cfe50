"""Conjunctions into the tables of a plan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from twigcast.relational.compile import EQUALITIES, IN
from twigcast.relational.database import Database
from twigcast.relational.plans import Plan
from twigcast.relational.statements import signature_of

_RANGES = ("<", "<=", ">", ">=")

_PREDICATE = pa.schema(
    [
        ("pre_id", pa.int64()),
        ("linear_path_id", pa.int32()),
        ("op", pa.string()),
        ("value", pa.string()),
        ("number", pa.float64()),
        ("chain_id", pa.int64()),
        ("final", pa.bool_()),
    ]
)
_NEW = pa.schema([("sub_id", pa.int64()), ("level", pa.int32()), *list(_PREDICATE)[1:5], ("final", pa.bool_())])

_FIRST = pa.schema([("place", pa.int32()), *list(_PREDICATE)[1:5]])


class Predicate(NamedTuple):
    path: int
    op: str
    value: str
    number: float


class Conjunction(NamedTuple):
    sub_id: int
    predicates: list[Predicate]


def unroll_table(k: int) -> str:
    columns = ", ".join(
        f"path{i} INTEGER NOT NULL, op{i} TEXT NOT NULL, value{i} TEXT NOT NULL, number{i} DOUBLE PRECISION NOT NULL"
        for i in range(1, k + 1)
    )
    return (
        "CREATE TABLE predicate_unroll (sub_id BIGINT NOT NULL, shape INTEGER NOT NULL, first_id INTEGER DEFAULT 0, "
        f"chain_id BIGINT NOT NULL, final BOOLEAN NOT NULL, {columns})"
    )


class Loader:
    """Knows the shapes and buckets that the tables have; ``next_id`` numbers chains on from there."""

    def __init__(self, database: Database, plan: Plan, next_id: int) -> None:
        self._database = database
        self._plan = plan
        self.next_id = next_id
        self._shapes: dict[str, int] = {s: n for n, s in database.rows("SELECT shape, signature FROM unroll_shape")}
        found = database.rows("SELECT linear_path_id, op, bounds FROM query_bucket")
        self._buckets: dict[tuple[int, str], list[float]] = {(path, op): list(bounds) for path, op, bounds in found}

    def store(self, conjunctions: list[Conjunction]) -> None:
        if not conjunctions:
            return
        if self._plan.has_buckets:
            self._make_buckets(conjunctions)
            conjunctions = [
                Conjunction(sub, bucketed(predicates, self._buckets, _range_of)) for sub, predicates in conjunctions
            ]
        if self._plan.unrolls:
            self._unroll(conjunctions)
        elif self._plan.shares:
            self._share(conjunctions)
        else:
            self._chain([(sub, 0, predicates) for sub, predicates in conjunctions])

    # -- recursive: a chain for each conjunction

    def _chain(self, conjunctions: list[tuple[int, int, Sequence[Predicate]]]) -> None:
        """Each begins where another chain ends, or at 0."""
        columns: list[list[object]] = [[] for _ in _PREDICATE]
        pre_id, path, op, value, number, chain_id, final = columns
        for sub, start, predicates in conjunctions:
            last = len(predicates) - 1
            before = start
            for i, p in enumerate(predicates):
                pre_id.append(before)
                path.append(p.path)
                op.append(p.op)
                value.append(p.value)
                number.append(p.number)
                if i < last:
                    before = self.next_id
                    self.next_id += 1
                chain_id.append(sub if i == last else before)
                final.append(i == last)
        if pre_id:
            self._database.insert("query_predicate", pa.table(columns, schema=_PREDICATE))

    # -- unroll: k predicates in a row

    def _unroll(self, conjunctions: list[Conjunction]) -> None:
        k = self._plan.unroll
        names = ["sub_id", "shape", "first_id", "chain_id", "final"]
        names += [f"{part}{i}" for i in range(1, k + 1) for part in ("path", "op", "value", "number")]
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
            chain = 0
            if rest:
                chain = self.next_id
                self.next_id += 1
                rests.append((sub, chain, rest))
            row: list[object] = [sub, shape, firsts.get(head[0], 0), chain, not chain]
            for p in head:
                row += p
            # what always holds: no path
            row += [0, "", "", 0.0] * (k - len(head))
            rows.append(tuple(row))
        if fresh:
            shapes, signatures = zip(*fresh, strict=True)
            table = pa.table({"shape": pa.array(shapes, pa.int32()), "signature": list(signatures)})
            self._database.insert("unroll_shape", table)
        types = [
            pa.int64(),
            pa.int32(),
            pa.int32(),
            pa.int64(),
            pa.bool_(),
            *[pa.int32(), pa.string(), pa.string(), pa.float64()] * k,
        ]
        arrays = [pa.array(column, type) for column, type in zip(zip(*rows, strict=True), types, strict=True)]
        # side by side, so that what a message's first equality finds is in few places
        table = pa.Table.from_arrays(arrays, names).sort_by("first_id")
        self._database.insert("predicate_unroll", table)
        self._chain(rests)

    def _firsts(self, firsts: list[Predicate]) -> dict[Predicate, int]:
        """The numbers of the equalities among them; new ones are entered."""
        wanted = list(dict.fromkeys(p for p in firsts if p.op in EQUALITIES))
        if not wanted:
            return {}
        db = self._database
        db.execute(
            "CREATE TEMP TABLE new_first (place INTEGER, linear_path_id INTEGER, op TEXT, value TEXT,"
            " number DOUBLE PRECISION)"
        )
        columns = [range(len(wanted)), *zip(*wanted, strict=True)]
        db.insert("new_first", pa.table([pa.array(c, t) for c, t in zip(columns, _FIRST.types, strict=True)], _FIRST))
        same = db.dialect.same.format(a="f.value", b="n.value")
        found = db.rows(
            "SELECT n.place, f.first_id FROM new_first n JOIN unroll_first f ON f.linear_path_id = n.linear_path_id"
            f" AND f.op = n.op AND {same} AND f.number = n.number"
        )
        db.execute("DROP TABLE new_first")
        known = {wanted[place]: number for place, number in found}
        ((last,),) = db.rows("SELECT coalesce(max(first_id), 0) FROM unroll_first")
        fresh = {p: number for number, p in enumerate((p for p in wanted if p not in known), last + 1)}
        if fresh:
            columns = [list(fresh.values()), *zip(*fresh, strict=True)]
            arrays = [pa.array(c, t) for c, t in zip(columns, _FIRST.types, strict=True)]
            db.insert("unroll_first", pa.table(arrays, ["first_id", *_FIRST.names[1:]]))
        return known | fresh

    # -- share: equal predicates after equal chains once

    def _share(self, conjunctions: list[Conjunction]) -> None:
        """Level by level, in SQL: what is there already is found by a join."""
        columns: list[list[object]] = [[] for _ in _NEW]
        for sub, predicates in conjunctions:
            last = len(predicates) - 1
            for level, p in enumerate(predicates):
                for column, cell in zip(columns, (sub, level, *p, level == last), strict=True):
                    column.append(cell)
        levels = max(len(predicates) for _, predicates in conjunctions)
        db = self._database
        db.execute(
            "CREATE TEMP TABLE new_predicate (sub_id BIGINT, level INTEGER, linear_path_id INTEGER, op TEXT,"
            " value TEXT, number DOUBLE PRECISION, final BOOLEAN)"
        )
        db.insert("new_predicate", pa.table(columns, schema=_NEW))
        db.execute(
            "CREATE TEMP TABLE chain_0 AS SELECT DISTINCT sub_id, CAST(0 AS BIGINT) AS pre_id FROM new_predicate"
        )
        same = (
            "q.pre_id = c.pre_id AND q.linear_path_id = n.linear_path_id AND q.op = n.op AND q.value = n.value"
            " AND q.number = n.number AND NOT q.final"
        )
        for level in range(levels):
            here = f"FROM new_predicate n JOIN chain_{level} c ON c.sub_id = n.sub_id WHERE n.level = {level}"
            columns_of = "c.pre_id, n.linear_path_id, n.op, n.value, n.number"
            if level + 1 < levels:
                # as tables: a statement does not see what it inserts itself
                db.execute(
                    f"CREATE TEMP TABLE fresh AS SELECT DISTINCT {columns_of} {here} AND NOT n.final"
                    f" AND NOT EXISTS (SELECT 1 FROM query_predicate q WHERE {same})"
                )
                db.execute(
                    "INSERT INTO query_predicate SELECT pre_id, linear_path_id, op, value, number,"
                    f" {self.next_id} + row_number() OVER () - 1, FALSE FROM fresh"
                )
                self.next_id += int(db.rows("SELECT count(*) FROM fresh")[0][0])
                db.execute("DROP TABLE fresh")
                db.execute(
                    f"CREATE TEMP TABLE chain_{level + 1} AS SELECT n.sub_id, q.chain_id AS pre_id"
                    f" FROM new_predicate n JOIN chain_{level} c ON c.sub_id = n.sub_id"
                    f" JOIN query_predicate q ON {same} WHERE n.level = {level} AND NOT n.final"
                )
            db.execute(f"INSERT INTO query_predicate SELECT {columns_of}, n.sub_id, TRUE {here} AND n.final")
            db.execute(f"DROP TABLE chain_{level}")
        db.execute("DROP TABLE new_predicate")

    # -- bucket: subscriptions whose first range begins in the same part of it share a coarser one

    def _make_buckets(self, conjunctions: list[Conjunction]) -> None:
        found = bounds_of((predicates for _, predicates in conjunctions), self._plan.buckets, _range_of)
        for key, bounds in found.items():
            if key in self._buckets:
                continue
            self._buckets[key] = bounds
            table = pa.table(
                {
                    "linear_path_id": pa.array([key[0]], pa.int32()),
                    "op": [key[1]],
                    "bounds": pa.array([bounds], pa.list_(pa.float64())),
                }
            )
            self._database.insert("query_bucket", table)


def _range_of(p: Predicate) -> tuple[int, str]:
    return p.path, p.op


class _Ranged(Protocol):
    @property
    def op(self) -> str: ...

    @property
    def number(self) -> float: ...

    def _replace(self: R, *, number: float) -> R: ...


R = TypeVar("R", bound=_Ranged)
Key = TypeVar("Key")


def bounds_of(chains: Iterable[Sequence[R]], n: int, key: Callable[[R], Key]) -> dict[Key, list[float]]:
    """Where the first ranges of conjunctions are parted, if they have more than n constants: into parts of one size."""
    constants: dict[Key, list[float]] = {}
    for predicates in chains:
        p = next((p for p in predicates if p.op in _RANGES), None)
        if p is not None:
            constants.setdefault(key(p), []).append(p.number)
    bounds = {}
    for name, numbers in constants.items():
        if len(set(numbers)) > n:
            numbers.sort()
            bounds[name] = sorted({numbers[i * len(numbers) // n] for i in range(n)})
    return bounds


def bucketed(predicates: list[R], bounds: Mapping[Key, list[float]], key: Callable[[R], Key]) -> list[R]:
    """``x > 7 and P`` as ``x > 5 and P and x > 7``, where 5 is a bound (§4.2)."""
    for i, p in enumerate(predicates):
        if p.op in _RANGES:
            parts = bounds.get(key(p))
            if parts is None or len(predicates) == i + 1:
                return predicates
            if p.op in (">", ">="):
                at = bisect_right(parts, p.number)
                bound = parts[at - 1] if at else float("-inf")
            else:
                at = bisect_left(parts, p.number)
                bound = parts[at] if at < len(parts) else float("inf")
            return [*predicates[:i], p._replace(number=bound), *predicates[i + 1 :], p]
    return predicates


def _parted(predicates: list[Predicate], k: int) -> tuple[list[Predicate], list[Predicate]]:
    """What goes into an unrolled row, and what is left for a chain: reference data, but as the first predicate."""
    references = [p for p in predicates if p.op == IN]
    if not references:
        return predicates[:k], predicates[k:]
    others = [p for p in predicates if p.op != IN]
    if not others:
        return references[:1], references[1:]
    equal = [p for p in others[k:] if p.op in EQUALITIES]
    return others[:k], [*references, *equal, *(p for p in others[k:] if p not in equal)]


def delete_conjunction(database: Database, sub_id: int) -> None:
    """Takes the chain away from its end: as far as no other subscription goes on from it."""
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
