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
from twigcast.common.removed import refuse_removed
from twigcast.engine import Failure, Subscription, SubscriptionId
from twigcast.engine.columns import columns_of, message_of, raise_if
from twigcast.engine.results import Selected
from twigcast.engine.shares import Result
from twigcast.errors import OptionError
from twigcast.lang.names import check_namespaces
from twigcast.limits import Limits
from twigcast.relational import reference as references
from twigcast.relational.compile import Compiler, Row
from twigcast.relational.database import Database, StepByStep, open_database
from twigcast.relational.load import Loader, delete_conjunction, no_cycles
from twigcast.relational.state import State
from twigcast.relational.statements import Layout, match_statement
from twigcast.relational.tables import create, delete_orphans, layout_of, migrate, named
from twigcast.subscription import is_id

# Subscriptions that are on their way into the tables at one time.
CHUNK = 50_000


class RelationalEngine:
    """All subscriptions, in a database; messages are matched by one statement per batch.

    ``database`` is a URL (see ``open_database``) or a Database.
    """

    def __init__(
        self,
        database: str | Database | None = None,
        *,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        **removed: object,
    ) -> None:
        refuse_removed("RelationalEngine", removed)
        if limits is not None and not isinstance(limits, Limits):
            raise OptionError("bad-limits", f"limits are a twigcast.Limits, not {type(limits).__name__}")
        check_namespaces(namespaces)
        self.namespaces = dict(namespaces or {})
        self.limits = limits or Limits()
        self._limits = self.limits.as_dict()
        self._compiler = Compiler(self.namespaces, self._references)
        self._lock = RLock()
        refuse_if_forked_in_use(self, "_lock")
        self._statement: tuple[int, str] | None = None
        self.database = open_database(database) if database is None or isinstance(database, str) else database
        if self.database.has_tables():
            migrate(self.database)
        else:
            create(self.database)
        ((self._unroll,),) = self.database.rows("SELECT unroll FROM relational_meta")
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
        """Yield the numbers and ids of the subscriptions, in the order in which they came."""
        for number, id, whole in self.database.rows("SELECT number, id, whole FROM query_subscription ORDER BY number"):
            yield number, int(id) if whole else id

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them, in the order in which they came."""
        for id, whole, query, scope in self.database.rows(
            "SELECT id, whole, query, scope FROM query_subscription ORDER BY number"
        ):
            values = json.loads(scope)
            yield Subscription(int(id) if whole else id, query, *values)

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
        """Add a subscription and return its id. Without an ``id`` it gets the next free number."""
        with self._lock:
            if id is None:
                id = int(self.database.rows("SELECT count(*) FROM query_subscription")[0][0]) + 1
                while id in self:
                    id += 1
            self.add_many([Subscription(id, query, namespaces, default_namespace, dialect, result, deliver_empty)])
        return id

    def add_many(self, subscriptions: Iterable[Subscription], *, instead_of: Iterable[SubscriptionId] = ()) -> None:
        """Add all of them and remove those that they replace; or, if one cannot be accepted, do nothing."""
        rest = iter(subscriptions)
        some = list(islice(rest, CHUNK))
        if not some:
            return
        with self._lock:
            try:
                with self.database.change():
                    self._remove_all(instead_of)
                    state = self._current()
                    ((next_id,),) = self.database.rows("SELECT next_id FROM relational_meta")
                    loader = self._loader(state, next_id)
                    state.read_tag_paths()
                    state.shredder.news()
                    with no_cycles():
                        while some:
                            loader.enter(self._compiler, some)
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

    def _loader(self, state: State, next_id: int) -> Loader:
        return Loader(self.database, state, self._unroll, next_id)

    def compile(self, s: Subscription) -> list[list[Row]]:
        """Return the conjunctions of a subscription, predicates in the order of evaluation. Raises QueryError."""
        return self._compiler.compile(s)

    def declared(self, s: Subscription) -> dict[str, str]:
        """Return the prefixes that a query uses, also the engine's: who opens the database next may have others."""
        return self._compiler.declared(s)

    def _references(self) -> list[str]:
        return [reference for (reference,) in self.database.rows("SELECT reference FROM reference_column")]

    def register(self, name: str, data: Any) -> None:
        """Register reference data for ``path = $name.column``, in place of earlier data of that name: a CSV or Parquet
        file, a table of Arrow, pandas or Spark, or ``table:NAME``, a table of the database."""
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
        """Raise what ``add`` would raise for its query."""
        self.compile(s)

    def remove(self, id: SubscriptionId) -> None:
        self.remove_many([id])

    def remove_many(self, ids: Iterable[SubscriptionId]) -> None:
        """Remove all of them or, if one is not there, none."""
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
        """Delete paths, branches, tag paths and shapes that no subscription uses any more. Return how many of each."""
        with self._lock:
            self._state = None  # numbers are free to mean other things from now on
            with self.database.change():
                removed = delete_orphans(self.database, self._unroll)
                self.database.execute("UPDATE relational_meta SET changes = changes + 1")
        return removed

    # -- matching

    def _current(self) -> State:
        """Return what this process knows of the tables, as they are now."""
        ((changes,),) = self.database.rows("SELECT changes FROM relational_meta")
        if self._state is None or self._state.changes != changes or self._state.is_large:
            self._state = State(self.database, changes)
            self._statement = None
        return self._state

    def match(self, xml: bytes) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that one message satisfies, in the order in which they came."""
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
        """Match the column ``xml`` of a batch: ``id`` (as given), ``matches`` (lists of ids: numbers if all ids are,
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
        """Match messages. Return sorted rows: ``event_id`` (place in the column) and ``number``; and
        the error of each message, null where there is none."""
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
        found = found.rename_columns(["event_id", "number"])
        return found.sort_by([("event_id", "ascending"), ("number", "ascending")]), pa.array(errors), end

    def _run(self, shreds: pa.Table) -> pa.Table:
        if isinstance(self.database, StepByStep):
            return self.database.match_tables(shreds, self.layout())
        return self.database.match(self.statement(), shreds)

    def _write(self, state: State, news: tuple[list[Any], list[Any]]) -> None:
        """Enter new tag paths, unless they were compared with linear paths that have changed since."""
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
        """Return the numbers and ids of all subscriptions. Ids are numbers if all are, else strings."""
        rows = list(self.numbers())
        is_whole = all(isinstance(id, int) for _, id in rows)
        ids = pa.array([id if is_whole else str(id) for _, id in rows], pa.int64() if is_whole else pa.string())
        return pa.table({"number": pa.array([number for number, _ in rows], pa.int64()), "id": ids})

    def statement(self) -> str:
        """Return the SQL that matches a batch, for what is in the tables now."""
        ((changes,),) = self.database.rows("SELECT changes FROM relational_meta")
        if self._statement is None or self._statement[0] != changes:
            self._statement = changes, match_statement(self.database.dialect, self.layout())
        return self._statement[1]

    def layout(self) -> Layout:
        """Return what of the tables a statement has to look at."""
        return layout_of(self.database, self._unroll)

    def ids_of(self, numbers: Sequence[int]) -> list[SubscriptionId]:
        """Return the ids of subscriptions by number."""
        known = named(self.database, set(numbers), "id, whole")
        return [int(known[n][0]) if known[n][1] else known[n][0] for n in numbers if n in known]

    def queries_of(self, numbers: Iterable[int]) -> dict[int, str]:
        return {number: query for number, (query,) in named(self.database, set(numbers), "query").items()}


def _table(shreds: pa.StructArray, state: State) -> pa.Table:
    """Return the rows of messages with the tables' numbers of tag paths."""
    columns = dict(zip((field.name for field in shreds.type), shreds.flatten(), strict=True))
    columns["tagpath_id"] = state.ids_of(columns.pop("tagpath"))
    columns["event_id"] = columns["event_id"].cast(pa.int32())
    columns["number"] = pc.add(columns["number"], 0.0)  # -0 is 0
    return pa.table(columns)
