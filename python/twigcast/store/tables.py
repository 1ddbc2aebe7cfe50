"""The tables of a store.

Versions. Every change of the store is one transaction and one version. A subscription's row has the version that made
it what it is; when an active subscription ends (removed, paused or replaced), ``ended`` keeps from which version to
which it was active. What has changed since a version is then read from two indexes, at a cost that is proportional to
the change, and a million imported subscriptions need no million notes.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, Table, Text

SCHEMA = 1
"""The version of the tables themselves."""

metadata = MetaData()
# Ids sort and compare as their bytes, in PostgreSQL too.
_id = Text().with_variant(Text(collation="C"), "postgresql")
_version = BigInteger().with_variant(Integer, "sqlite")

meta = Table("twigcast_meta", metadata, Column("key", _id, primary_key=True), Column("value", Text, nullable=False))
"""``schema``, ``identity`` (of this store, among all stores), ``version``, and ``pruned`` once something was."""

subscribers = Table(
    "twigcast_subscribers",
    metadata,
    Column("id", _id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("targets", Text, nullable=False),
    sqlite_with_rowid=False,
)

subscriptions = Table(
    "twigcast_subscriptions",
    metadata,
    Column("id", _id, primary_key=True),
    Column("subscriber", _id, ForeignKey(subscribers.c.id)),
    Column("query", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("namespaces", Text),
    Column("options", Text),
    Column("state", Text, CheckConstraint("state IN ('active', 'paused')"), nullable=False),
    Column("version", _version, nullable=False),
    Column("reason", Text),
    Index("twigcast_subscriptions_version", "version"),
    Index("twigcast_subscriptions_subscriber", "subscriber"),
    sqlite_with_rowid=False,
)

"""``reason``: why a subscription was paused because it kept failing; null for every other one."""

ended = Table(
    "twigcast_ended",
    metadata,
    Column("version", _version, primary_key=True),
    Column("subscription", _id, primary_key=True),
    Column("since", _version, nullable=False),
    sqlite_with_rowid=False,
)

publishers = Table(
    "twigcast_publishers",
    metadata,
    Column("id", _id, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("schema", Text, nullable=False),
    Column("schema_kind", Text, CheckConstraint("schema_kind IN ('dtd', 'xsd')"), nullable=False),
    Column("on_invalid", Text, CheckConstraint("on_invalid IN ('reject', 'fallback', 'trust')"), nullable=False),
    sqlite_with_rowid=False,
)

changes = Table(
    "twigcast_changes",
    metadata,
    Column("version", _version, primary_key=True),
    Column("time", Text, nullable=False),
    Column("op", Text, nullable=False),
    Column("subject", Text),
    Column("count", _version, nullable=False),
)
"""For people: when each version was made and what it did."""
