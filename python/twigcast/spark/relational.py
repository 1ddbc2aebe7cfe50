"""Spark SQL as a database: the joins run in Spark. It has no transactions and no keys, so the tables are kept by DuckDB
in the driver, and published to Spark whenever they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.relational.database import SAX_PARSE_RESULT
from twigcast.relational.duckdb_database import DuckDB
from twigcast.relational.statements import SPARK, Layout
from twigcast.spark.published import Published, match_tables
from twigcast.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkSQL(DuckDB):
    """For ``RelationalEngine(SparkSQL(spark))``; ``--database spark``."""

    dialect = SPARK

    def __init__(self, spark: SparkSession | None = None, *, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._spark = spark
        self._published: Published | None = None

    def match_tables(self, shreds: pa.Table, layout: Layout) -> pa.Table:
        with self._lock:
            if self._published is None:
                self._published = Published(self._spark or session(quick=True))
            self._published.refresh(self)
            spark = self._published.spark
            spark.createDataFrame(shreds).createOrReplaceTempView(SAX_PARSE_RESULT)
            found = match_tables(spark, layout).toArrow()
        return pa.table({"event_id": found.column(0).cast(pa.int32()), "sub_id": found.column(1).cast(pa.int64())})
