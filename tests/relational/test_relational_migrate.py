"""Databases of earlier versions are brought up to date when they are opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast import Subscription
from twigcast.errors import OptionError
from twigcast.papers.relational import RelationalEngine
from twigcast.relational.tables import VERSION

QUERIES = ["/a[b = 'x' and c > 1]", "/a[b = 'x']", "//a[c = 2]", "//a[c < 3]"]
XML = b"<a><b>x</b><c>2</c></a>"


@pytest.fixture(params=["duckdb", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path / 'rules.db'}"
    return str(request.getfixturevalue("postgresql_url"))


def test_from_version_1(where: str) -> None:
    engine = RelationalEngine(where, plan="unroll")
    engine.add_many(Subscription(i, query) for i, query in enumerate(QUERIES))
    for statement in (
        "DROP TABLE unroll_first",
        "DROP INDEX IF EXISTS predicate_unroll_first",
        "DROP INDEX IF EXISTS predicate_unroll_other",
        "ALTER TABLE predicate_unroll DROP COLUMN first_id",
        "UPDATE relational_meta SET version = 1",
    ):
        engine.database.execute(statement)
    if where.startswith("postgresql"):
        engine.database.execute("CREATE INDEX predicate_unroll_lookup ON predicate_unroll (path1)")
    engine.close()
    engine = RelationalEngine(where)
    assert engine.database.rows("SELECT version FROM relational_meta") == [(VERSION,)]
    assert engine.match(XML) == [0, 1, 2, 3]
    engine.add("/a[b = 'x' and c > 0]", id=4)
    assert engine.database.rows("SELECT count(*) FROM unroll_first") == [(2,)]
    assert engine.match(XML) == [0, 1, 2, 3, 4]
    engine.close()


def test_newer_than_we_know(where: str) -> None:
    engine = RelationalEngine(where)
    engine.database.execute(f"UPDATE relational_meta SET version = {VERSION + 1}")
    engine.close()
    with pytest.raises(OptionError, match="newer"):
        RelationalEngine(where)
