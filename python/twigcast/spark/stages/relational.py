"""The relational engine as a stage: messages are shredded in the workers, and matched by Spark's own joins.

The rules are an engine's, whatever its database, or Spark's own tables (``twigcast.spark.rules``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twigcast.relational.database import SAX_PARSE_RESULT
from twigcast.relational.engine import RelationalEngine
from twigcast.relational.worker import Shredding
from twigcast.rows import REFUSED
from twigcast.spark.published import Published, match_tables
from twigcast.spark.rules import RuleTables
from twigcast.spark.stages.match import REJECT, Matched
from twigcast.spark.stages.messages import check_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SHREDS = (
    "event_id LONG, tagpath STRING, idpath ARRAY<INT>, value STRING, number DOUBLE,"
    " reason STRING, line LONG, column LONG, offset LONG, text STRING"
)

_published: dict[int, Published] = {}


@dataclass(frozen=True, slots=True)
class ShredStage:
    """What runs in a worker: rows of (event_id, xml) to rows of nodes, and one row for a refused message."""

    shredding: Shredding

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.shredding.rows(batch.column("event_id"), batch.column("xml"))


Rules = RelationalEngine | RuleTables


def match_relational(messages: DataFrame, rules: Rules, *, id: str = "id", xml: str = "xml") -> Matched:
    """Match every message of a static DataFrame (in a stream: see :func:`match_relational_stream`) against the
    subscriptions of a relational engine, whatever its database, or of rule tables. As ``match``, but that tag paths are
    found, and the joins begun, when it is called."""
    return _match(messages, rules, id, xml)[0]


def match_relational_stream(
    messages: DataFrame, rules: Rules, each: Callable[[Matched, int], None], *, id: str = "id", xml: str = "xml"
) -> DataStreamWriter:
    """The same for a stream: ``each`` gets what every micro-batch gave, and its number, inside ``foreachBatch``. What
    comes back is to be given a checkpoint and a trigger, and started. An engine's changes count from the next batch on.
    """

    def batch(frame: DataFrame, number: int) -> None:
        matched, kept = _match(frame, rules, id, xml)
        try:
            each(matched, number)
        finally:
            for one in kept:
                one.unpersist()

    writer: Any = messages.writeStream.foreachBatch(batch)
    return writer  # type: ignore[no-any-return]


def _match(messages: DataFrame, rules: Rules, id: str, xml: str) -> tuple[Matched, list[DataFrame]]:
    """And what Spark keeps for it."""
    from pyspark.sql import functions as f

    check_messages(messages, id, xml)
    spark = messages.sparkSession
    event = f.monotonically_increasing_id().alias("event_id")
    # kept, so that an event has one number whoever reads it
    numbered = messages.select(messages[id].alias("message"), messages[xml].alias("xml"), event).persist()
    engine = rules if isinstance(rules, RelationalEngine) else rules.paths
    stage = ShredStage(Shredding.of(engine))
    shreds = numbered.select("event_id", "xml").mapInArrow(stage, SHREDS).persist()
    known = [row.tagpath for row in shreds.where("tagpath IS NOT NULL").select("tagpath").distinct().collect()]
    engine.learn(known)
    published = _of(spark)
    if isinstance(rules, RelationalEngine):
        published.refresh(engine.database)
    else:
        rules.publish(published)
    rows = shreds.where("tagpath IS NOT NULL").join(spark.table("tagpath_map"), "tagpath")
    rows.createOrReplaceTempView(SAX_PARSE_RESULT)
    found = match_tables(spark, rules.layout())
    ids = spark.createDataFrame(engine.named()) if isinstance(rules, RelationalEngine) else rules.named(spark)
    number = found["sub_id"]
    nothing = [f.lit(None).cast(_SPARK[str(kind)]).alias(name) for name, kind in REJECT.items()]
    matches = (
        found.join(ids, ids["number"] == number)
        .join(numbered, "event_id")
        .select("message", ids["id"].alias("subscription"), *nothing)
    )
    kind = ids.schema["id"].dataType
    dead = (
        shreds.where("reason IS NOT NULL")
        .join(numbered, "event_id")
        .select(
            "message",
            f.lit(None).cast(kind).alias("subscription"),
            *[f.col(name) for name in REFUSED],
            f.col("xml").cast("binary").alias("original"),
        )
    )
    return Matched(matches.unionByName(dead)), [numbered, shreds]


_SPARK = {"string": "string", "int64": "long", "binary": "binary"}


def _of(spark: SparkSession) -> Published:
    """One for a session: tables that have not changed are published once."""
    known = _published.get(hash(spark))
    if known is None or known.spark is not spark:
        known = _published[hash(spark)] = Published(spark)
    return known
