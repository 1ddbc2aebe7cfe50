"""Measurement in rounds, claims decided with spreads, verdicts, and how a page shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.papers.experiments.claims import (
    Claim,
    Outcome,
    all_of,
    counted,
    grows_faster,
    least,
    less,
    most,
    ratio_between,
    verdict,
)
from twigcast.papers.experiments.measure import ROUNDS, Spread, measure, measure_rows, spread
from twigcast.papers.experiments.report import Progress, Report, Table, show

HOLDS, OPEN, FAILS = Outcome.HOLDS, Outcome.OPEN, Outcome.FAILS
FAST, SLOW = Spread(1.0, 0.9, 1.2), Spread(3.0, 2.0, 4.0)
BETWEEN = Spread(1.5, 1.1, 2.5)


def test_a_cell_is_the_median_with_its_spread() -> None:
    assert show(spread([12.34, 11.9, 13.0, 12.1, 12.9])) == "12.3 (11.9–13)"
    assert show(spread([1234.5, 1000.0, 2000.0])) == "1,234 (1,000–2,000)"
    assert [show(None), show("x"), show(5_000), show(0.12345)] == ["–", "x", "5,000", "0.123"]


def test_the_spread_of_a_ratio_is_what_both_spreads_allow() -> None:
    assert SLOW.over(FAST) == Spread(3.0, 2.0 / 1.2, 4.0 / 0.9)


def test_ratios_and_sums_of_the_same_rounds_are_taken_round_by_round() -> None:
    quick, slow = measure_rows({"x": iter([[1.0, 2.0], [3.0, 6.3], [2.0, 4.0]]).__next__}, 3)["x"]
    assert slow.over(quick) == Spread(2.0, 2.0, 2.1), "the second round was slow for both"
    assert slow + quick == Spread(6.0, 3.0, 9.3)
    again = measure_rows({"x": iter([[1.0], [3.0], [2.0]]).__next__}, 3)["x"][0]
    assert again.over(quick) == Spread(1.0, 1.0 / 3.0, 3.0), "of other rounds only the bounds are known"


def test_every_setting_is_measured_once_per_round() -> None:
    assert ROUNDS >= 5
    order: list[str] = []
    done: list[str] = []

    def setting(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = measure({name: lambda name=name: setting(name) for name in "abc"}, 3, done.append)  # type: ignore[misc]
    assert [sorted(order[at : at + 3]) for at in (0, 3, 6)] == [["a", "b", "c"]] * 3
    assert order[0] != order[3], "the order changes from round to round"
    assert done == order
    assert found["a"].low < found["a"].median < found["a"].high
    rows = measure_rows({"x": lambda: [1.0, 2.0]}, 2)
    assert rows == {"x": [Spread(1.0, 1.0, 1.0), Spread(2.0, 2.0, 2.0)]}


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        (less("", ("a", FAST), ("b", SLOW)), HOLDS),
        (less("", ("a", SLOW), ("b", FAST)), FAILS),
        (less("", ("a", FAST), ("b", BETWEEN)), OPEN),
        (less("", ("a", FAST), ("b", SLOW), factor=0.2), FAILS),
        (least("", ("a", FAST), [("b", SLOW), ("c", BETWEEN)]), OPEN),
        (least("", ("a", SLOW), [("b", FAST), ("c", BETWEEN)]), FAILS),
        (most("", ("a", SLOW), [("b", FAST)]), HOLDS),
        (ratio_between("", "r", Spread(120.0, 100.0, 150.0), 100.0), HOLDS),
        (ratio_between("", "r", Spread(72.0, 60.0, 80.0), 100.0), FAILS),
        (ratio_between("", "r", Spread(110.0, 90.0, 130.0), 100.0), OPEN),
        (ratio_between("", "r", Spread(1.0, 0.9, 1.1), 0.8, 1.25), HOLDS),
        (grows_faster("", ("a", SLOW), ("b", FAST)), HOLDS),
        (grows_faster("", ("a", FAST), ("b", SLOW)), FAILS),
        (counted("", "22 of 22", True), HOLDS),
        (counted("", "21 of 22", False), FAILS),
    ],
)
def test_a_claim_is_decided_with_the_spreads(claim: Claim, outcome: Outcome) -> None:
    assert claim.outcome is outcome and claim.measured


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ([HOLDS, HOLDS], "holds"),
        ([HOLDS, FAILS], "holds in part"),
        ([HOLDS, OPEN], "holds in part"),
        ([FAILS, OPEN], "does not hold"),
        ([FAILS, FAILS], "does not hold"),
        ([OPEN, OPEN], "not decided"),
    ],
)
def test_a_verdict_sums_up_claims(outcomes: list[Outcome], text: str) -> None:
    claims = [Claim("", "", outcome) for outcome in outcomes]
    assert verdict(claims) == text
    together = FAILS if FAILS in outcomes else OPEN if OPEN in outcomes else HOLDS
    assert all_of("", claims).outcome is together


def test_a_page_shows_sizes_claims_and_reasons_of_those_that_fail(tmp_path: Path) -> None:
    claims = [
        less("A is faster than B (§1)", ("A", FAST), ("B", SLOW), "never shown"),
        counted("There are 22 (§2)", "21", False, "the generator differs."),
    ]
    report = Report("page", "A page", "twigcast bench page", rounds=7)
    report.add(Table("Figure 1: x", ["x", "ms"], [[1, FAST]], [("items", "20", "225,000")], claims))
    page = report.write(tmp_path).read_text()
    assert "there are 7 rounds" in page
    assert "| items | 20 | 225,000 |" in page and "| 1 | 1 (0.9–1.2) |" in page
    assert "**Verdict: holds in part.**" in page
    assert "| There are 22 (§2) | 21 | does not hold |" in page
    assert "Why: the generator differs." in page and "never shown" not in page


def test_progress_tells_the_share_that_is_done() -> None:
    told: list[tuple[str, float]] = []
    progress = Progress(2, lambda text, share: told.append((text, share)))
    for text in ("one", "two", "three"):
        progress.step(text)
    assert told == [("one", 0.5), ("two", 1.0), ("three", 1.0)]
