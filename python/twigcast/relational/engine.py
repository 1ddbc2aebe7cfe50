"""The relational engine: subscriptions as tables, matching as joins, on a database of one's choice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import RLock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.common.forking import refuse_if_forked_in_use
from twigcast.engine import Failure, Subscription, SubscriptionId
from twigcast.engine.columns import columns_of, message_of, raise_if
from twigcast.engine.results import Selected
from twigcast.engine.shares import Result
from twigcast.errors import OptionError
from twigcast.lang.names import check_namespaces
from twigcast.limits import Limits
from twigcast.relational import reference as references
from twigcast.relational.compile import Row
from twigcast.relational.compiler import Compiler
from twigcast.relational.cost import Cost, choose, measure
from twigcast.relational.database import Database, StepByStep, open_database
from twigcast.relational.enter import enter, no_cycles
from twigcast.relational.layout import layout_of
from twigcast.relational.load import Loader, delete_conjunction
from twigcast.relational.lookup import named
from twigcast.relational.migrate import create, migrate
from twigcast.relational.orphans import delete_orphans
from twigcast.relational.plans import AUTO, BUCKETS, UNROLL, Plan
from twigcast.relational.state import State
from twigcast.relational.statements import Layout, match_statement
from twigcast.subscription import is_id

# Subscriptions that are on their way into the tables at one time.
CHUNK = 50_000


class RelationalEngine:
    """All subscriptions, in a database; messages are matched by one statement per batch.

    ``database`` is a URL (see ``open_database``) or a Database; ``plan`` one of ``PLANS`` or ``auto``, which a database
    that has tables already has chosen: there it must be the same, or None.
    """

    def __init__(
        self,
        database: str | Database | None = None,
        *,
        plan: str | None = None,
        unroll: int = UNROLL,
        buckets: int = BUCKETS,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise OptionError("bad-limits", f"limits are a twigcast.Limits, not {type(limits).__name__}")
        check_namespaces(namespaces)
        if plan not in (None, AUTO):
            Plan(plan, unroll, buckets)
        self.namespaces = dict(namespaces or {})
        self.limits = limits or Limits()
        self._limits = self.limits.of_kernel()
        self._compiler = Compiler(self.namespaces, self._references)
        self._lock = RLock()
        refuse_if_forked_in_use(self, "_lock")
        self._statement: tuple[int, str] | None = None
        self._seen = 0, 0
        """Messages, and their values: for estimates."""
        self.database = open_database(database) if database is None or isinstance(database, str) else database
        has_tables = self.database.has_tables()
        self._auto = plan == AUTO or (plan is None and not has_tables)
        if has_tables:
            migrate(self.database)
        else:
            create(self.database, Plan("unroll" if plan in (None, AUTO) else str(plan), unroll, buckets))
        self.plan = self._read_plan()
        if plan not in (None, AUTO, self.plan.name):
            if len(self):
                raise OptionError(
                    "other-plan",
                    f"the database holds its subscriptions for the plan {self.plan.name!r}, not {plan!r}",
                    hint="leave the plan out, or load the subscriptions into another database",
                )
            self._replan(Plan(str(plan), unroll, buckets))
        self._state: State | None = None

    def close(self) -> None:
        self.database.close()

    def __len__(self) -> int:
        return int(self.database.rows("SELECT count(*) FROM query_subscription")[0][0])

    def __contains__(self, id: SubscriptionId) -> bool:
        return is_id(id) and bool(self._numbers(id))

    def _numbers(self, id: SubscriptionId) -> list[int]:
        found = self.database.rows(
            "SELECT number FROM query_subscription WHERE id = ? AND whole = ?", [str(id), isinstance(id, int)]
        )
        return [number for (number,) in found]

    def numbers(self) -> Iterator[tuple[int, SubscriptionId]]:
        """The numbers of the subscriptions, in the order in which they came, and their ids."""
        for number, id, whole in self.database.rows("SELECT number, id, whole FROM query_subscription ORDER BY number"):
            yield number, int(id) if whole else id

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them, in the order in which they came."""
        for id, whole, query, scope in self.database.rows(
            "SELECT id, whole, query, scope FROM query_subscription ORDER BY number"
        ):
            values = json.loads(scope)
            yield Subscription(int(id) if whole else id, query, *values)

    def _read_plan(self) -> Plan:
        ((name, unroll, buckets),) = self.database.rows("SELECT plan, unroll, buckets FROM relational_meta")
        return Plan(name, unroll, buckets)

    def _replan(self, plan: Plan) -> None:
        with self.database.change():
            self.database.execute("DROP TABLE predicate_unroll")
            create(self.database, plan, again=True)
        self.plan = plan

    # -- subscribing

    def add(
        self,
        query: str,
        *,
        id: SubscriptionId | None = None,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
        result: str = "match",
        deliver_empty: bool = False,
    ) -> SubscriptionId:
        """Adds one subscription and returns its id, which is the next free number if none is given."""
        with self._lock:
            if id is None:
                id = int(self.database.rows("SELECT count(*) FROM query_subscription")[0][0]) + 1
                while id in self:
                    id += 1
            self.add_many([Subscription(id, query, namespaces, default_namespace, dialect, result, deliver_empty)])
        return id

    def add_many(self, subscriptions: Iterable[Subscription], *, instead_of: Iterable[SubscriptionId] = ()) -> None:
        """Adds all of them, and removes those in whose place they come; or, if one cannot be accepted, does nothing."""
        rest = iter(subscriptions)
        some = list(islice(rest, CHUNK))
        if not some:
            return
        with self._lock:
            if self._auto:
                self._choose(some)
            try:
                with self.database.change():
                    self._remove_all(instead_of)
                    state = self._current()
                    ((next_id,),) = self.database.rows("SELECT next_id FROM relational_meta")
                    loader = Loader(self.database, self.plan, next_id)
                    state.read_tag_paths()
                    state.shredder.news()
                    with no_cycles():
                        while some:
                            enter(self.database, self._compiler, state, loader, some)
                            some = list(islice(rest, CHUNK))
                    state.write_news(state.shredder.news())
                    self._changed(state, loader.next_id)
            except BaseException:
                self._state = None
                raise

    def _changed(self, state: State, next_id: int | None = None) -> None:
        if next_id is not None:
            self.database.execute("UPDATE relational_meta SET next_id = ?", [next_id])
        self.database.execute("UPDATE relational_meta SET changes = changes + 1")
        ((state.changes,),) = self.database.rows("SELECT changes FROM relational_meta")

    def _choose(self, subscriptions: list[Subscription]) -> None:
        """The plan, by what the first of the subscriptions look like; once there are some, it stays."""
        if not len(self):
            self._auto = False
            sample = [rows for s in subscriptions[:1000] for rows in self.compile(s)]
            best = choose(measure(sample, self.plan, len(subscriptions)))
            if best != self.plan.name:
                self._replan(Plan(best, self.plan.unroll, self.plan.buckets))
        self._auto = False

    def compile(self, s: Subscription) -> list[list[Row]]:
        """The conjunctions of a subscription, predicates in the order of their evaluation. Raises QueryError."""
        return self._compiler.compile(s)

    def declared(self, s: Subscription) -> dict[str, str]:
        """The prefixes that a query may use, the engine's among them: who opens the database next may have others."""
        return self._compiler.declared(s)

    def _references(self) -> list[str]:
        return [reference for (reference,) in self.database.rows("SELECT reference FROM reference_column")]

    def register(self, name: str, data: Any) -> None:
        """Reference data for ``path = $name.column``: a CSV or Parquet file, a table of Arrow, pandas or Spark, or
        ``table:NAME``, a table of the database. Registered again, it takes the place of the old one."""
        columns = references.columns_of(name, data, self.database)
        with self._lock, self.database.change():
            for reference in self._references():
                if reference.startswith(f"{name}."):
                    self.database.execute("DELETE FROM reference_value WHERE reference = ?", [reference])
                    self.database.execute("DELETE FROM reference_column WHERE reference = ?", [reference])
            texts = pa.array(list(columns), pa.string())
            self.database.insert("reference_column", pa.table({"reference": texts}))
            for reference, values in columns.items():
                names = pa.array([reference] * len(values), pa.string())
                self.database.insert("reference_value", pa.table({"reference": names, "value": values}))
            self.database.execute("UPDATE relational_meta SET changes = changes + 1")

    def check(self, s: Subscription) -> None:
        """Raises what ``add`` would raise for its query."""
        self.compile(s)

    def remove(self, id: SubscriptionId) -> None:
        self.remove_many([id])

    def remove_many(self, ids: Iterable[SubscriptionId]) -> None:
        """Removes all of them or, if one is not there, none."""
        with self._lock:
            try:
                with self.database.change():
                    self._remove_all(ids)
                    self._changed(self._current())
            except BaseException:
                self._state = None
                raise

    def _remove_all(self, ids: Iterable[SubscriptionId]) -> None:
        for id in ids:
            numbers = self._numbers(id) if is_id(id) else []
            if not numbers:
                raise OptionError("unknown-subscription", f"there is no subscription {id!r}")
            self._remove(numbers[0])

    def _remove(self, number: int) -> None:
        db = self.database
        others = db.rows("SELECT sub_id FROM query_alternative WHERE number = ?", [number])
        for sub_id in (number, *(sub_id for (sub_id,) in others)):
            delete_conjunction(db, sub_id)
        db.execute("DELETE FROM query_alternative WHERE number = ?", [number])
        db.execute("DELETE FROM query_subscription WHERE number = ?", [number])

    def gc(self) -> dict[str, int]:
        """Deletes paths, branches, tag paths and shapes that no subscription uses any more; says how many of each."""
        with self._lock:
            self._state = None  # numbers are free to mean other things from now on
            with self.database.change():
                removed = delete_orphans(self.database, self.plan)
                self.database.execute("UPDATE relational_meta SET changes = changes + 1")
        return removed

    # -- matching

    def _current(self) -> State:
        """What this process knows of the tables, as they are now."""
        ((changes,),) = self.database.rows("SELECT changes FROM relational_meta")
        if self._state is None or self._state.changes != changes or self._state.is_large:
            self._state = State(self.database, changes)
            self._statement = None
        return self._state

    def match(self, xml: bytes) -> list[SubscriptionId]:
        """The ids of the subscriptions that one message satisfies, in the order in which they came."""
        xml = message_of(xml)
        found, errors = self.match_rows(pa.array([xml], pa.large_binary()))
        error = errors[0].as_py()
        if error is not None:
            raise_if((error["code"], error["text"], error["line"], error["column"], error["offset"]))
        return self.ids_of(found.column("number").to_pylist())

    def select(self, xml: bytes, *, failures: list[Failure] | None = None) -> list[Selected]:
        """As ``Engine.select`` has it; joins try every subscription, so there are no failures."""
        return [Selected(id) for id in self.match(xml)]

    def find(self, xml: bytes, failures: list[Failure] | None) -> tuple[list[SubscriptionId], dict[int, Result]]:
        """As ``Engine.find`` has it."""
        return self.match(xml), {}

    def match_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Matches the column ``xml`` of a batch: ``id`` (as given), ``matches`` (lists of ids: numbers if all ids are,
        else strings) and ``error``, as ``Engine.match_batch`` has it."""
        ids, xml = columns_of(batch)
        found, errors = self.match_rows(xml)
        named = self.ids_of(found.column("number").to_pylist())
        is_whole = all(isinstance(id, int) for id in named)
        lists: list[list[Any]] = [[] for _ in range(len(xml))]
        for row, id in zip(found.column("event_id").to_pylist(), named, strict=True):
            lists[row].append(id if is_whole else str(id))
        matches = pa.array(lists, pa.list_(pa.int64() if is_whole else pa.string()))
        return pa.RecordBatch.from_arrays([ids, matches, errors], ["id", "matches", "error"])

    def match_rows(self, xml: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Matches as rows, sorted: ``event_id`` (place in the column) and ``number`` of the subscription; and what is
        wrong with each message, null where nothing is."""
        tables: list[pa.Table] = []
        errors: list[pa.Array] = []
        start = 0
        while start < len(xml) or not errors:
            found, refused, start = self._match(xml, start)
            tables.append(found)
            errors.append(refused)
        table = pa.concat_tables(tables)
        return table, pa.concat_arrays(errors)

    def _match(self, xml: pa.Array, start: int) -> tuple[pa.Table, pa.Array, int]:
        with self._lock:
            shredded_by: State | None = None
            while True:
                with self.database.reading():
                    state = self._current()
                    if state is not shredded_by:
                        rows, errors, end = state.shredder.shred(xml, start, self._limits)
                        shredded_by = state
                    news = state.shredder.news()
                    if not (news[0] or news[1]):
                        shreds = _table(pa.array(rows), state)
                        found = self._run(shreds)
                        break
                self._write(state, news)
            self._seen = self._seen[0] + end - start, self._seen[1] + len(shreds)
        found = found.rename_columns(["event_id", "number"])
        return found.sort_by([("event_id", "ascending"), ("number", "ascending")]), pa.array(errors), end

    def _run(self, shreds: pa.Table) -> pa.Table:
        if isinstance(self.database, StepByStep):
            return self.database.match_tables(shreds, self.layout())
        return self.database.match(self.statement(), shreds)

    def _write(self, state: State, news: tuple[list[Any], list[Any]]) -> None:
        """New tag paths, unless the linear paths that they were compared with are not all any more."""
        try:
            with self.database.change():
                ((changes,),) = self.database.rows("SELECT changes FROM relational_meta")
                if changes == state.changes:
                    state.write_news(news)
                else:
                    self._state = None
        except BaseException:
            self._state = None
            raise

    def learn(self, tag_paths: Iterable[str]) -> None:
        """Enters tag paths that were seen elsewhere."""
        texts = list(tag_paths)
        with self._lock:
            while True:
                state = self._current()
                for text in texts:
                    state.shredder.add_tag_path(text)
                news = state.shredder.news()
                if not (news[0] or news[1]):
                    return
                self._write(state, news)

    def named(self) -> pa.Table:
        """The numbers and ids of all subscriptions; these are numbers if all are, else strings."""
        rows = list(self.numbers())
        is_whole = all(isinstance(id, int) for _, id in rows)
        ids = pa.array([id if is_whole else str(id) for _, id in rows], pa.int64() if is_whole else pa.string())
        return pa.table({"number": pa.array([number for number, _ in rows], pa.int64()), "id": ids})

    def statement(self) -> str:
        """The SQL that matches a batch, for what is in the tables now."""
        ((changes,),) = self.database.rows("SELECT changes FROM relational_meta")
        if self._statement is None or self._statement[0] != changes:
            self._statement = changes, match_statement(self.database.dialect, self.layout())
        return self._statement[1]

    def layout(self) -> Layout:
        """What of the tables a statement has to look at."""
        return layout_of(self.database, self.plan)

    def ids_of(self, numbers: Sequence[int]) -> list[SubscriptionId]:
        """The ids of subscriptions by number."""
        known = named(self.database, set(numbers), "id, whole")
        return [int(known[n][0]) if known[n][1] else known[n][0] for n in numbers if n in known]

    def queries_of(self, numbers: Iterable[int]) -> dict[int, str]:
        return {number: query for number, (query,) in named(self.database, set(numbers), "query").items()}

    def costs(self) -> list[Cost]:
        """The estimated costs of all plans for what is in the tables, cheapest first (relational §4)."""
        sample = [rows for s in islice(self.subscriptions(), 1000) for rows in self.compile(s)]
        if not self._seen[0]:
            return measure(sample, self.plan, len(self))
        ((tag_paths, matches),) = self.database.rows(
            "SELECT (SELECT count(*) FROM tagpath_map), (SELECT count(*) FROM path_match)"
        )
        messages, values = self._seen
        return measure(sample, self.plan, len(self), m=values / messages, p=matches / max(1, tag_paths))


def _table(shreds: pa.StructArray, state: State) -> pa.Table:
    """The rows of messages as the tables number tag paths."""
    columns = dict(zip((field.name for field in shreds.type), shreds.flatten(), strict=True))
    columns["tagpath_id"] = state.ids_of(columns.pop("tagpath"))
    columns["event_id"] = columns["event_id"].cast(pa.int32())
    columns["number"] = pc.add(columns["number"], 0.0)  # -0 is 0
    return pa.table(columns)
