"""Spark as the data plane: sources, stages and sinks as DataFrame functions, and the pipeline that joins them."""

from twigcast.spark.pipeline import Progress, run_directory
from twigcast.spark.session import session
from twigcast.spark.sinks.outbox import Counts
from twigcast.spark.stages.match import Matched, match

__all__ = ["Counts", "Matched", "Progress", "match", "run_directory", "session"]
