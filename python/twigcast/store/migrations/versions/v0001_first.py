"""The tables of stores that were made before there were migrations (schema 1)."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_version = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "twigcast_meta",
        sa.Column("key", _id, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "twigcast_subscribers",
        sa.Column("id", _id, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("targets", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "twigcast_subscriptions",
        sa.Column("id", _id, primary_key=True),
        sa.Column("subscriber", _id, sa.ForeignKey("twigcast_subscribers.id")),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("namespaces", sa.Text),
        sa.Column("options", sa.Text),
        sa.Column("state", sa.Text, sa.CheckConstraint("state IN ('active', 'paused')"), nullable=False),
        sa.Column("version", _version, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("twigcast_subscriptions_version", "twigcast_subscriptions", ["version"])
    op.create_index("twigcast_subscriptions_subscriber", "twigcast_subscriptions", ["subscriber"])
    op.create_table(
        "twigcast_ended",
        sa.Column("version", _version, primary_key=True),
        sa.Column("subscription", _id, primary_key=True),
        sa.Column("since", _version, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "twigcast_publishers",
        sa.Column("id", _id, primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("schema", sa.Text, nullable=False),
        sa.Column("schema_kind", sa.Text, sa.CheckConstraint("schema_kind IN ('dtd', 'xsd')"), nullable=False),
        sa.Column(
            "on_invalid", sa.Text, sa.CheckConstraint("on_invalid IN ('reject', 'fallback', 'trust')"), nullable=False
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "twigcast_changes",
        sa.Column("version", _version, primary_key=True),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("op", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("count", _version, nullable=False),
    )
