"""Values compared with reference data, as a join."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from twigcast import Subscription
from twigcast.errors import OptionError, QueryError
from twigcast.papers.relational import PLANS, RelationalEngine

VIP = pa.table({"id": ["ann", "bob", "007"], "city": ["Rome", None, "Oslo"], "points": [1, 2, 2]})


@pytest.fixture(params=["duckdb", "postgresql"])
def where(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "duckdb" else str(request.getfixturevalue("postgresql_url"))


@pytest.mark.parametrize("plan", PLANS)
def test_a_join_with_reference_data(where: str | None, plan: str) -> None:
    engine = RelationalEngine(where, plan=plan, unroll=2)
    engine.register("vip", VIP)
    queries = {
        "one": "/order/customer = $vip.id",
        "both": "/order[customer = $vip.id and city = $vip.city and total > 10]",
        "branch": "//item[name = $vip.id]/@n = 2",
        "either": "/order[customer = $vip.id or total = 5]",
        "numbers": "/order/points = $vip.points",
    }
    engine.add_many(Subscription(id, query) for id, query in queries.items())
    order = "<order><customer>{}</customer><city>{}</city><total>{}</total>{}</order>"
    assert engine.match(order.format("ann", "Oslo", 11, "").encode()) == ["one", "both", "either"]
    assert engine.match(order.format("eve", "Oslo", 5, "<points>2</points>").encode()) == ["either", "numbers"]
    item = '<item n="1"><name>bob</name></item><item n="2"><name>{}</name></item>'
    assert engine.match(order.format("eve", "", 1, item.format("x")).encode()) == []
    assert engine.match(order.format("eve", "", 1, item.format("007")).encode()) == ["branch"]
    engine.register("vip", pa.table({"id": ["eve"], "city": ["Bern"], "points": [0]}))
    assert engine.match(order.format("ann", "Oslo", 11, "").encode()) == []
    assert engine.match(order.format("eve", "Oslo", 11, "").encode()) == ["one", "either"]
    for id in queries:
        engine.remove(id)
    engine.gc()
    assert engine.database.rows("SELECT count(*) FROM query_predicate") == [(0,)]


def test_files_and_tables(tmp_path: Path) -> None:
    (tmp_path / "vip.csv").write_text("id,name\n007,bond\n008,\n")
    parquet.write_table(VIP, tmp_path / "vip.parquet")
    engine = RelationalEngine()
    engine.database.execute("CREATE TABLE customers (id TEXT)")
    engine.database.execute("INSERT INTO customers VALUES ('x')")
    for name, data in {"a": tmp_path / "vip.csv", "b": tmp_path / "vip.parquet", "c": "table:customers"}.items():
        engine.register(name, data)
    engine.add_many(Subscription(name, f"/c = ${name}.id") for name in "abc")
    for text, want in {"007": ["a", "b"], "7": [], "ann": ["b"], "x": ["c"]}.items():
        assert engine.match(f"<c>{text}</c>".encode()) == want


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("/c = $vip.idd", "unknown-reference", "did you mean \\$vip.id"),
        ("/c = $other.id", "unknown-reference", "no reference data"),
        ("/c != $vip.id", "not-relational", "by = only"),
        ("/c > $vip.points", "not-relational", "by = only"),
        ("/c[@a = $vip.id and @b < $vip.points]", "not-relational", "by = only"),
    ],
)
def test_mistakes_in_queries(query: str, code: str, text: str) -> None:
    engine = RelationalEngine()
    engine.register("vip", VIP)
    with pytest.raises(QueryError) as caught:
        engine.add(query)
    assert caught.value.code == code
    assert re.search(text, str(caught.value))


@pytest.mark.parametrize(
    ("name", "data"), [("a b", VIP), ("vip", "absent.csv"), ("vip", 7), ("vip", "table:x; drop"), ("vip", pa.table({}))]
)
def test_mistakes_in_tables(name: str, data: Any) -> None:
    with pytest.raises(OptionError):
        RelationalEngine().register(name, data)


def test_a_dollar_in_a_string_is_a_dollar() -> None:
    engine = RelationalEngine()
    engine.add("/c = '$vip.id'", id=1)
    assert engine.match(b"<c>$vip.id</c>") == [1]
