"""Spark as the data plane: sources and stages as DataFrame functions, and the pipeline that joins them."""

from twigcast.spark.api import deliver, pipeline, read
from twigcast.spark.correlate import correlate
from twigcast.spark.live import LiveSet
from twigcast.spark.rules import RuleTables, load_rules, save_rules
from twigcast.spark.session import session
from twigcast.spark.stages.match import Matched, match, publish
from twigcast.spark.stages.relational import match_relational, match_relational_stream
from twigcast.spark.workers import Snapshot

__all__ = [
    "LiveSet",
    "Matched",
    "RuleTables",
    "Snapshot",
    "correlate",
    "deliver",
    "load_rules",
    "match",
    "match_relational",
    "match_relational_stream",
    "pipeline",
    "publish",
    "read",
    "save_rules",
    "session",
]
