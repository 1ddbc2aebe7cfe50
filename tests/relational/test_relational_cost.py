"""The cost model: what it measures of subscriptions, and whether it picks the plan that is best when run."""

from __future__ import annotations

import pytest

from twigcast import Subscription
from twigcast.papers.experiments.relational import Nested, Stocks, loaded, timed
from twigcast.papers.relational import PLANS, RelationalEngine
from twigcast.papers.relational_cost import measure
from twigcast.papers.relational_plans import Plan


def costs(queries: list[str], n: int | None = None) -> dict[str, float]:
    engine = RelationalEngine()
    sample = [rows for i, query in enumerate(queries) for rows in engine.compile(Subscription(i, query))]
    return {cost.plan: cost.cost for cost in measure(sample, Plan("unroll"), n)}


def test_stock_quotes_are_unrolled() -> None:
    engine = RelationalEngine(plan="auto")
    engine.add_many(Subscription(i, query) for i, query in enumerate(Stocks(2_000, 1_000, 20).queries()))
    assert engine.plan.name == "unroll"
    found = {cost.plan: cost.cost for cost in engine.costs()}
    assert found["unroll"] < found["share"] < found["recursive"]
    x = engine.costs()[0].parameters
    assert (x.n, x.b, x.m) == (2_000, 5, 10)
    engine.match(next(iter(Stocks(2_000, 1_000, 20).messages(1))))
    assert engine.costs()[0].parameters.m == 5  # change and low nobody asks for


def test_a_sample_tells_of_all() -> None:
    """Three thousand symbols, of which a thousand subscriptions have a third."""
    few = costs(list(Stocks(1_000, 100, 3_000).queries()), 1_000_000)
    more = costs(list(Stocks(4_000, 400, 3_000).queries()), 1_000_000)
    assert list(few) == list(more)  # cheapest first
    assert few["unroll"] == pytest.approx(more["unroll"], rel=0.3)


def test_what_is_equal_is_shared() -> None:
    same = [f"/q[a = 'x' and b = 'y' and c = 'z' and d > {i}]" for i in range(500)]
    found = costs(same)
    assert found["share"] < found["recursive"] / 2


def test_nothing_to_measure() -> None:
    assert set(costs([])) == set(PLANS)


@pytest.mark.slow
@pytest.mark.parametrize("work", [Stocks(10_000, 1_000, 30), Stocks(10_000, 500_000, 30), Nested(3_000)], ids=str)
def test_auto_is_about_the_best(work: Stocks | Nested) -> None:
    auto = loaded(work, "auto")
    batch = work.batch(500)
    took = {plan: timed(loaded(work, plan), batch)[0] for plan in PLANS}
    assert took[auto.plan.name] <= 1.3 * min(took.values()), (auto.plan.name, took)
