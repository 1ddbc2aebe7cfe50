"""Migrations of the store's tables, by Alembic.

A store knows its revision: the table ``twigcast_revision`` holds it. A store without that table was made before there
were migrations and has the tables of the first revision. Opening a store upgrades it to ``HEAD`` in one transaction.

To change a table: change ``tables.py``, add a file to ``versions`` and set ``HEAD``. A test compares the tables that
the migrations make with those of ``tables.py``. A change that older programs cannot live with also raises
``tables.SCHEMA``, which they check.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select

HEAD = "0002"
"""The newest revision."""
FIRST = "0001"

TABLE = "twigcast_revision"
# The name of the column and its type are Alembic's.
_revision = Table(TABLE, MetaData(), Column("version_num", String(32), primary_key=True))


def revision(connection: Connection) -> str:
    """Return the revision of the store's tables."""
    if not inspect(connection).has_table(TABLE):
        return FIRST
    return str(connection.execute(select(_revision.c.version_num)).scalar_one())


def stamp(connection: Connection, value: str = HEAD) -> None:
    """Record the revision of tables that have just been made, or that never had one."""
    _revision.create(connection)
    connection.execute(insert(_revision).values(version_num=value))


def upgrade(connection: Connection) -> None:
    """Bring the tables to ``HEAD``, within the transaction of ``connection``."""
    if not inspect(connection).has_table(TABLE):
        stamp(connection, FIRST)
    run(connection)


def run(connection: Connection) -> None:
    """Run the migrations that follow the recorded revision; all of them where none is recorded."""
    # Alembic takes a tenth of a second to import, and stores rarely need it.
    from alembic import command
    from alembic.config import Config

    settings = Config(attributes={"connection": connection})
    # ConfigParser reads % as the start of a variable.
    settings.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    command.upgrade(settings, HEAD)
