"""The strategies by name, but for the default one."""

from __future__ import annotations

from twigcast.correlate.strategy import Strategy
from twigcast.errors import OptionError

NAMES = ("default", "mmqjp", "mmqjp-materialized", "sequential")


def make_strategy(name: str) -> Strategy:
    """Of the paper: those that run on DuckDB ask for it only when they are made."""
    if name == "sequential":
        from twigcast.correlate.sequential import Sequential

        return Sequential()
    if name == "mmqjp":
        from twigcast.correlate.mmqjp import Mmqjp

        return Mmqjp()
    if name == "mmqjp-materialized":
        from twigcast.correlate.materialized import MaterializedMmqjp

        return MaterializedMmqjp()
    raise OptionError("unknown-strategy", f"there is no strategy {name!r}", hint="one of: " + ", ".join(NAMES))
