"""The relational engine as a stage: messages are shredded in the workers, and matched by Spark's own joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.errors import OptionError
from twigcast.relational.database import SAX_PARSE_RESULT
from twigcast.relational.engine import RelationalEngine
from twigcast.relational.worker import Shredding
from twigcast.spark.published import Published, match_tables
from twigcast.spark.stages.match import REJECT, Matched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def match_relational(messages: DataFrame, engine: RelationalEngine, *, id: str = "id", xml: str = "xml") -> Matched:
    """Match every message of a static DataFrame (in a stream: of a micro-batch, inside ``foreachBatch``) against the
    subscriptions of a relational engine, whatever its database. As ``match``, but that tag paths are found, and the
    joins begun, when it is called."""
    from pyspark.sql import functions as f

    for name in (id, xml):
        if name not in messages.columns:
            have = ", ".join(messages.columns)
            raise OptionError("no-such-column", f"the messages have no column {name!r}", hint=f"they have: {have}")
    spark = messages.sparkSession
    event = f.monotonically_increasing_id().alias("event_id")
    # kept, so that an event has one number whoever reads it
    numbered = messages.select(messages[id].alias("message"), messages[xml].alias("xml"), event).persist()
    stage = ShredStage(Shredding.of(engine))
    shreds = numbered.select("event_id", "xml").mapInArrow(stage, SHREDS).persist()
    known = [row.tagpath for row in shreds.where("tagpath IS NOT NULL").select("tagpath").distinct().collect()]
    engine.learn(known)
    published = _of(spark)
    published.refresh(engine.database)
    rows = shreds.where("tagpath IS NOT NULL").join(spark.table("tagpath_map"), "tagpath")
    rows.createOrReplaceTempView(SAX_PARSE_RESULT)
    found = match_tables(spark, engine.layout())
    ids = spark.createDataFrame(engine.named())
    number = found["sub_id"]
    nothing = [f.lit(None).cast(_SPARK[str(kind)]).alias(name) for name, kind in REJECT]
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
            *[f.col(name) for name, _ in REJECT[:-1]],
            f.col("xml").cast("binary").alias("original"),
        )
    )
    return Matched(matches.unionByName(dead))


_SPARK = {"string": "string", "int64": "long", "binary": "binary"}


def _of(spark: SparkSession) -> Published:
    """One for a session: tables that have not changed are published once."""
    known = _published.get(hash(spark))
    if known is None or known.spark is not spark:
        known = _published[hash(spark)] = Published(spark)
    return known
