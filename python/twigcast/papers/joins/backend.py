"""The strategies that are there for comparison, behind the same face as the default one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twigcast import _kernel
from twigcast.correlate.default import Cut, Found
from twigcast.engine.columns import raise_if
from twigcast.engine.shares import BUDGET_RESULTS, RESULT_BYTES, RESULT_NODES, share
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.papers.joins.output import render
from twigcast.papers.joins.strategies import make_strategy
from twigcast.papers.joins.strategy import Arrival, Joined
from twigcast.papers.plans.factory import TooLong
from twigcast.papers.plans.nodes import Message


class Other:
    """Keeps the messages, and tells the strategy when to forget them."""

    def __init__(self, strategy: str, *, lateness: int | None = None, limits: Limits | None = None) -> None:
        self.strategy = make_strategy(strategy)
        self._limits = limits or Limits()
        self._of: dict[int, Correlation] = {}
        self._lateness = lateness
        self._spans: dict[int, int | None] = {}
        self._kept: dict[int, tuple[int, bytes, bytes]] = {}
        self._next = 0
        self._newest: int | None = None
        self._counts = {"messages": 0, "late": 0, "expired": 0, "evicted": 0}

    def add(self, number: int, correlation: Correlation) -> None:
        self.strategy.add(number, correlation)
        self._of[number] = correlation
        windows = [link.window for link in correlation.links]
        self._spans[number] = None if None in windows else sum(window or 0 for window in windows)

    def remove(self, number: int) -> None:
        self.strategy.remove(number)
        del self._spans[number], self._of[number]

    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes, seen: object = None
    ) -> tuple[bool, list[Found], list[Cut]]:
        plain, error = _kernel.plain(xml, self._limits.as_dict())
        raise_if(error)
        span = None if None in self._spans.values() else max((s or 0 for s in self._spans.values()), default=0)
        lateness = span if self._lateness is None else self._lateness
        if self._newest is not None and lateness is not None and time < self._newest - lateness:
            self._counts["late"] += 1
            return False, [], []
        self._counts["messages"] += 1
        number, self._next = self._next, self._next + 1
        self._kept[number] = time, label, xml
        joined = self.strategy.process(Arrival(number, stream, time, plain, derived))
        in_order = sorted(joined, key=lambda one: (one.query, one.messages, one.nodes))
        self._newest = time if self._newest is None else max(time, self._newest)
        found = self._made(*self._first_results(in_order))
        if span is not None and lateness is not None:
            self._expire(self._newest - lateness - span)
        return True, *found

    def _made(self, joined: list[Joined], cuts: list[Cut]) -> tuple[list[Found], list[Cut]]:
        """Return results with their payloads, and who does not get all of his."""
        trees = {number: Message(self._kept[number][2], self._limits) for one in joined for number in one.messages}
        found: list[Found] = []
        too_long: dict[int, Cut] = {}
        for one in joined:
            correlation = self._of[one.query]
            parts: list[tuple[Message, dict[int, int]]] = [(trees[number], {}) for number in one.messages]
            for ref, node in zip(correlation.shown, one.nodes, strict=True):
                parts[ref.block][1][ref.variable] = node
            try:
                payload = render(correlation, parts, self._limits.max_result_bytes)
            except TooLong:
                too_long[one.query] = one.query, RESULT_BYTES
            if one.query not in too_long:
                labels = tuple(self._kept[number][1] for number in one.messages)
                found.append(Found(one.query, labels, one.nodes, payload))
        return found, [*too_long.values(), *cuts]

    def _first_results(self, found: list[Joined]) -> tuple[list[Joined], list[Cut]]:
        """Return the results that the limits let through, and who does not get all of his."""
        wanted = Counter(one.query for one in found)
        own = self._limits.max_result_nodes
        level = share((min(count, own) for count in wanted.values()), self._limits.max_message_results)
        most, reason = (own, RESULT_NODES) if level is None or level >= own else (level, BUDGET_RESULTS)
        cuts = [(number, reason) for number, count in sorted(wanted.items()) if count > most]
        given: Counter[int] = Counter()
        kept = []
        for one in found if cuts else ():
            given[one.query] += 1
            if given[one.query] <= most:
                kept.append(one)
        return kept if cuts else found, cuts

    def _expire(self, before: int) -> None:
        old = [number for number, (time, _, _) in self._kept.items() if time < before]
        if old:
            self.strategy.expire(before)
            for number in old:
                del self._kept[number]
            self._counts["expired"] += len(old)

    def too_much(self) -> tuple[int, int] | None:
        return None

    def stats(self) -> dict[str, Any]:
        return {**self._counts, "stored": len(self._kept)}
