"""The strategies that are there for comparison, behind the same face as the default one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twigcast import _kernel
from twigcast.correlate.default import Cut, Found, Kept
from twigcast.engine.columns import raise_if
from twigcast.engine.shares import BUDGET_RESULTS, RESULT_NODES, share
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.papers.joins.strategies import make_strategy
from twigcast.papers.joins.strategy import Arrival


class Other:
    """Keeps the messages, and tells the strategy when to forget them."""

    def __init__(self, strategy: str, *, lateness: int | None = None, limits: Limits | None = None) -> None:
        self.strategy = make_strategy(strategy)
        self._limits = (limits or Limits()).as_dict()
        self._lateness = lateness
        self._spans: dict[int, int | None] = {}
        self._kept: dict[int, tuple[int, Kept]] = {}
        self._next = 0
        self._newest: int | None = None
        self._counts = {"messages": 0, "late": 0, "expired": 0, "evicted": 0}

    def add(self, number: int, correlation: Correlation) -> None:
        self.strategy.add(number, correlation)
        windows = [link.window for link in correlation.links]
        self._spans[number] = None if None in windows else sum(window or 0 for window in windows)

    def remove(self, number: int) -> None:
        self.strategy.remove(number)
        del self._spans[number]

    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes, seen: object = None
    ) -> tuple[bool, list[Found], list[Cut]]:
        plain, error = _kernel.plain(xml, self._limits)
        raise_if(error)
        span = None if None in self._spans.values() else max((s or 0 for s in self._spans.values()), default=0)
        lateness = span if self._lateness is None else self._lateness
        if self._newest is not None and lateness is not None and time < self._newest - lateness:
            self._counts["late"] += 1
            return False, [], []
        self._counts["messages"] += 1
        number, self._next = self._next, self._next + 1
        self._kept[number] = time, Kept(label, xml)
        joined = self.strategy.process(Arrival(number, stream, time, plain, derived))
        found = [
            Found(one.query, tuple(self._kept[m][1] for m in one.messages), one.nodes)
            for one in sorted(joined, key=lambda one: (one.query, one.messages, one.nodes))
        ]
        self._newest = time if self._newest is None else max(time, self._newest)
        if span is not None and lateness is not None:
            self._expire(self._newest - lateness - span)
        return True, *self._first_results(found)

    def _first_results(self, found: list[Found]) -> tuple[list[Found], list[Cut]]:
        """Return the results that the limits let through, and who does not get all of his."""
        wanted = Counter(one.number for one in found)
        own = self._limits["max_result_nodes"]
        level = share((min(count, own) for count in wanted.values()), self._limits["max_message_results"])
        most, reason = (own, RESULT_NODES) if level is None or level >= own else (level, BUDGET_RESULTS)
        cuts = [(number, reason) for number, count in sorted(wanted.items()) if count > most]
        given: Counter[int] = Counter()
        kept = []
        for one in found if cuts else ():
            given[one.number] += 1
            if given[one.number] <= most:
                kept.append(one)
        return kept if cuts else found, cuts

    def _expire(self, before: int) -> None:
        old = [number for number, (time, _) in self._kept.items() if time < before]
        if old:
            self.strategy.expire(before)
            for number in old:
                del self._kept[number]
            self._counts["expired"] += len(old)

    def too_much(self) -> tuple[int, int] | None:
        return None

    def stats(self) -> dict[str, Any]:
        return {**self._counts, "stored": len(self._kept)}
