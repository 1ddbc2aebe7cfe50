"""Spark as the data plane: sources and stages as DataFrame functions, and the pipeline that joins them."""

from twigcast.spark.api import deliver, pipeline, read
from twigcast.spark.correlate import correlate
from twigcast.spark.inbox import Progress, run_directory
from twigcast.spark.live import LiveSet
from twigcast.spark.session import session
from twigcast.spark.sinks.outbox import Counts
from twigcast.spark.stages.match import Matched, match
from twigcast.spark.stages.relational import match_relational
from twigcast.spark.stages.snapshot import Snapshot, publish

__all__ = [
    "Counts",
    "LiveSet",
    "Matched",
    "Progress",
    "Snapshot",
    "correlate",
    "deliver",
    "match",
    "match_relational",
    "pipeline",
    "publish",
    "read",
    "run_directory",
    "session",
]
