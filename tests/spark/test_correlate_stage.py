"""Correlations on Spark: batch and streaming give what the brute-force evaluator gives, across restarts too."""

from __future__ import annotations

import itertools
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast.errors import QueryError
from twigcast.lang.xscl import parse_correlation
from twigcast.spark.correlate import correlate, late
from twigcast.units import SECOND

sys.path.append(str(Path(__file__).parents[1] / "correlate"))

from correlate_random import Arrivals, arrivals, queries

EXAMPLES = 30 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 3
ALL = 1000
QUERIES = {
    "follow": "S/m->x[a->v][b->w] FOLLOWED BY{v = p AND w = q, 20} S/m->y[a->p][b->q]",
    "either": "S/m->x[a->v] JOIN{v = w, 3} T/n->y[.//c->w]",
    "more": "SELECT <more>{ $v }</more> FROM S/m->x[a->v] FOLLOWED BY{v < w, 2} T/n->y[.//c->w]",
    "chain": "S/m->x[a->v] JOIN{v = w, 5} T/n->y[.//c->w] FOLLOWED BY{w = z, 10} S/m->k[b->z]",
    "made": "SELECT <pair>{ $v }</pair> FROM S/m->x[b->v] JOIN{v = w, 4} T/n->y[.//c->w] PUBLISH pairs",
    "of made": "pairs/pair->x[b->v] FOLLOWED BY{v = w, 9} T/n->y[.//c->w]",
}
Row = tuple[str, str, int, str]


def stream(count: int) -> list[Row]:
    """(stream, id, time in microseconds, XML), out of order by up to three seconds."""
    chance = Random(7)
    rows = []
    for number in range(count):
        value = lambda: chance.randrange(6)  # noqa: E731
        xml = f"<m><a>{value()}</a><b>{value()}</b></m>"
        if number % 3 == 0:
            xml = f"<n><c>{value()}</c><d><c>{value()}</c></d></n>"
        rows.append(("T" if number % 3 == 0 else "S", f"m{number}", (number - chance.randrange(3)) * SECOND, xml))
    return rows


def expected(rows: list[Row]) -> list[tuple[str, list[str], bytes]]:
    correlations = {id: parse_correlation(query) for id, query in QUERIES.items()}
    found = evaluate(correlations, [(id, stream, time, xml.encode()) for stream, id, time, xml in rows])  # type: ignore[arg-type]
    return sorted((str(r.subscription), [str(m) for m in r.messages], canonical(r.payload)) for r in found)


def found(frame: DataFrame) -> list[tuple[str, list[str], bytes]]:
    return sorted((r.subscription, list(r.messages), canonical(bytes(r.payload))) for r in frame.collect())


SCHEMA = "stream string, message string, time long, xml string"


def messages(frame: DataFrame) -> DataFrame:
    return frame.withColumn("xml", f.col("xml").cast("binary"))


def test_a_static_frame(spark: SparkSession) -> None:
    rows = stream(60)
    frame = messages(spark.createDataFrame(rows, SCHEMA)).repartition(3)
    assert found(correlate(frame, QUERIES, stream="stream", buckets=3)) == expected(rows)


@pytest.mark.parametrize("streaming", [False, True])
def test_random_streams_and_queries(spark: SparkSession, tmp_path: Path, streaming: bool) -> None:
    examples = itertools.count()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(queries(), min_size=10, max_size=20), arrivals(12), st.integers(1, 3))
    def agree(texts: list[str], stream: Arrivals, buckets: int) -> None:
        known = {}
        for number, text in enumerate(texts):
            with suppress(QueryError):
                known[f"q{number}"] = parse_correlation(text)
        rows = [(source, str(number), time, xml.decode()) for number, source, time, xml in stream]
        wanted = [
            (str(r.subscription), [str(m) for m in r.messages], canonical(r.payload))
            for id, query in known.items()
            for r in evaluate({id: query}, stream)
        ]
        folder = tmp_path / str(next(examples))
        if streaming:
            frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            for at in range(0, len(rows), 5):
                spark.createDataFrame(rows[at : at + 5], SCHEMA).coalesce(1).write.mode("append").json(
                    str(folder / "in")
                )
            results = correlate(
                messages(frame.json(str(folder / "in"))), known, stream="stream", buckets=buckets, lateness=ALL
            )
            writer = results.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
            writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
            results = spark.read.parquet(str(folder / "out"))
        else:
            frame = messages(spark.createDataFrame(rows, SCHEMA)).repartition(3)
            results = correlate(frame, known, stream="stream", buckets=buckets)
        assert found(results) == sorted(wanted)
        agreed.append(len(wanted))

    agreed: list[int] = []
    agree()
    assert sum(agreed) >= 20


def test_a_stream_that_is_stopped_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    rows = stream(60)
    inbox, checkpoint, out = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"
    inbox.mkdir()

    def run(*parts: list[Row]) -> None:
        for part in parts:
            text = "".join(
                json.dumps(dict(zip(("stream", "message", "time", "xml"), r, strict=True))) + "\n" for r in part
            )
            number = len(list(inbox.iterdir()))
            (inbox / f"{number:03d}.json").write_text(text)
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(inbox))
        results = correlate(messages(frame), QUERIES, stream="stream", buckets=2, lateness=100, everything=True)
        query = (
            results.writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination()

    run(rows[:30])
    run(rows[30:], [("S", "late", -1000 * SECOND, "<m><a>1</a><b>1</b></m>")])
    written = spark.read.parquet(str(out))
    assert found(written.where("kind = 'result'")) == expected(rows)
    assert [row.message for row in late(written).collect()] == ["late"]
    made = written.where("kind = 'derived'").collect()
    assert sorted(r.message for r in made) == sorted(
        f"pairs({','.join(ids)})" for id, ids, _ in expected(rows) if id == "made"
    )


def test_the_state_of_an_endless_stream_stays_flat(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for number in range(8):
        rows = [(f"m{at}", at * SECOND, f"<a>{at % 7}</a>") for at in range(number * 10, number * 10 + 10)]
        text = "".join(json.dumps(dict(zip(("message", "time", "xml"), row, strict=True))) + "\n" for row in rows)
        (inbox / f"{number}.json").write_text(text)
        os.utime(inbox / f"{number}.json", (1_700_000_000 + number,) * 2)  # the order in which they are read
    reader = spark.readStream.schema("message string, time long, xml string").option("maxFilesPerTrigger", 1)
    queries = {"q": "S/a->x FOLLOWED BY{x = y, 15} S/a->y"}
    results = correlate(messages(reader.json(str(inbox))), queries, buckets=1, lateness=0)
    writer = results.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    # the state of a micro-batch goes when its window has passed: three are there beside what the state says of itself
    sizes = [one["stateOperators"][0]["numRowsTotal"] for one in query.recentProgress if one["numInputRows"]]
    assert len(sizes) == 8 and sizes[3:] == [sizes[3]] * 5, sizes
    assert spark.read.parquet(str(tmp_path / "out")).count() == sum(min(at // 7, 2) for at in range(80))
