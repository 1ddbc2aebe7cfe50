"""A broker that evaluates subscriptions by the papers' own strategies. The answers are the same."""

from __future__ import annotations

from functools import partial
from typing import Any

from twigcast import broker
from twigcast.correlate import engine as correlate
from twigcast.correlate.engine import Backend
from twigcast.errors import OptionError
from twigcast.papers.engine import Engine
from twigcast.papers.joins.backend import Other
from twigcast.papers.joins.strategies import STRATEGIES

ENGINE = ("mode", "predicates", "sharing", "optimize", "share_plans")
"""Options of ``Engine`` that a broker takes as well."""


class Correlations(correlate.Correlations):
    """Correlations by a strategy of MMQJP's authors: ``mmqjp``, ``mmqjp-materialized`` or ``sequential``."""

    def __init__(self, *, strategy: str = "default", **options: Any) -> None:
        if strategy not in STRATEGIES:
            hint = f"the strategies are {', '.join(STRATEGIES)}"
            raise OptionError("unknown-strategy", f"there is no strategy {strategy!r}", hint=hint)
        self.strategy = strategy
        super().__init__(**options)

    def _make_backend(self, lateness: int | None) -> Backend:
        if self.strategy == "default":
            return super()._make_backend(lateness)
        return Other(self.strategy, lateness=lateness, limits=self.limits)


class Broker(broker.Broker):
    """A broker with the papers' options beside its own: those of ``Engine``, and ``strategy`` for correlations."""

    def __init__(self, *, strategy: str = "default", **options: Any) -> None:
        own = {name: options.pop(name) for name in ENGINE if name in options}
        self._make_engine = partial(Engine, **own)
        self._make_correlations = partial(Correlations, strategy=strategy)
        super().__init__(**options)
