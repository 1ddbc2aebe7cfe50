"""Large files on Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from twigcast.chunk.prepare import prepare
from twigcast.engine import Engine, Subscription
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.schema import dtd_schema
from twigcast.spark import chunk

RECORDS = b"".join(b"<s id='%d'><n>x%d</n></s><p><n>y%d</n></p>\n" % (i, i, i) for i in range(200))
DOCUMENT = b"<db>\n" + RECORDS + b"</db>"
DTD = b"<!ELEMENT db (s|p)*><!ELEMENT s (n)><!ATTLIST s id CDATA #REQUIRED><!ELEMENT p (n)><!ELEMENT n (#PCDATA)>"
QUERIES = [
    "/db/s[n = 'x150']",
    "/db/p/n",
    "//n[. = 'y7']",
    "/db/q",
    "not(/db/q)",
    "/db/s[@id > 198]/n",
    "count(//p) = 200",
]
SUBSCRIPTIONS = [Subscription(i, query) for i, query in enumerate(QUERIES)]


def found(matched: chunk.Matched) -> set[tuple[str, int]]:
    return {(Path(row.message).name, row.subscription) for row in matched.matches.collect()}


def test_what_may_take_too_long_is_a_failure_of_its_subscription(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(DOCUMENT)
    costly = Subscription(7, "not(/db/s[n < @id])")
    limits = Limits(max_query_steps=10)
    matched = chunk.match(spark, [str(tmp_path / "a.xml")], [*SUBSCRIPTIONS, costly], chunks=2, limits=limits)
    assert {number for _, number in found(matched)} == {0, 1, 2, 4, 5, 6}
    assert matched.dead.collect() == []
    (failure,) = matched.failures.collect()
    assert (failure.subscription, failure.reason) == (7, "query-too-costly")


def test_one_answer_per_document_and_subscription(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(DOCUMENT)
    (tmp_path / "b.xml.gz").write_bytes(gzip.compress(b"<db><p><n>y7</n></p></db>"))
    (tmp_path / "c.xml").write_bytes(DOCUMENT[:3000] + b"</oops>" + DOCUMENT[3000:])
    (tmp_path / "d.xml").write_bytes(b"<db><q/><r><n>y7</n></r></db>")  # not of the schema
    engine = Engine()
    engine.add_many(SUBSCRIPTIONS)
    paths = [str(tmp_path / name) for name in ("a.xml", "b.xml.gz", "c.xml", "d.xml", "none.xml")]
    for schema in (None, dtd_schema(DTD)):
        matched = chunk.match(
            spark, paths, SUBSCRIPTIONS, chunks=2, schema=schema, batch_bytes=1000, first=[5, 0], tasks=2
        ).persist()
        rows = found(matched)
        assert {n for name, n in rows if name == "a.xml"} == set(engine.match(DOCUMENT))
        assert {n for name, n in rows if name == "b.xml.gz"} == set(engine.match(b"<db><p><n>y7</n></p></db>"))
        assert {n for name, n in rows if name == "d.xml"} == set(engine.match(b"<db><q/><r><n>y7</n></r></db>"))
        # By the schema there is no q, whatever else the document may have.
        assert {n for name, n in rows if name == "c.xml"} <= ({1, 2, 4} if schema else {1, 2})
        dead = {Path(row.message).name: row for row in matched.dead.collect()}
        assert set(dead) == {"c.xml", "none.xml"}
        assert (dead["c.xml"].reason, dead["none.xml"].reason) == ("mismatched-tag", "unreadable")
        assert dead["c.xml"].line > 1
        assert dead["c.xml"].offset == 3000
        matched.unpersist()


def test_fragments_carry_the_nodes_of_the_original(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(DOCUMENT)
    rows = chunk.fragments(spark, str(path), prepare(SUBSCRIPTIONS[:2], chunks=2), batch_bytes=1000).collect()
    assert len(rows) > 10
    for row in rows[:-1]:
        assert all(DOCUMENT[at : at + 1] == b"<" for at in row.offsets)
    assert rows[-1].chunk is None
    assert rows[-1].reason is None


def test_selected_nodes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(DOCUMENT)
    subscriptions = [Subscription("s", "/db/s[@id > 198]/n", result="fragments"), Subscription("m", "/db/p")]
    matched = chunk.match(spark, str(path), subscriptions, batch_bytes=1000)
    rows = {row.subscription: row.payload for row in matched.matches.collect()}
    assert rows == {"s": b"<n>x199</n>", "m": None}


def test_mistakes(spark: SparkSession) -> None:
    for wrong in ({"first": [99]}, {"paths": []}):
        with pytest.raises(OptionError):
            chunk.match(spark, **{"paths": "x", "subscriptions": SUBSCRIPTIONS, **wrong})  # type: ignore[arg-type]
