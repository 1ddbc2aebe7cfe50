"""A micro-batch of messages into the delivery log: the workers match and write, the driver commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twigcast.delivery import REPORT_SQL, Counts, Log
from twigcast.spark.live import Published
from twigcast.spark.stages.deliver import DeliverTask
from twigcast.spark.stages.preload import preloading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASK_REPORT_SQL = f"{REPORT_SQL}, archive_file string"


def commit_batch(frame: DataFrame, task: DeliverTask, published: Published, log: Log, batch: int) -> Counts:
    """Match the rows of ``frame``, which ``task`` knows how to load, against one version, and commit what was found.

    With several shards every one of them sees every message: memory for time.
    """
    # Of several shards a machine is to hold no more than its workers are busy with.
    shared = published.shards[0].base.engine if len(published.shards) == 1 else None
    with preloading(frame.sparkSession.sparkContext, shared):
        parts = [
            frame.mapInArrow(task.for_shard(number, version), TASK_REPORT_SQL)
            for number, version in enumerate(published.shards)
        ]
    every = parts[0]
    for part in parts[1:]:
        every = every.unionAll(part)
    reports: Sequence[dict[str, object]] = [row.asDict() for row in every.collect()]
    if task.archive is not None:
        task.archive.commit(batch, [str(r["archive_file"]) for r in reports if r["archive_file"]])
    return log.commit(batch, published.version, reports)
