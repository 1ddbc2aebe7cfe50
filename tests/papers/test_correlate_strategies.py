"""Random streams × random queries: every strategy gives what the brute-force evaluator gives."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from correlate_reference import evaluate
from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.papers.joins.materialized import MaterializedMmqjp
from twigcast.papers.joins.mmqjp import Mmqjp
from twigcast.papers.joins.sequential import Sequential
from twigcast.papers.joins.strategy import Arrival, Joined, Strategy

EXAMPLES = 400 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 20
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "sequential": Sequential,
    "mmqjp": Mmqjp,
    "mmqjp-materialized": MaterializedMmqjp,
    "mmqjp-materialized, a small cache": lambda: MaterializedMmqjp(max_rows=3),
}


def expected(correlations: dict[int, Correlation], stream: Arrivals) -> list[Joined]:
    numbers = tuple[int, ...]
    found = evaluate(dict(correlations), stream)
    return sorted(Joined(int(one.subscription), numbers(map(int, one.messages)), one.nodes) for one in found)


def parsed(texts: list[str]) -> dict[int, Correlation]:
    """Those that can be: a path may turn out to go below a leaf."""
    made: dict[int, Correlation] = {}
    for number, text in enumerate(texts):
        try:
            made[number] = parse_correlation(text)
        except QueryError as error:
            assert error.code in ("below-a-leaf", "not-a-pattern", "late-attribute", "never-matches"), (
                text,
                str(error),
            )
    return made


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=4), arrivals())
def test_strategies_agree_with_the_reference(name: str, texts: list[str], stream: Arrivals) -> None:
    correlations = parsed(texts)
    assume(correlations)
    strategy = STRATEGIES[name]()
    for number, correlation in correlations.items():
        strategy.add(number, correlation)
    found: list[Joined] = []
    for number, source, time, xml in stream:
        some = strategy.process(Arrival(number, source, time, xml))
        assert some == sorted(set(some))
        assert all(number in one.messages for one in some)
        found += some
    wanted = expected(correlations, stream)
    event(f"results: {min(len(wanted), 3)}")
    assert sorted(found) == wanted, texts


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(queries(), min_size=2, max_size=4), arrivals(), st.data())
def test_queries_come_and_go_and_messages_expire(
    name: str, texts: list[str], stream: Arrivals, data: st.DataObject
) -> None:
    """A query sees the messages between its coming and its going; a message is seen until it is forgotten."""
    correlations = parsed(texts)
    strategy = STRATEGIES[name]()
    last = len(stream)
    comes = {query: data.draw(st.integers(0, last)) for query in correlations}
    goes = {query: data.draw(st.integers(comes[query], last)) for query in correlations}
    forgotten: dict[int, int] = {}  # message -> the number of those that had come by then
    found: list[Joined] = []
    for number, source, time, xml in stream:
        for query, correlation in correlations.items():
            if comes[query] == number - 1:
                strategy.add(query, correlation)
        for query in correlations:
            if goes[query] == number - 1:
                strategy.remove(query)
        found += strategy.process(Arrival(number, source, time, xml))
        if data.draw(st.booleans()):
            before = data.draw(st.integers(0, 6)) * 1_000_000
            strategy.expire(before)
            for one, _, at, _ in stream[:number]:
                if at < before:
                    forgotten.setdefault(one, number)
    wanted = [
        one
        for one in expected(correlations, stream)
        if comes[one.query] < min(one.messages)
        and max(one.messages) <= goes[one.query]
        and all(forgotten.get(message, last) >= max(one.messages) for message in one.messages)
    ]
    assert sorted(found) == wanted, texts
