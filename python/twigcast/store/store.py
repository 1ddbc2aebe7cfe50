"""The subscription store: who wants what, in versions."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from twigcast.correlate.streams import check_streams
from twigcast.errors import OptionError
from twigcast.ir.correlation import Correlation
from twigcast.lang.kinds import kind_of
from twigcast.lang.xscl import parse_correlation
from twigcast.store import tables
from twigcast.store.checks import Checker
from twigcast.store.database import HISTORY, Database, Writer, now
from twigcast.store.errors import StoreError
from twigcast.store.publishers import check_against, check_publisher
from twigcast.store.records import (
    Changes,
    PublisherRecord,
    SubscriberRecord,
    SubscriptionRecord,
    check,
    from_row,
)
from twigcast.store.targets import check_targets
from twigcast.store.urls import DEFAULT
from twigcast.subscription import check_subscriber_id

_SUBSCRIPTIONS = tables.subscriptions.c
_ENDED = tables.ended.c
# Rows fetched at a time where all are read.
PIECE = 10_000
# Ids in one statement; databases limit how many parameters one may have.
_IDS = 500


class Store:
    """Subscribers, subscriptions and publishers. Any thread may use it; any number of programs may share its database.

    Every change is one transaction: it is stored whole, with a version of its own, or not at all.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._checker = Checker()

    @classmethod
    def open(cls, url: str = DEFAULT, *, create: bool = True, timeout: float = 30.0, history: float = HISTORY) -> Store:
        """Opens a store, makes it where there is none. ``timeout``: seconds to wait for other writers; ``history``:
        seconds for which it is known what has changed, and after which who asks has to load all afresh."""
        return cls(Database(url, create=create, timeout=timeout, history=history))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Where it is, for people: without a password."""
        return self.database.name

    @property
    def identity(self) -> str:
        """Which store it is: another one, even at the same place, has versions of its own."""
        with self.database.reading() as connection:
            return self.database.meta(connection, "identity")

    @property
    def version(self) -> int:
        with self.database.reading() as connection:
            return self.database.version(connection)

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(
        self, query: str, *, id: str | None = None, allow_never: bool = False, **options: Any
    ) -> SubscriptionRecord:
        """Add a subscription; without an ``id`` it gets one. ``options`` are the fields of ``SubscriptionRecord``.

        The query is compiled first: a mistake raises QueryError, with the place, and stores nothing. So does a query
        that no message can match (``never-matches``), unless ``allow_never``.
        """
        record = self._checked(_new_id() if id is None else id, query, options, allow_never)

        def add(writer: Writer) -> SubscriptionRecord:
            self._check_subscriber(writer, record)
            if self._find(writer, [record.id]):
                text = f"there is a subscription {record.id!r} already"
                hint = "choose another id, or replace it (subscribe --replace, Store.replace)"
                raise OptionError("duplicate-id", text, hint=hint)
            return self._put(writer, record, "subscribe")

        return self.database.write(add)

    def replace(self, id: str, query: str, *, allow_never: bool = False, **options: Any) -> SubscriptionRecord:
        """Put another subscription in the place of one, in one step; what is not given has its default."""
        record = self._checked(id, query, options, allow_never)

        def put(writer: Writer) -> SubscriptionRecord:
            self._check_subscriber(writer, record)
            self._end(writer, self._found(writer, [id]))
            writer.connection.execute(delete(tables.subscriptions).where(_SUBSCRIPTIONS.id == id))
            return self._put(writer, record, "replace")

        return self.database.write(put)

    def unsubscribe(self, *ids: str) -> None:
        """Removes subscriptions, all or, if one is unknown, none."""

        def remove(writer: Writer) -> None:
            found = self._found(writer, ids)
            self._end(writer, found)
            for some in _pieces([record.id for record in found]):
                writer.connection.execute(delete(tables.subscriptions).where(_SUBSCRIPTIONS.id.in_(some)))
            if found:
                writer.note("unsubscribe", found[0].id if len(found) == 1 else None, len(found))

        self.database.write(remove)

    def pause(self, *ids: str) -> int:
        """Paused subscriptions match nothing until resumed. Returns how many were active."""
        return self._turn(ids, "paused", "pause")

    def pause_failing(self, id: str, reason: str, since: int) -> bool:
        """Pause a subscription that keeps failing, and keep the reason. Return whether it was paused.

        It is not if it has been removed, paused, resumed or replaced after the version ``since``: its failures were
        those of what it was before.
        """

        def pause(writer: Writer) -> bool:
            found = [one for one in self._find(writer, [id]) if one.state == "active" and one.version <= since]
            if found:
                self._end(writer, found)
                here = update(tables.subscriptions).where(_SUBSCRIPTIONS.id == id)
                writer.connection.execute(here.values(state="paused", reason=reason, version=writer.version))
                writer.note("pause failing", id)
            return bool(found)

        return self.database.write(pause)

    def paused_failing(self, limit: int = 100) -> dict[str, str]:
        """Return subscriptions that were paused because they kept failing, by id, with the reasons."""
        query = select(_SUBSCRIPTIONS.id, _SUBSCRIPTIONS.reason).where(_SUBSCRIPTIONS.reason.is_not(None))
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(_SUBSCRIPTIONS.id).limit(limit))
            return {row.id: row.reason for row in rows}

    def resume(self, *ids: str) -> int:
        """Make paused subscriptions active again, their failures at zero. Returns how many were paused.

        Raise QueryError if what a correlation among them publishes would come back to it.
        """
        for some in _pieces(list(ids)):
            query = select(tables.subscriptions).where(_SUBSCRIPTIONS.id.in_(some), _SUBSCRIPTIONS.kind == "correlate")
            with self.database.reading() as connection:
                records = [from_row(row) for row in connection.execute(query)]
            for record in records:
                self._check_cycles(record)
        return self._turn(ids, "active", "resume")

    def subscription(self, id: str) -> SubscriptionRecord:
        with self.database.reading() as connection:
            found = list(_read(connection, id=id))
        if not found:
            raise _unknown([id])
        return found[0]

    def subscriptions(
        self, *, subscriber: str | None = None, state: str | None = None, kind: str | None = None
    ) -> Iterator[SubscriptionRecord]:
        """Return the subscriptions that fit, by id, as they are now; they are read as they are asked for."""
        with self.database.reading() as connection:
            yield from _read(connection, subscriber=subscriber, state=state, kind=kind)

    def correlations(self) -> Iterator[SubscriptionRecord]:
        """Return the correlations, by id."""
        return self.subscriptions(kind="correlate")

    def __len__(self) -> int:
        """How many subscriptions there are, paused ones too."""
        with self.database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(tables.subscriptions)).scalar_one())

    # -- versions ----------------------------------------------------------------------------------------------------

    def load(self) -> tuple[int, Iterator[SubscriptionRecord]]:
        """A version and the subscriptions that are active in it, read as they are asked for."""
        reading = self._load()
        version = next(reading)
        assert isinstance(version, int)
        return version, reading  # type: ignore[return-value]

    def _load(self) -> Iterator[int | SubscriptionRecord]:
        with self.database.reading() as connection:
            yield self.database.version(connection)
            yield from _read(connection, state="active")

    def changes(self, since: int) -> Changes:
        """What to do to get from the active subscriptions of a version to those of now."""
        added = select(tables.subscriptions).where(_SUBSCRIPTIONS.version > since, _SUBSCRIPTIONS.state == "active")
        with self.database.reading() as connection:
            version = self._check_version(connection, since)
            if version == since:
                return Changes(version, [], [])
            rows = connection.execute(added.order_by(_SUBSCRIPTIONS.version, _SUBSCRIPTIONS.id)).all()
            removed = connection.execute(_removed(since).order_by(_ENDED.version, _ENDED.subscription))
            return Changes(version, list(map(from_row, rows)), list(removed.scalars()))

    def prune(self) -> int:
        """Forgets what ended longer ago than ``history``, as every now and then a change does; up to which version."""
        return self.database.prune()

    def _check_version(self, connection: Connection, since: int) -> int:
        version = self.database.version(connection)
        if since > version:
            text = f"{self.name}: the store is at version {version}, and changes since {since} are asked for"
            raise StoreError("version-ahead", text, hint="is it another store, or an older copy of this one?")
        if since < self.database.pruned(connection):
            text = f"{self.name}: what has changed since version {since} is forgotten"
            raise StoreError("history-pruned", text, hint="load the subscriptions afresh")
        return version

    # -- subscribers -------------------------------------------------------------------------------------------------

    def add_subscriber(
        self,
        id: str,
        *,
        name: str = "",
        targets: Mapping[str, Mapping[str, str]] | None = None,
        references: bool = False,
    ) -> SubscriberRecord:
        """Add a subscriber.

        ``targets`` says where the subscriber wants deliveries, see ``twigcast.store.targets``. ``references`` allows
        secrets that are ``env:NAME`` or ``file:PATH``; set it only for targets that an operator gives.
        """
        check_subscriber_id(id)
        checked = check_targets(targets or {}, references=references)
        record = SubscriberRecord(id, name, datetime.fromisoformat(now()), checked)

        def add(writer: Writer) -> SubscriberRecord:
            if self._subscribers(writer.connection, id):
                text = f"there is a subscriber {id!r} already"
                raise OptionError("duplicate-subscriber", text, hint="twigcast subscriber set changes its targets")
            values = {"name": name, "created": record.created.isoformat(), "targets": json.dumps(record.targets)}
            writer.connection.execute(insert(tables.subscribers).values(id=id, **values))
            writer.note("subscriber add", id)
            return record

        return self.database.write(add)

    def set_targets(self, id: str, targets: Mapping[str, Mapping[str, str]], *, references: bool = False) -> None:
        """Set where a subscriber wants deliveries; ``references`` as in :meth:`add_subscriber`."""
        targets = check_targets(targets, references=references)

        def change(writer: Writer) -> None:
            self._subscriber(writer, id)
            here = update(tables.subscribers).where(tables.subscribers.c.id == id)
            writer.connection.execute(here.values(targets=json.dumps(targets)))
            writer.note("subscriber targets", id)

        self.database.write(change)

    def remove_subscriber(self, id: str, *, with_subscriptions: bool = False) -> int:
        """Returns how many subscriptions went too."""

        def remove(writer: Writer) -> int:
            self._subscriber(writer, id)
            found = list(_read(writer.connection, subscriber=id))
            if found and not with_subscriptions:
                text = f"the subscriber {id!r} has {len(found):,} subscriptions"
                raise OptionError(
                    "has-subscriptions", text, hint="unsubscribe them, or remove them with the subscriber"
                )
            self._end(writer, found)
            writer.connection.execute(delete(tables.subscriptions).where(_SUBSCRIPTIONS.subscriber == id))
            writer.connection.execute(delete(tables.subscribers).where(tables.subscribers.c.id == id))
            writer.note("subscriber remove", id, 1 + len(found))
            return len(found)

        return self.database.write(remove)

    def subscribers(self) -> list[SubscriberRecord]:
        with self.database.reading() as connection:
            return self._subscribers(connection)

    def subscriber(self, id: str) -> SubscriberRecord:
        with self.database.reading() as connection:
            found = self._subscribers(connection, id)
        if not found:
            raise unknown_subscriber(id)
        return found[0]

    # -- publishers --------------------------------------------------------------------------------------------------

    def put_publisher(self, publisher: PublisherRecord, *, replace: bool = True) -> None:
        """Adds a publisher, or puts it in the place of the one with its id. The schema is read first."""
        check_publisher(publisher)
        values = {key: getattr(publisher, key) for key in ("id", "stream", "schema", "schema_kind", "on_invalid")}

        def put(writer: Writer) -> None:
            same = tables.publishers.c.id == publisher.id
            if writer.connection.execute(delete(tables.publishers).where(same)).rowcount and not replace:
                text = f"there is a publisher {publisher.id!r} already"
                raise OptionError("duplicate-publisher", text, hint="replace it, or choose another id")
            writer.connection.execute(insert(tables.publishers).values(**values))
            writer.note("publisher put", publisher.id)

        self.database.write(put)

    def remove_publisher(self, id: str) -> None:
        def remove(writer: Writer) -> None:
            gone = writer.connection.execute(delete(tables.publishers).where(tables.publishers.c.id == id))
            if not gone.rowcount:
                raise _unknown_publisher(id)
            writer.note("publisher remove", id)

        self.database.write(remove)

    def publishers(self) -> list[PublisherRecord]:
        with self.database.reading() as connection:
            rows = connection.execute(select(tables.publishers).order_by(tables.publishers.c.id))
            return [PublisherRecord(*row) for row in rows]

    def publisher(self, id: str) -> PublisherRecord:
        for found in self.publishers():
            if found.id == id:
                return found
        raise _unknown_publisher(id)

    # -- inside a transaction ----------------------------------------------------------------------------------------

    def _checked(self, id: str, query: str, options: dict[str, Any], allow_never: bool) -> SubscriptionRecord:
        if options.get("kind") is None:
            kind = kind_of(query) if isinstance(query, str) else "filter"
            options = {**options, "kind": kind}
        record = check(SubscriptionRecord(id, query, **options))
        self._checker.one(record, allow_never=allow_never)
        if record.stream is not None and not allow_never:
            check_against(self.publishers(), record)
        if record.kind == "correlate":
            self._check_cycles(record)
        return record

    def _check_cycles(self, record: SubscriptionRecord) -> None:
        """Raise QueryError if what active correlations publish would come back to them with this one."""
        parsed = parse_correlation(record.query, record.namespaces, record.default_namespace)
        if parsed.publish is None:
            return
        query = select(tables.subscriptions).where(
            _SUBSCRIPTIONS.kind == "correlate",
            _SUBSCRIPTIONS.state == "active",
            _SUBSCRIPTIONS.query.icontains("PUBLISH"),
            _SUBSCRIPTIONS.id != record.id,
        )
        with self.database.reading() as connection:
            others = [from_row(row) for row in connection.execute(query)]
        publishing: dict[str | int, Correlation] = {
            one.id: parse_correlation(one.query, one.namespaces, one.default_namespace) for one in others
        }
        check_streams({**publishing, record.id: parsed}, record.query)

    def _put(self, writer: Writer, record: SubscriptionRecord, op: str) -> SubscriptionRecord:
        stored = record._replace(version=writer.version)
        names = [column.name for column in tables.subscriptions.columns if column.name != "version"]
        row = {**dict(zip(names, stored.row(), strict=True)), "version": stored.version}
        writer.connection.execute(insert(tables.subscriptions).values(**row))
        writer.note(op, record.id)
        return stored

    def _turn(self, ids: Iterable[str], state: str, op: str) -> int:
        def turn(writer: Writer) -> int:
            found = [record for record in self._found(writer, ids) if record.state != state]
            self._end(writer, found)
            for some in _pieces([record.id for record in found]):
                here = update(tables.subscriptions).where(_SUBSCRIPTIONS.id.in_(some))
                writer.connection.execute(here.values(state=state, reason=None, version=writer.version))
            if found:
                writer.note(op, found[0].id if len(found) == 1 else None, len(found))
            return len(found)

        return self.database.write(turn)

    def _end(self, writer: Writer, records: Iterable[SubscriptionRecord]) -> None:
        """Notes that those which are active are so no more."""
        rows = [
            {"version": writer.version, "subscription": record.id, "since": record.version}
            for record in records
            if record.state == "active"
        ]
        if rows:
            writer.connection.execute(insert(tables.ended), rows)

    def _find(self, writer: Writer, ids: Iterable[str]) -> list[SubscriptionRecord]:
        found: list[SubscriptionRecord] = []
        for some in _pieces(list(dict.fromkeys(ids))):
            rows = writer.connection.execute(select(tables.subscriptions).where(_SUBSCRIPTIONS.id.in_(some)))
            found += map(from_row, rows)
        return found

    def _found(self, writer: Writer, ids: Iterable[str]) -> list[SubscriptionRecord]:
        ids = list(ids)
        found = self._find(writer, ids)
        missing = set(ids) - {record.id for record in found}
        if missing:
            raise _unknown([id for id in ids if id in missing])
        return found

    def _check_subscriber(self, writer: Writer, record: SubscriptionRecord) -> None:
        if record.subscriber is not None:
            self._subscriber(writer, record.subscriber)

    def _subscriber(self, writer: Writer, id: str) -> None:
        if not self._subscribers(writer.connection, id):
            raise unknown_subscriber(id)

    def _subscribers(self, connection: Any, id: str | None = None) -> list[SubscriberRecord]:
        query = select(tables.subscribers).order_by(tables.subscribers.c.id)
        if id is not None:
            query = query.where(tables.subscribers.c.id == id)
        return [
            SubscriberRecord(id, name, datetime.fromisoformat(created), json.loads(targets))
            for id, name, created, targets in connection.execute(query)
        ]


def _read(connection: Connection, **fields: str | None) -> Iterator[SubscriptionRecord]:
    """Yield the subscriptions with these fields, by id; None stands for any value."""
    given = {name: value for name, value in fields.items() if value is not None}
    query = select(tables.subscriptions).filter_by(**given).order_by(_SUBSCRIPTIONS.id)
    # An option of the connection would make every later statement ask for a cursor, too.
    return map(from_row, connection.execute(query.execution_options(yield_per=PIECE)))


def _removed(since: int) -> Any:
    """What was active then and has ended. At most once each: a subscription is active in one interval at a time."""
    return select(_ENDED.subscription).where(_ENDED.version > since, _ENDED.since <= since)


def _unknown(ids: list[str]) -> OptionError:
    more = f" (and {len(ids) - 1:,} more)" if len(ids) > 1 else ""
    hint = "twigcast subscriptions lists them"
    return OptionError("unknown-subscription", f"there is no subscription {ids[0]!r}{more}", hint=hint)


def _unknown_publisher(id: str) -> OptionError:
    return OptionError("unknown-publisher", f"there is no publisher {id!r}", hint="twigcast publisher list has them")


def unknown_subscriber(id: str) -> OptionError:
    return OptionError("unknown-subscriber", f"there is no subscriber {id!r}", hint=f"twigcast subscriber add {id}")


def _new_id() -> str:
    return f"s-{secrets.token_hex(8)}"


def _pieces(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _IDS):
        yield ids[start : start + _IDS]
