"""Spark SQL: the joins run in Spark, on DataFrames; the tables are kept by DuckDB in the driver, which Spark has no
transactions and no keys for, and published to Spark whenever they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twigcast.relational.database import SAX_PARSE_RESULT, Database
from twigcast.relational.duckdb_database import DuckDB, br_pred
from twigcast.relational.statements import SPARK
from twigcast.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = (
    "query_alternative",
    "query_predicate",
    "predicate_unroll",
    "query_branch_point",
    "reference_value",
    "tagpath_map",
    "path_match",
    "tagpath_br_info",
)


class Published:
    """The tables of a database as views of a Spark session, as of its last change."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._state: object = None
        self._cached: list[DataFrame] = []
        # conjunctions may be long, and candidates many; the statement ends by itself
        spark.conf.set("spark.sql.cteRecursionLevelLimit", "1000")
        spark.conf.set("spark.sql.cteRecursionRowLimit", "-1")
        spark.udf.register("br_pred", _br_pred_udf())

    def refresh(self, database: Database) -> None:
        ((changes,),) = database.rows("SELECT changes FROM relational_meta")
        ((tag_paths, last),) = database.rows("SELECT count(*), coalesce(max(tagpath_id), 0) FROM tagpath_map")
        ((matches,),) = database.rows("SELECT count(*) FROM path_match")
        state = (id(database), changes, tag_paths, last, matches)
        if state == self._state:
            return
        for frame in self._cached:
            frame.unpersist()
        self._cached = []
        for name in TABLES:
            table = database.table(name)
            if not len(table):  # Spark cannot take a column of no chunks
                table = pa.Table.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
            frame = self.spark.createDataFrame(table).cache()
            frame.createOrReplaceTempView(name)
            self._cached.append(frame)
        self._state = state


class SparkSQL(DuckDB):
    """For ``RelationalEngine(SparkSQL(spark))``; ``--database spark``."""

    dialect = SPARK

    def __init__(self, spark: SparkSession | None = None, *, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._spark = spark
        self._published: Published | None = None

    def match(self, statement: str, shreds: pa.Table) -> pa.Table:
        with self._lock:
            if self._published is None:
                self._published = Published(self._spark or session(quick=True))
            self._published.refresh(self)
            spark = self._published.spark
            spark.createDataFrame(shreds).createOrReplaceTempView(SAX_PARSE_RESULT)
            found = spark.sql(statement).toArrow()
        return pa.table({"event_id": found.column(0).cast(pa.int32()), "sub_id": found.column(1).cast(pa.int64())})


def _br_pred_udf() -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    def meets(branches: pa.Array, points: pa.Array, nodes: pa.Array) -> pa.Array:
        return br_pred(branches, points, nodes)

    made: Any = arrow_udf
    return made(meets, "boolean")
