"""Stores of every earlier version open, and migrations lead to the tables that a new store has."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from twigcast.store import Store, StoreError, migrations, tables
from twigcast.store.urls import check_url


@pytest.fixture
def earlier_store(earlier_folder: Path) -> str:
    """The URL of a store that f693179 made, before there were migrations."""
    return f"sqlite:///{earlier_folder / 'twigcast.db'}"


def test_a_store_made_before_migrations_opens_as_it_was(earlier_store: str) -> None:
    with Store.open(earlier_store, create=False) as store:
        found = {record.id: record for record in store.subscriptions()}
        assert set(found) == {
            "filter", "residual", "nodes", "fragments", "tian", "transform", "join", "paused", "late",
        }  # fmt: skip
        assert found["paused"].state == "paused" and found["tian"].dialect == "tian"
        assert found["late"].subscriber == "ann" and found["fragments"].result == "fragments"
        assert store.version == 3 and {record.reason for record in found.values()} == {None}
        store.subscribe("/new", id="new")
        assert [record.id for record in store.changes(3).added] == ["new"]
    with Store.open(earlier_store) as store:
        assert store.version == 4


def test_the_newest_migration_is_the_one_that_a_store_asks_for() -> None:
    settings = Config()
    settings.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(settings).get_heads() == [migrations.HEAD]


def test_migrations_make_the_tables_of_a_new_store(store_url: str) -> None:
    engine = create_engine(check_url(store_url))
    with engine.begin() as connection:
        migrations.run(connection)
        context = MigrationContext.configure(connection, opts={"version_table": migrations.TABLE})
        assert compare_metadata(context, tables.metadata) == []
        assert migrations.revision(connection) == migrations.HEAD
    engine.dispose()


def test_a_new_store_records_its_revision(store_url: str) -> None:
    Store.open(store_url).close()
    engine = create_engine(check_url(store_url))
    with engine.connect() as connection:
        assert inspect(connection).has_table(migrations.TABLE)
        assert migrations.revision(connection) == migrations.HEAD
    engine.dispose()


def test_a_store_of_a_later_revision_is_refused(store_url: str) -> None:
    Store.open(store_url).close()
    engine = create_engine(check_url(store_url))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {migrations.TABLE} SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StoreError, match=r"newer Twigcast made it .*9999") as raised:
        Store.open(store_url)
    assert raised.value.code == "newer-store"
