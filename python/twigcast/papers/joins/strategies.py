"""The strategies by name, but for the default one."""

from __future__ import annotations

from twigcast.errors import OptionError
from twigcast.papers.joins.strategy import Strategy

STRATEGIES = ("default", "mmqjp", "mmqjp-materialized", "sequential")


def make_strategy(name: str) -> Strategy:
    """Of the paper: those that run on DuckDB ask for it only when they are made."""
    if name == "sequential":
        from twigcast.papers.joins.sequential import Sequential

        return Sequential()
    if name == "mmqjp":
        from twigcast.papers.joins.mmqjp import Mmqjp

        return Mmqjp()
    if name == "mmqjp-materialized":
        from twigcast.papers.joins.materialized import MaterializedMmqjp

        return MaterializedMmqjp()
    raise OptionError("unknown-strategy", f"there is no strategy {name!r}", hint="one of: " + ", ".join(STRATEGIES))
