"""The relational paper's layouts of predicates (relational §4), beside the one that Twigcast has.

Conjunctions may be chains, chains that share equal beginnings, or chains with a coarser range before an exact one. An
engine of these layouts finds what ``twigcast.relational`` finds, whose statements read chains of every kind; so any
engine opens their databases, and adds to them by the layout of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from twigcast import relational
from twigcast.engine import Subscription, SubscriptionId
from twigcast.errors import OptionError
from twigcast.papers import relational_cost as costs
from twigcast.papers.relational_plans import AUTO, BUCKETS, PLANS, Plan, bounds_of, bucketed
from twigcast.relational.database import Database, as_table, open_database, temporary
from twigcast.relational.load import Conjunction, Loader, Predicate
from twigcast.relational.state import State
from twigcast.relational.tables import UNROLL, create

_NEW = pa.schema(
    [
        ("sub_id", pa.int64()),
        ("level", pa.int32()),
        ("linear_path_id", pa.int32()),
        ("op", pa.string()),
        ("value", pa.string()),
        ("number", pa.float64()),
        ("final", pa.bool_()),
    ]
)
_BUCKET = pa.schema([("linear_path_id", pa.int32()), ("op", pa.string()), ("bounds", pa.list_(pa.float64()))])
_SAMPLE = 1_000

__all__ = ["PLANS", "RelationalEngine"]


class PlannedLoader(Loader):
    """Enters conjunctions by the layout of a plan."""

    def __init__(self, database: Database, state: State, plan: Plan, unroll: int, next_id: int) -> None:
        super().__init__(database, state, unroll, next_id)
        self._plan = plan
        found = database.rows("SELECT linear_path_id, op, bounds FROM query_bucket")
        self._buckets: dict[tuple[int, str], list[float]] = {(path, op): list(bounds) for path, op, bounds in found}

    def store(self, conjunctions: list[Conjunction]) -> None:
        """Enter the predicates of conjunctions."""
        if self._plan.has_buckets:
            self._make_buckets(conjunctions)
            conjunctions = [
                Conjunction(sub, bucketed(predicates, self._buckets, _range_of)) for sub, predicates in conjunctions
            ]
        if self._plan.unrolls:
            super().store(conjunctions)
        elif self._plan.shares and conjunctions:
            self._share(conjunctions)
        else:
            self.chain([(sub, 0, predicates) for sub, predicates in conjunctions])

    # -- share: equal predicates after equal chains once

    def _share(self, conjunctions: list[Conjunction]) -> None:
        """Level by level, in SQL: what is there already is found by a join."""
        rows = [
            (sub, level, *p, level + 1 == len(predicates))
            for sub, predicates in conjunctions
            for level, p in enumerate(predicates)
        ]
        levels = max(len(predicates) for _, predicates in conjunctions)
        db = self._database
        with temporary(db, "new_predicate", as_table(rows, _NEW)):
            self._share_levels(db, levels)

    def _share_levels(self, db: Database, levels: int) -> None:
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

    # -- bucket: subscriptions whose first range begins in the same part of it share a coarser one

    def _make_buckets(self, conjunctions: list[Conjunction]) -> None:
        found = bounds_of((predicates for _, predicates in conjunctions), self._plan.buckets, _range_of)
        for key, bounds in found.items():
            if key in self._buckets:
                continue
            self._buckets[key] = bounds
            self._database.insert("query_bucket", as_table([(*key, bounds)], _BUCKET))


def _range_of(p: Predicate) -> tuple[int, str]:
    return p.path, p.op


class RelationalEngine(relational.RelationalEngine):
    """``plan`` is one of ``PLANS`` or ``auto``: the cheapest by the cost model, when the first subscriptions come in.

    A database that holds subscriptions has a plan already: there it must be the same, or None.
    """

    def __init__(
        self,
        database: str | Database | None = None,
        *,
        plan: str | None = None,
        unroll: int = UNROLL,
        buckets: int = BUCKETS,
        **options: Any,
    ) -> None:
        if plan not in (None, AUTO):
            Plan(str(plan), unroll, buckets)
        opened = open_database(database) if database is None or isinstance(database, str) else database
        is_new = not opened.has_tables()
        if is_new:
            create(opened, unroll)
        super().__init__(opened, **options)
        self._auto = plan == AUTO or (plan is None and is_new)
        self._seen = 0, 0
        """Messages, and their values: for estimates."""
        ((name, self._unroll, kept),) = opened.rows("SELECT plan, unroll, buckets FROM relational_meta")
        self.plan = Plan(name, self._unroll, kept)
        wanted = Plan(name if plan in (None, AUTO) else str(plan), self._unroll, buckets if is_new else kept)
        if wanted.name != name and len(self):
            raise OptionError(
                "other-plan",
                f"the database holds its subscriptions for the plan {name!r}, not {plan!r}",
                hint="leave the plan out, or load the subscriptions into another database",
            )
        self._use(wanted)

    def _use(self, plan: Plan) -> None:
        if plan != self.plan:
            self.database.execute("UPDATE relational_meta SET plan = ?, buckets = ?", [plan.name, plan.buckets])
            self.plan = plan

    def _loader(self, state: State, next_id: int) -> Loader:
        return PlannedLoader(self.database, state, self.plan, self._unroll, next_id)

    def add_many(self, subscriptions: Iterable[Subscription], *, instead_of: Iterable[SubscriptionId] = ()) -> None:
        """As ``twigcast.relational`` has it; once there are subscriptions, the plan stays."""
        every = list(subscriptions)
        if self._auto and every and not len(self):
            self._use(Plan(self._cheapest(every), self._unroll, self.plan.buckets))
        self._auto = self._auto and not every
        super().add_many(every, instead_of=instead_of)

    def _cheapest(self, subscriptions: Sequence[Subscription]) -> str:
        sample = [rows for s in subscriptions[:_SAMPLE] for rows in self.compile(s)]
        return costs.choose(costs.measure(sample, self.plan, len(subscriptions)))

    def match_rows(self, xml: pa.Array) -> tuple[pa.Table, pa.Array]:
        """As ``twigcast.relational`` has it, counting messages."""
        self._seen = self._seen[0] + len(xml), self._seen[1]
        return super().match_rows(xml)

    def _run(self, shreds: pa.Table) -> pa.Table:
        self._seen = self._seen[0], self._seen[1] + len(shreds)
        return super()._run(shreds)

    def costs(self) -> list[costs.Cost]:
        """Return the estimated costs of all plans for what is in the tables, cheapest first (relational §4)."""
        sample = [rows for s in islice(self.subscriptions(), _SAMPLE) for rows in self.compile(s)]
        messages, values = self._seen
        if not messages:
            return costs.measure(sample, self.plan, len(self))
        ((tag_paths, matches),) = self.database.rows(
            "SELECT (SELECT count(*) FROM tagpath_map), (SELECT count(*) FROM path_match)"
        )
        return costs.measure(sample, self.plan, len(self), m=values / messages, p=matches / max(1, tag_paths))
