"""Random streams × random queries: every strategy gives what the brute-force evaluator gives."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from twigcast.correlate.reference import evaluate
from twigcast.correlate.sequential import Sequential
from twigcast.correlate.strategy import Arrival, Joined, Strategy
from twigcast.correlation import Correlation
from twigcast.errors import QueryError
from twigcast.lang.xscl import parse_correlation

EXAMPLES = 400 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 60
STRATEGIES: dict[str, Callable[[], Strategy]] = {"sequential": Sequential}


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
            assert error.code in ("below-a-leaf", "not-a-pattern", "late-attribute"), (text, str(error))
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
