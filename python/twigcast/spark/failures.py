"""What went wrong in Spark, in one line out of two stack traces."""

from __future__ import annotations


def cause(report: str) -> str:
    """The line of a report that says what went wrong."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    causes = [
        line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and not line.startswith("at ")
    ]
    return (causes or lines or ["the query failed"])[-1]
