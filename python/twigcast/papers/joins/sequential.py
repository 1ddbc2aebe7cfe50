"""One query at a time, by nested loops (joins §6, "Sequential"): the baseline that sharing is measured against."""

from __future__ import annotations

from itertools import product

from twigcast.ir.correlation import Correlation
from twigcast.papers.joins.bindings import Row, in_time, rows, shown_nodes, wanted
from twigcast.papers.joins.strategy import Arrival, Joined
from twigcast.papers.plans.nodes import Message


class Sequential:
    """For each query and block, the messages that match the block and the rows of its bindings in them."""

    def __init__(self) -> None:
        self._queries: dict[int, Correlation] = {}
        self._wanted: dict[int, list[tuple[int, ...]]] = {}
        self._state: dict[int, list[dict[int, list[Row]]]] = {}
        self._times: dict[int, int] = {}

    def add(self, query: int, correlation: Correlation) -> None:
        blocks = range(len(correlation.blocks))
        self._queries[query] = correlation
        self._wanted[query] = [wanted(correlation, block) for block in blocks]
        self._state[query] = [{} for _ in blocks]

    def remove(self, query: int) -> None:
        del self._queries[query], self._wanted[query], self._state[query]

    def process(self, arrival: Arrival) -> list[Joined]:
        message = Message(arrival.xml)
        found: list[Joined] = []
        self._times[arrival.number] = arrival.time
        for query, correlation in self._queries.items():
            state = self._state[query]
            current: list[list[Row]] = []
            for block, some in zip(correlation.blocks, self._wanted[query], strict=True):
                current.append(rows(block, some, message) if arrival.is_read_by(block) else [])
            for at, bound in enumerate(current):
                if bound:
                    found += self._joined(query, at, arrival.number, bound)
            for at, bound in enumerate(current):
                if bound:
                    state[at][arrival.number] = bound
        return sorted(found)

    def _joined(self, query: int, at: int, number: int, bound: list[Row]) -> list[Joined]:
        """The results with the message as its block ``at``; the others are among those before."""
        correlation, state = self._queries[query], self._state[query]
        found: list[Joined] = []
        for messages in product(*[[number] if one == at else kept for one, kept in enumerate(state)]):
            if len(set(messages)) < len(messages):
                continue
            if not in_time(correlation.links, [self._times[one] for one in messages]):
                continue
            every = [bound if block == at else state[block][one] for block, one in enumerate(messages)]
            found += [Joined(query, messages, nodes) for nodes in shown_nodes(correlation, every)]
        return found

    def expire(self, before: int) -> None:
        gone = {number for number, time in self._times.items() if time < before}
        for number in gone:
            del self._times[number]
        for blocks in self._state.values():
            for kept in blocks:
                for number in gone & kept.keys():
                    del kept[number]
