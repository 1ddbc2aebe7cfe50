"""Rules as tables of Spark: of any format, saved from an engine, or made by whoever can write these columns.

What is large (predicates, subscriptions) stays where it is, and only Spark reads it. Linear paths and branches are few:
the driver has a copy, and works out what they mean to the tag paths of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast.errors import OptionError
from twigcast.relational.database import open_database
from twigcast.relational.engine import RelationalEngine
from twigcast.relational.statements import Layout
from twigcast.relational.tables import VERSION, create, layout_from
from twigcast.spark.paths import local_uri
from twigcast.spark.published import PATHS, RULES, Published, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = ("query_linear_path", "linear_path_br_info")
TABLES = ("relational_meta", *SMALL, "unroll_shape", *RULES, "query_subscription")


def save_rules(
    spark: SparkSession,
    engine: RelationalEngine,
    *,
    schema: str | None = None,
    folder: str | Path | None = None,
    format: str = "parquet",
) -> None:
    """Writes the rules of an engine as tables of a schema of Spark's catalog, or as data in a folder, in place of what
    is there."""
    place = _place(schema, folder)
    if schema is not None:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in TABLES:
        writer = frame_of(spark, engine.database, name).write.format(format).mode("overwrite")
        if schema is not None:
            writer.saveAsTable(place(name))
        else:
            writer.save(place(name))


def load_rules(
    spark: SparkSession, *, schema: str | None = None, folder: str | Path | None = None, format: str = "parquet"
) -> RuleTables:
    """What ``save_rules`` has written."""
    place = _place(schema, folder)
    if schema is not None:
        return RuleTables({name: spark.table(place(name)) for name in TABLES})
    return RuleTables({name: spark.read.format(format).load(place(name)) for name in TABLES})


def _place(schema: str | None, folder: str | Path | None) -> Callable[[str], str]:
    if (schema is None) == (folder is None):
        raise OptionError("bad-rules", "rules are in a schema or in a folder", hint="give schema=… or folder=…")
    if isinstance(folder, Path):  # of this machine; a string is for Spark to interpret
        folder = local_uri(folder)
    return lambda name: f"{schema}.{name}" if schema is not None else f"{folder}/{name}"


class RuleTables:
    """Rules whose tables are DataFrames: by name, those of ``TABLES``. For ``match_relational``; what is written to
    them later counts for who makes another one."""

    def __init__(self, tables: Mapping[str, DataFrame]) -> None:
        missing = [name for name in TABLES if name not in tables]
        if missing:
            raise OptionError("bad-rules", f"there is no table {missing[0]!r}", hint=f"rules are {', '.join(TABLES)}")
        self._tables = dict(tables)
        ((version, self._unroll),) = tables["relational_meta"].select("version", "unroll").collect()
        if version != VERSION:
            hint = "open the database that they were saved from, which brings it up to date, and save them again"
            raise OptionError("other-version", f"these tables have version {version}, not {VERSION}", hint=hint)
        database = open_database(None, threads=1)
        create(database, self._unroll)
        for small in SMALL:
            rows = tables[small].toArrow()
            database.insert(small, rows.cast(database.table(small).schema))
        self.paths = RelationalEngine(database)
        """Has the paths, and nothing else."""
        self._layout: Layout | None = None

    def publish(self, published: Published) -> None:
        """As views, for the statements."""
        for name in RULES:
            self._in(published.spark, name).createOrReplaceTempView(name)
        published.refresh(self.paths.database, PATHS)

    def _in(self, spark: SparkSession, name: str) -> DataFrame:
        """A table as another session sees it: a micro-batch has one of its own, where views of this one are not."""
        view = f"twigcast_rules_{id(self)}_{name}"
        self._tables[name].createOrReplaceGlobalTempView(view)
        return spark.table(f"global_temp.{view}")

    def layout(self) -> Layout:
        if self._layout is None:
            sizes = self._tables["predicate_unroll"].groupBy("shape").count()
            rows = sizes.join(self._tables["unroll_shape"], "shape").select("shape", "signature", "count").collect()
            counts = sorted(((shape, text, n) for shape, text, n in rows), key=lambda row: (-row[2], row[0]))
            self._layout = layout_from(self._unroll, counts, self._has)
        return self._layout

    def _has(self, name: str, condition: str) -> bool:
        return not self._tables[name].where(condition).isEmpty()

    def named(self, spark: SparkSession) -> DataFrame:
        """The numbers and ids of all subscriptions; these are numbers if all are, else strings."""
        all_of_them = self._in(spark, "query_subscription")
        is_whole = all_of_them.where("NOT whole").isEmpty()
        return all_of_them.selectExpr("number", "CAST(id AS BIGINT) AS id" if is_whole else "id")
