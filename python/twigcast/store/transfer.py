"""Import and export: JSON Lines, one subscription each; made for a million of them.

An import is read, checked and put aside in a temporary table first, while others may go on writing to the store; then
one transaction takes all of it in, as one version, or nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json as quick_json
from sqlalchemy import (
    Column,
    Connection,
    Insert,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.schema import CreateTable

from twigcast.engine.files import SHOWN, SubscriptionFileError
from twigcast.errors import OptionError, TwigcastError
from twigcast.store import tables
from twigcast.store.checks import Checker, Problems
from twigcast.store.database import Database, Writer, now
from twigcast.store.publishers import SchemaChecker
from twigcast.store.records import SubscriptionRecord, from_json
from twigcast.store.store import PIECE, Store, unknown_subscriber
from twigcast.subscription import parse_json

# After so many bad lines the file as a whole is the mistake.
MAX_PROBLEMS = 1_000
_COLUMNS = ("id", "subscriber", "query", "kind", "namespaces", "options", "state", "reason")

_text = tables.subscriptions.c.id.type
_incoming = Table(
    "twigcast_incoming",
    MetaData(),
    Column("line", Integer, nullable=False),
    *[Column(name, _text if name in ("id", "subscriber") else Text) for name in _COLUMNS],
    prefixes=["TEMPORARY"],
)
_NEW = _incoming.c
_OLD = tables.subscriptions.c


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did; ``unchanged`` were in the store already, exactly so."""

    added: int
    replaced: int
    unchanged: int
    subscribers: int
    version: int
    never: int = 0
    """How many were left out because no message can match them."""
    never_lines: tuple[tuple[int, TwigcastError], ...] = ()
    """The first of these: the line, and the reason."""


def import_jsonl(
    store: Store,
    lines: Iterable[bytes],
    *,
    name: str = "import",
    replace: bool = False,
    add_subscribers: bool = False,
    allow_never: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Imported:
    """Store one subscription per line: all of them or, if one cannot be accepted, none.

    Subscriptions that no message can match are left out and listed in the result; ``allow_never`` stores them, too.
    ``replace`` puts subscriptions in the place of those with the same ids. ``add_subscribers`` adds those that are not
    known. ``on_progress`` is called with the number of lines read.
    """
    database, publishers = store.database, store.publishers()
    with database.connection() as connection:
        try:
            with connection.begin():
                connection.execute(CreateTable(_incoming))
                staging = _Staging(connection, database, None if allow_never else SchemaChecker(publishers))
                staging.read(lines, on_progress)
            problems = staging.problems
            if len(problems) >= MAX_PROBLEMS:
                _refuse(name, problems)
            done = database.write_on(
                connection, lambda writer: _take_in(writer, name, problems, replace, add_subscribers)
            )
            return dataclasses.replace(done, never=staging.never, never_lines=tuple(staging.never_lines))
        finally:
            # Given back to the pool, the connection would keep it. Where it is broken, so is the table.
            connection.rollback()
            if not connection.invalidated:
                connection.detach()


def export_jsonl(store: Store) -> Iterator[str]:
    """The subscriptions of one version, by id, a line of JSON each (without the line's end)."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for record in store.subscriptions():
        yield encode(record.to_json())


class _Staging:
    """Checks the lines of an import, and puts those aside in a temporary table that can be stored.

    ``schemas`` is None if queries that never match are to be stored as well."""

    def __init__(self, connection: Connection, database: Database, schemas: SchemaChecker | None) -> None:
        self._connection = connection
        self._database = database
        self._schemas = schemas
        self._checker = Checker()
        self._numbers: list[int] = []
        self._records: list[SubscriptionRecord] = []
        self.problems: Problems = []
        self.never = 0
        self.never_lines: Problems = []

    def read(self, lines: Iterable[bytes], on_progress: Callable[[int], None] | None) -> None:
        for number, line in enumerate(lines, start=1):
            try:
                record = _read(line, number)
            except TwigcastError as error:
                self.problems.append((number, error))
            else:
                if record is not None:
                    self._numbers.append(number)
                    self._records.append(record)
            if len(self._records) >= PIECE:
                self._flush()
                if on_progress is not None:
                    on_progress(number)
            if len(self.problems) >= MAX_PROBLEMS:
                break
        self._flush()

    def _flush(self) -> None:
        numbers, records = self._numbers, self._records
        bad = dict(self._checker(records))
        self.problems.extend((numbers[i], error) for i, error in bad.items())
        never = self._never(bad)
        left_out = {**bad, **never}
        kept = (i for i in range(len(records)) if i not in left_out) if left_out else range(len(records))
        _insert(self._connection, self._database, [(numbers[i], *records[i].row()) for i in kept])
        numbers.clear()
        records.clear()

    def _never(self, bad: dict[int, TwigcastError]) -> dict[int, TwigcastError]:
        """Return the records that no message can match, and note their lines."""
        if self._schemas is None:
            return {}
        possible = ((i, self._checker.never(record)) for i, record in enumerate(self._records) if i not in bad)
        found = {i: error for i, error in possible if error is not None}
        for i, error in self._schemas(self._records):
            if i not in bad:
                found.setdefault(i, error)
        self.never += len(found)
        some = sorted(found.items())[: MAX_PROBLEMS - len(self.never_lines)]
        self.never_lines += [(self._numbers[i], error) for i, error in some]
        return found


def _read(line: bytes, number: int) -> SubscriptionRecord | None:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        # pydantic's reader is quick; the standard one, below, has the better messages
        return from_json(quick_json(line), number)
    except ValueError:
        return from_json(parse_json(line), number) if line.strip() else None


def _insert(connection: Connection, database: Database, rows: list[tuple[Any, ...]]) -> None:
    """By the driver's own means: SQLAlchemy's cost more than the database does."""
    if not rows:
        return
    if database.is_sqlite:
        connection.exec_driver_sql(f"INSERT INTO {_incoming.name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return
    raw = connection.connection.driver_connection
    assert raw is not None
    with raw.cursor() as cursor, cursor.copy(f"COPY {_incoming.name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _take_in(writer: Writer, name: str, problems: Problems, replace: bool, add_subscribers: bool) -> Imported:
    connection = writer.connection
    problems = problems + _duplicates(connection)
    problems += [] if replace else _conflicts(connection)
    problems += [] if add_subscribers else _strangers(connection)
    _refuse(name, problems)
    unchanged = replaced = subscribers = 0
    if replace:
        rest = [_OLD[column].is_not_distinct_from(_NEW[column]) for column in _COLUMNS if column != "id"]
        same = (_OLD.id == _NEW.id, *rest)
        unchanged = connection.execute(delete(_incoming).where(select(1).where(and_(*same)).exists())).rowcount
    if add_subscribers:
        subscribers = _add_subscribers(connection)
    if replace:
        known = _OLD.id.in_(select(_NEW.id))
        over = select(literal(writer.version), _OLD.id, _OLD.version).where(known, _OLD.state == "active")
        connection.execute(insert(tables.ended).from_select(["version", "subscription", "since"], over))
        replaced = connection.execute(delete(tables.subscriptions).where(known)).rowcount
    # In the order of the ids, so that the tree of the table grows at its end.
    rows = select(*[_NEW[column] for column in _COLUMNS], literal(writer.version)).order_by(_NEW.id)
    put = _count(connection, insert(tables.subscriptions).from_select([*_COLUMNS, "version"], rows))
    if put or subscribers:
        writer.note("import", None, put)
    version = writer.version if put or subscribers else writer.version - 1
    return Imported(put - replaced, replaced, unchanged, subscribers, version)


def _refuse(name: str, problems: Problems) -> None:
    if problems:
        every = sorted(problems, key=lambda problem: problem[0])
        raise SubscriptionFileError(name, every, SHOWN if len(every) >= MAX_PROBLEMS else MAX_PROBLEMS)


def _duplicates(connection: Connection) -> Problems:
    firsts = select(_NEW.id, func.min(_NEW.line).label("first")).group_by(_NEW.id).having(func.count() > 1).subquery()
    again = select(_NEW.line, _NEW.id, firsts.c.first).join_from(_incoming, firsts, _NEW.id == firsts.c.id)
    rows = connection.execute(again.where(_NEW.line > firsts.c.first).order_by(_NEW.line).limit(MAX_PROBLEMS))
    return [
        (line, OptionError("duplicate-id", f"the id {id!r} is that of line {first} already"))
        for line, id, first in rows
    ]


def _conflicts(connection: Connection) -> Problems:
    both = select(_NEW.line, _NEW.id).join_from(_incoming, tables.subscriptions, _OLD.id == _NEW.id)
    hint = "import with --replace puts the new one in its place"
    return [
        (line, OptionError("duplicate-id", f"there is a subscription {id!r} in the store already", hint=hint))
        for line, id in connection.execute(both.order_by(_NEW.line).limit(MAX_PROBLEMS))
    ]


def _missing() -> Any:
    known = select(tables.subscribers.c.id)
    return and_(_NEW.subscriber.is_not(None), _NEW.subscriber.not_in(known))


def _strangers(connection: Connection) -> Problems:
    unknown = select(_NEW.line, _NEW.subscriber).where(_missing())
    problems: Problems = []
    for line, id in connection.execute(unknown.order_by(_NEW.line).limit(MAX_PROBLEMS)):
        error = unknown_subscriber(id)
        error.hint = f"{error.hint}, or import with --add-subscribers"
        problems.append((line, error))
    return problems


def _add_subscribers(connection: Connection) -> int:
    new = select(_NEW.subscriber, literal(""), literal(now()), literal("{}")).where(_missing()).distinct()
    added = insert(tables.subscribers).from_select(["id", "name", "created", "targets"], new)
    return _count(connection, added)


def _count(connection: Connection, insertion: Insert) -> int:
    """How many rows it put in, which SQLAlchemy keeps for other statements only unless asked to."""
    return connection.execute(insertion, execution_options={"preserve_rowcount": True}).rowcount
