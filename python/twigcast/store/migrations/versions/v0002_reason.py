"""Why a subscription was paused."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("twigcast_subscriptions", sa.Column("reason", sa.Text))
