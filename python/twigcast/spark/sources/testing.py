"""Sources for tests and trials: lines from a socket, and a steady rate of small messages. Neither survives a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twigcast.spark.sources.messages import Source
from twigcast.spark.sources.table import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def socket(spark: SparkSession, host: str, port: int) -> Source:
    """One message per line of what a server sends."""
    lines = spark.readStream.format("socket").options(host=host, port=port, includeTimestamp="true").load()
    frame = lines.where("length(value) > 0").selectExpr(
        "concat_ws('-', unix_micros(timestamp), sha1(value)) as message",
        "timestamp as time",
        "cast(null as map<string,string>) as headers",
        "value as xml",
    )
    return Source(frame, load)


def rate(spark: SparkSession, rows_per_second: int, template: str = '<tick number="{value}"/>') -> Source:
    """So many messages per second, numbered."""
    from pyspark.sql import functions as F

    rows = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).load()
    value = F.col("value").cast("string")
    frame = rows.select(
        value.alias("message"),
        F.col("timestamp").alias("time"),
        F.lit(None).cast("map<string,string>").alias("headers"),
        F.replace(F.lit(template), F.lit("{value}"), value).alias("xml"),
    )
    return Source(frame, load)
