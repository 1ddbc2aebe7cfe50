"""The tables of a relational database as views of a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twigcast.relational import statements
from twigcast.relational.database import Database
from twigcast.relational.statements import Layout
from twigcast.relational.worker import br_pred

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of the rules, and of the paths that messages have: these are small, and change with the messages.
RULES = (
    "query_alternative",
    "query_predicate",
    "predicate_unroll",
    "unroll_first",
    "query_branch_point",
    "reference_value",
)
PATHS = ("tagpath_map", "path_match", "tagpath_br_info")


class Published:
    """The tables of a database as views of a Spark session, as of its last change."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._state: object = None
        self._cached: list[DataFrame] = []
        spark.udf.register("br_pred", _br_pred_udf())

    def refresh(self, database: Database, tables: Sequence[str] = (*RULES, *PATHS)) -> None:
        ((changes,),) = database.rows("SELECT changes FROM relational_meta")
        ((tag_paths, last),) = database.rows("SELECT count(*), coalesce(max(tagpath_id), 0) FROM tagpath_map")
        ((matches,),) = database.rows("SELECT count(*) FROM path_match")
        state = (id(database), changes, tag_paths, last, matches, tables)
        if state == self._state:
            return
        for frame in self._cached:
            frame.unpersist()
        self._cached = []
        for name in tables:
            frame = frame_of(self.spark, database, name).cache()
            frame.createOrReplaceTempView(name)
            self._cached.append(frame)
        self._state = state


def frame_of(spark: SparkSession, database: Database, name: str) -> DataFrame:
    table = database.table(name)
    if not len(table):  # Spark cannot take a column of no chunks
        table = pa.Table.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
    return spark.createDataFrame(table)


# Read more than once, and dear: Spark would work them out anew each time.
_KEPT = ("path_value", "path_summary", "path_equal", "candidate")


def match_tables(spark: SparkSession, layout: Layout) -> DataFrame:
    """The result of a match, table by table. Spark's own recursion works the tables that it reads out anew for every
    step; here each step is a job of its own, and its rows are all that is kept."""
    tables, last = statements.match_tables(statements.SPARK, layout)
    for name, body in tables.items():
        if isinstance(body, statements.Recursion):
            frame = _grown(spark, name, body)
        else:
            frame = spark.sql(body)
            if name in _KEPT:
                frame = frame.localCheckpoint()
        frame.createOrReplaceTempView(name)
    return spark.sql(last)


def _grown(spark: SparkSession, name: str, body: statements.Recursion) -> DataFrame:
    new = spark.sql(body.seed).localCheckpoint()
    every = new
    while not new.isEmpty():
        new.createOrReplaceTempView(name)
        new = spark.sql(body.step).localCheckpoint()
        every = every.unionAll(new)
    return every


def _br_pred_udf() -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    def meets(branches: pa.Array, points: pa.Array, nodes: pa.Array) -> pa.Array:
        return br_pred(branches, points, nodes)

    made: Any = arrow_udf
    return made(meets, "boolean")
