"""Spark as the data plane: sources, stages and sinks as DataFrame functions, and the pipeline that joins them."""

from twigcast.spark.inbox import Progress, run_directory
from twigcast.spark.session import session
from twigcast.spark.sinks.outbox import Counts
from twigcast.spark.stages.match import Matched, match
from twigcast.spark.stages.snapshot import Snapshot, publish

__all__ = ["Counts", "Matched", "Progress", "Snapshot", "match", "publish", "run_directory", "session"]
