"""The relational engine on Spark SQL: as a database, and as a stage on DataFrames."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

from twigcast import Engine, Subscription
from twigcast.errors import OptionError
from twigcast.lang import ast
from twigcast.papers.relational import PLANS, RelationalEngine
from twigcast.spark import Matched, RuleTables, load_rules, match_relational, match_relational_stream, save_rules
from twigcast.spark.relational import SparkSQL

sys.path += [str(Path(__file__).parents[1] / name) for name in ("lang", "relational")]

from lang_documents import document
from relational_random import check_expressions, check_twigs, expression_lists, seeds, twig_lists
from yfilter_sets import SETS, check_set

QUERIES = [
    "/a//b[.//c and d = '1']/@a",
    "//a[b = 1 and c != '2']",
    "//a[b > 0 and .//c <= 2 or d]",
    "//*[a and b and c]",
    "//b[@a != 1][c]",
    "//a/text() = 'x'",
    "//a[b[c]/d and .//d = 2]",
    "//c[. = '' or . = '1.0']",
    "//node()[. = 2]",
]
SUBSCRIPTIONS = [Subscription(f"q{i}", query) for i, query in enumerate(QUERIES)]
MESSAGES = [document(random.Random(seed)) for seed in range(40)]


def expected() -> list[list[Any]]:
    automaton = Engine()
    automaton.add_many(SUBSCRIPTIONS)
    return [automaton.match(xml) for xml in MESSAGES]


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_as_a_database(spark: SparkSession, plan: str) -> None:
    small: dict[str, Any] = {"unroll": {"unroll": 2}, "share-bucket": {"buckets": 1}}
    engine = RelationalEngine(SparkSQL(spark), plan=plan, **small.get(plan, {}))
    engine.add_many(SUBSCRIPTIONS)
    batch = pa.record_batch({"id": range(len(MESSAGES)), "xml": pa.array(MESSAGES, pa.binary())})
    assert engine.match_batch(batch).column("matches").to_pylist() == expected()
    engine.remove("q2")
    assert "q2" not in engine.match(MESSAGES[0])


def test_twigs_agree(spark: SparkSession) -> None:
    check_twigs(QUERIES[:2], 1, lambda: SparkSQL(spark))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(twig_lists, seeds)
def test_many_twigs_agree(spark: SparkSession, texts: list[str], seed: int) -> None:
    check_twigs(texts, seed, lambda: SparkSQL(spark))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression_lists, seeds)
def test_many_expressions_agree_or_are_refused(spark: SparkSession, exprs: list[ast.Expr], seed: int) -> None:
    check_expressions(exprs, seed, lambda: SparkSQL(spark))


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SETS)
def test_yfilters_sets(spark: SparkSession, shared_data: Path, name: str, plan: str) -> None:
    check_set(RelationalEngine(SparkSQL(spark), plan=plan), shared_data, name)


def test_as_a_stage(spark: SparkSession) -> None:
    engine = RelationalEngine(plan="unroll", unroll=2)
    engine.add_many(SUBSCRIPTIONS)
    rows = [(f"m{i}", bytearray(xml)) for i, xml in enumerate(MESSAGES)]
    frame = spark.createDataFrame([*rows, ("bad", bytearray(b"<a>"))], "key string, body binary")
    matched = match_relational(frame, engine, id="key", xml="body")
    found = {(row.message, row.subscription) for row in matched.matches.collect()}
    assert found == {(f"m{i}", id) for i, ids in enumerate(expected()) for id in ids}
    ((dead),) = matched.dead.collect()
    assert (dead.message, dead.reason, bytes(dead.original)) == ("bad", "unclosed-element", b"<a>")
    # a subscription that is new, and a message with tag paths that are
    engine.add("//z", id="new")
    again = match_relational(spark.createDataFrame([("z", "<y><z/></y>")], "id string, xml string"), engine)
    assert [(row.message, row.subscription) for row in again.matches.collect()] == [("z", "new")]


def test_rules_as_tables_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Saved in one format or another, loaded, and matched by who has no other database."""
    engine = RelationalEngine(plan="unroll", unroll=2)
    engine.register("vip", pa.table({"id": ["x", "1", "1.0", "2"]}))
    engine.add_many([*SUBSCRIPTIONS[:3], Subscription("vip", "//* = $vip.id")])
    batch = pa.record_batch({"id": range(len(MESSAGES)), "xml": pa.array(MESSAGES, pa.binary())})
    want = engine.match_batch(batch).column("matches").to_pylist()
    assert sum("vip" in ids for ids in want) > 2
    save_rules(spark, engine, folder=tmp_path / "rules", format="orc")
    engine.close()
    rules = load_rules(spark, folder=tmp_path / "rules", format="orc")
    frame = spark.createDataFrame([(i, bytearray(xml)) for i, xml in enumerate(MESSAGES)], "id int, xml binary")
    for messages in (frame.limit(5), frame):  # tag paths that are new come later, too
        found = {(row.message, row.subscription) for row in match_relational(messages, rules).matches.collect()}
        seen = {row.id for row in messages.select("id").collect()}
        assert found == {(i, id) for i, ids in enumerate(want) if i in seen for id in ids}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_rules_in_a_schema(spark: SparkSession, plan: str) -> None:
    engine = RelationalEngine(plan=plan)
    engine.add_many(Subscription(i, f"/q[s = 'S{i % 40}' and p > {i % 70} and v < {i % 90}]") for i in range(3000))
    xml = [f"<q><s>S{i % 50}</s><p>{i}</p><v>{90 - i}</v></q>".encode() for i in range(60)]
    want = engine.match_batch(pa.record_batch({"id": range(60), "xml": pa.array(xml, pa.binary())}))
    expected = {(i, id) for i, ids in enumerate(want.column("matches").to_pylist()) for id in ids}
    assert len(expected) > 500
    schema = f"rules_{plan.replace('-', '_')}"
    save_rules(spark, engine, schema=schema)
    try:
        frame = spark.createDataFrame([(i, bytearray(x)) for i, x in enumerate(xml)], "id int, xml binary")
        rules = load_rules(spark, schema=schema)
        found = {(row.message, row.subscription) for row in match_relational(frame, rules).matches.collect()}
        assert found == expected
    finally:
        spark.sql(f"DROP SCHEMA {schema} CASCADE")


def test_mistakes_in_rules(spark: SparkSession, tmp_path: Path) -> None:
    for wrong in ({}, {"schema": "a", "folder": "b"}):
        with pytest.raises(OptionError, match="schema or in a folder"):
            load_rules(spark, **wrong)
    with pytest.raises(OptionError, match="no table 'relational_meta'"):
        RuleTables({})


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_reference_data(spark: SparkSession, plan: str) -> None:
    """As tests/relational/test_relational_reference.py has it for the other databases."""
    engine = RelationalEngine(SparkSQL(spark), plan=plan, unroll=2)
    engine.register("vip", spark.createDataFrame([("ann", "Rome"), ("007", "Oslo")], "id string, city string"))
    queries = {
        "one": "/order/customer = $vip.id",
        "both": "/order[customer = $vip.id and city = $vip.city and total > 10]",
        "branch": "//item[name = $vip.id]/@n = 2",
        "either": "/order[customer = $vip.id or total = 5]",
    }
    engine.add_many(Subscription(id, query) for id, query in queries.items())
    order = "<order><customer>{}</customer><city>{}</city><total>{}</total>{}</order>"
    item = '<item n="1"><name>ann</name></item><item n="2"><name>{}</name></item>'
    rows = [("ann", "Oslo", 11, ""), ("eve", "Oslo", 5, ""), ("eve", "", 1, item.format("x"))]
    rows.append(("eve", "", 1, item.format("007")))
    xml = pa.array([order.format(*row).encode() for row in rows], pa.binary())
    found = engine.match_batch(pa.record_batch({"id": range(4), "xml": xml})).column("matches").to_pylist()
    assert found == [["one", "both", "either"], ["either"], [], ["branch"]]


@pytest.mark.slow
def test_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    engine = RelationalEngine(plan="share")
    engine.add("/a[b = 1]", id=7)
    spark.createDataFrame([(1, "<a><b>1</b></a>"), (2, "<a/>")], "id int, xml string").write.parquet(
        str(tmp_path / "in")
    )
    found: list[tuple[int, int]] = []

    def each(matched: Matched, number: int) -> None:
        found.extend((row.message, row.subscription) for row in matched.matches.collect())

    stream = spark.readStream.schema("id int, xml string").parquet(str(tmp_path / "in"))
    query = match_relational_stream(stream, engine, each).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    assert found == [(1, 7)]
    # rules of Spark's own; the next start of the stream sees what is new
    save_rules(spark, engine, folder=tmp_path / "rules")
    spark.createDataFrame([(3, "<a><b>1</b></a>")], "id int, xml string").write.mode("append").parquet(
        str(tmp_path / "in")
    )
    rules = load_rules(spark, folder=tmp_path / "rules")
    query = match_relational_stream(stream, rules, each).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    assert found == [(1, 7), (3, 7)]
