"""The verdicts of `benchmarks/compare.py`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "compare.py"))
judge, Series, spread = TOOL["judge"], TOOL["Series"], TOOL["spread"]


@pytest.mark.parametrize(
    ("better", "before", "after", "word"),
    [
        ("lower", [1.0, 1.0, 1.0], [1.04, 1.04, 1.04], "same"),
        ("lower", [1.0, 1.0, 1.0], [1.06, 1.06, 1.06], "slower"),
        ("lower", [1.0, 1.0, 1.0], [0.9, 0.9, 0.9], "faster"),
        ("higher", [100.0, 100.0, 100.0], [90.0, 90.0, 90.0], "slower"),
        ("higher", [100.0, 100.0, 100.0], [110.0, 110.0, 110.0], "faster"),
        # The machine was busy in the second round, for both: the ratio is that of neighbours in time.
        ("lower", [1.0, 5.0, 1.0], [1.2, 6.0, 1.2], "slower"),
        # Slower by 10 %, give or take 20.
        ("lower", [1.0, 1.0, 1.0, 1.0, 1.0], [0.9, 1.0, 1.1, 1.2, 1.3], "same"),
        # One outlier neither hides a change nor makes one.
        ("lower", [1.0, 1.0, 1.0, 1.0, 1.0], [1.2, 1.2, 1.2, 1.2, 9.0], "slower"),
        ("lower", [1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 9.0], "same"),
        ("lower", [0.0], [0.0], "same"),
        ("lower", [0.0], [1.0], "slower"),
        ("lower", [], [1.0], "only after"),
        ("lower", [1.0], [], "only before"),
    ],
)
def test_verdict(better: str, before: list[float], after: list[float], word: str) -> None:
    assert judge(Series(better, before, after)).word == word


def test_medians_ratio_and_noise() -> None:
    verdict = judge(Series("higher", [10.0, 20.0, 30.0], [20.0, 20.0, 20.0]))
    assert (verdict.before, verdict.after) == (20.0, 20.0)
    assert verdict.ratio == 1.0  # of 0.5, 1 and 1.5
    assert verdict.noise == pytest.approx(0.5)


def test_spread_of_few_rounds() -> None:
    assert spread([1.0]) == 0.0
    assert spread([1.0, 1.5]) == 0.5


@pytest.mark.parametrize(
    ("better", "bar", "misses"),
    [
        ("lower", 1.0, True),
        ("lower", 1.5, False),
        ("higher", 1.0, False),
        ("higher", 1.5, True),
        ("lower", None, False),
    ],
)
def test_a_missed_bar_is_marked(better: str, bar: float | None, misses: bool) -> None:
    series = Series(better, [1.0], [1.2, 1.2, 9.0], bar)
    line = TOOL["show"](("group", "name", "X"), judge(series))
    assert ("misses its bar" in line) is misses
