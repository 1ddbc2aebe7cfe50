"""Queries tied by inequalities alone: the ordered index finds what the brute-force evaluator finds."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from correlate_reference import evaluate
from twigcast.correlate.engine import Correlations
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.units import SECOND

SEEDS = 60 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 6
NUMBERS = ("-3", "-0", "0", "0.5", " 7 ", "7", "1e2", "x", "", "12")


def random_query(chance: Random) -> str:
    names = "vwu"
    blocks = [f"S/m->r{at}[{chance.choice(('a', 'b', './/c'))}->{name}]" for at, name in enumerate(names)]
    count = chance.choice((2, 2, 3))
    text = blocks[0]
    for at in range(1, count):
        compared = []
        for _ in range(chance.choice((1, 1, 2))):
            sides = [names[chance.randrange(at)], names[at]]
            chance.shuffle(sides)
            compared.append(f" {chance.choice(('<', '<=', '>', '>=', '<', '>', '!=', '='))} ".join(sides))
        window = chance.choice(("2", "4", "INF"))
        text += f" {chance.choice(('JOIN', 'FOLLOWED BY'))}{{{' AND '.join(compared)}, {window}}} {blocks[at]}"
    return text


def random_message(chance: Random) -> bytes:
    leaves = [(chance.choice("abc"), chance.choice(NUMBERS)) for _ in range(chance.randrange(1, 4))]
    return f"<m>{''.join(f'<{tag}>{value}</{tag}>' for tag, value in leaves)}</m>".encode()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_inequalities_alone(seed: int) -> None:
    chance = Random(seed)
    correlations: dict[str | int, Correlation] = {n: parse_correlation(random_query(chance)) for n in range(6)}
    engine = Correlations(lateness=100 * SECOND)
    for id, correlation in correlations.items():
        engine.add(id, correlation)
    rows = [(n, "S", (n - chance.randrange(3)) * SECOND, random_message(chance)) for n in range(14)]
    found = [
        (one.subscription, one.messages, one.nodes)
        for number, stream, at, xml in rows
        for one in engine.publish(xml, id=number, time=at, stream=stream).results
    ]
    wanted = evaluate(correlations, rows)  # type: ignore[arg-type]
    assert found == [(one.subscription, one.messages, one.nodes) for one in wanted]


def test_a_rare_order_does_not_cost_the_window() -> None:
    """All messages are within the window, and hardly any is above the new one."""

    def took(messages: int) -> float:
        engine = Correlations()
        engine.add("q", parse_correlation("S/m->x[a->v] FOLLOWED BY{v > w, INF} S/m->y[a->w]"))
        for number in range(messages):
            engine.publish(b"<m><a>%d</a></m>" % number, id=number, time=number, stream="S")
        start = time.thread_time()
        for number in range(messages, messages + 300):
            assert not engine.publish(b"<m><a>%d</a></m>" % number, id=number, time=number, stream="S").results
        return time.thread_time() - start

    took(10)
    assert took(20_000) < 20 * took(200)


def test_a_short_window_does_not_cost_the_order() -> None:
    """Nearly all stored messages are above the new one, and hardly any within the window."""
    engine = Correlations(lateness=10**9)
    engine.add("q", parse_correlation("S/m->x[a->v] FOLLOWED BY{v > w, 2 us} S/m->y[a->w]"))
    for number in range(1000, 0, -1):
        results = engine.publish(b"<m><a>%d</a></m>" % number, id=number, time=10 * (1000 - number), stream="S").results
        assert not results
    found = engine.publish(b"<m><a>0</a></m>", id="last", time=9991, stream="S").results
    assert [one.messages for one in found] == [(1, "last")]
