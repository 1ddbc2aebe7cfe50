"""From what was matched to who gets it: the delivery log, and the sinks that consume it. Knows nothing of Spark."""

from twigcast.delivery.log import Counts, Log, LogBatch, Piece
from twigcast.delivery.writer import REPORT, REPORT_SQL, LogPart, LogWriter

__all__ = ["REPORT", "REPORT_SQL", "Counts", "Log", "LogBatch", "LogPart", "LogWriter", "Piece"]
