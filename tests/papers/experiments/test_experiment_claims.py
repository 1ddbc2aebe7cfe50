"""Measurement in rounds, claims decided with spreads, verdicts, and how a page shows them."""

from __future__ import annotations

import os
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
from twigcast.papers.experiments.measure import (
    PROCESSES,
    ROUNDS,
    Say,
    in_fresh_processes,
    measure,
    measure_rows,
    merged,
    repeated,
    spread,
)
from twigcast.papers.experiments.report import Progress, Report, Table, show

HOLDS, OPEN, FAILS = Outcome.HOLDS, Outcome.OPEN, Outcome.FAILS
FAST, SLOW, BETWEEN = spread([1.0, 0.99, 1.01]), spread([3.0, 2.9, 3.1]), spread([1.1, 1.0, 1.2])


def test_a_cell_is_the_median_with_a_spread_wider_than_the_runs() -> None:
    cell = spread([12.0, 11.0, 12.5, 11.5, 13.0])
    assert (cell.median, cell.lowest, cell.highest) == (12.0, 11.0, 13.0)
    # The process that is furthest away took 12/11 of the median: three times as far is a factor of 1.3.
    assert show(cell) == "12 (9–16)" and (cell.low, cell.high) == (9.0, 16.0)
    assert cell.includes(9.0) and cell.includes(15.9) and not cell.includes(16.5)


def test_a_spread_is_at_least_fifteen_percent() -> None:
    assert show(spread([1.0, 1.0, 1.001])) == "1.00 (0.86–1.15)"
    assert show(spread([0.00123] * 3)) == "0.00123 (0.00106–0.00142)"


def test_digits_without_meaning_are_left_out() -> None:
    assert show(spread([1234.5, 1000.0, 1500.0])) == "1,200 (600–2,400)"
    assert show(spread([0.0, 0.0])) == "0"
    assert show(spread([1.0, 1.0])) == "1", "the unit of a table"
    assert [show(None), show("x"), show(5_000), show(0.12345)] == ["–", "x", "5,000", "0.123"]


def test_what_lies_within_the_printed_bounds_is_inside_whatever_was_rounded() -> None:
    for factor in (1.0, 3.0, 17.0, 0.04):
        for runs in ([0.3, 0.31, 0.29], [0.95, 1.0, 1.07], [7.0, 9.0, 8.2]):
            cell = spread([factor * one for one in runs])
            assert cell.low <= cell.median / 1.1 and cell.median * 1.1 <= cell.high
            assert all(cell.includes(run) for run in cell.runs)


def test_ratios_and_sums_are_taken_process_by_process() -> None:
    quick, slow = spread([1.0, 3.0, 2.0]), spread([2.0, 6.3, 4.0])
    ratio = slow.over(quick)
    assert (ratio.median, ratio.lowest, ratio.highest) == (2.0, 2.0, pytest.approx(2.1)), "the second was slow for both"
    assert (slow + quick).runs == pytest.approx((3.0, 9.3, 6.0))


def test_every_setting_is_measured_once_per_round_and_counts_with_its_median() -> None:
    assert PROCESSES >= 5 and ROUNDS >= 1
    order: list[str] = []
    done: list[str] = []

    def setting(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = measure({name: lambda name=name: setting(name) for name in "abc"}, 3, done.append)  # type: ignore[misc]
    assert [sorted(order[at : at + 3]) for at in (0, 3, 6)] == [["a", "b", "c"]] * 3
    assert order[0] != order[3], "the order changes from round to round"
    assert done == order
    assert found["a"] == [6.0]
    assert measure_rows({"x": iter([[1.0, 2.0], [3.0, 6.0], [2.0, 9.0]]).__next__}, 3) == {"x": [2.0, 6.0]}
    assert merged([{"x": [1.0, 2.0]}, {"x": [3.0, 6.0]}])["x"][1].runs == (2.0, 6.0)


def test_what_takes_little_is_measured_repeatedly() -> None:
    times = iter([0.02, 0.01, 0.03, 9.0])
    assert repeated(lambda: next(times)) == 0.02
    assert repeated(lambda: 7.0) == 7.0


def _work(prepared: int, at: int, say: Say) -> tuple[int, int]:
    say("halfway", 0.5)
    return os.getpid(), prepared + at


def _fail(prepared: int, at: int, say: Say) -> None:
    os._exit(3)


def test_measurements_run_in_new_processes_one_after_the_other() -> None:
    told: list[tuple[str, float]] = []
    found = in_fresh_processes(_work, 40, 2, lambda text, share: told.append((text, share)), 0.2)
    assert [number for _, number in found] == [40, 41]
    assert len({os.getpid(), *(pid for pid, _ in found)}) == 3
    assert told == [("process 1 of 2, halfway", pytest.approx(0.4)), ("process 2 of 2, halfway", pytest.approx(0.8))]
    with pytest.raises(RuntimeError, match="process 1 ended with status 3"):
        in_fresh_processes(_fail, 0, 1, lambda text, share: None)


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
        (ratio_between("", "r", spread([120.0, 115.0, 121.0]), 100.0), HOLDS),
        (ratio_between("", "r", spread([72.0, 70.0, 74.0]), 100.0), FAILS),
        (ratio_between("", "r", spread([105.0, 101.0, 107.0]), 100.0), OPEN),
        (ratio_between("", "r", spread([1.0, 1.01, 0.99]), 0.8, 1.25), HOLDS),
        (grows_faster("", ("a", SLOW), ("b", FAST)), HOLDS),
        (grows_faster("", ("a", FAST), ("b", SLOW)), FAILS),
        (counted("", "22 of 22", True), HOLDS),
        (counted("", "21 of 22", False), FAILS),
    ],
)
def test_a_claim_is_decided_with_the_spreads(claim: Claim, outcome: Outcome) -> None:
    assert claim.outcome is outcome and claim.shown


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
    claims = [Claim("", "", outcome, True) for outcome in outcomes]
    assert verdict(claims) == text
    together = FAILS if FAILS in outcomes else OPEN if OPEN in outcomes else HOLDS
    assert all_of("", claims).outcome is together


@pytest.mark.parametrize(
    ("printed", "now", "agrees"),
    [
        (less("", ("a", FAST), ("b", SLOW)), less("", ("a", FAST), ("b", BETWEEN)), True),
        (less("", ("a", FAST), ("b", SLOW)), less("", ("a", SLOW), ("b", FAST)), False),
        (less("", ("a", SLOW), ("b", FAST)), less("", ("a", FAST), ("b", SLOW)), False),
        (less("", ("a", FAST), ("b", BETWEEN)), less("", ("a", SLOW), ("b", FAST)), True),
    ],
)
def test_a_decided_claim_is_confirmed_by_the_medians_of_another_run(printed: Claim, now: Claim, agrees: bool) -> None:
    assert now.agrees_with(printed) is agrees


def test_a_page_shows_sizes_claims_and_reasons_of_those_that_fail(tmp_path: Path) -> None:
    claims = [
        less("A is faster than B (§1)", ("A", FAST), ("B", SLOW), "never shown"),
        counted("There are 22 (§2)", "21", False, "the generator differs."),
    ]
    report = Report("page", "A page", "twigcast bench page", processes=9, rounds=7)
    report.add(Table("Figure 1: x", ["x", "ms"], [[1, FAST]], [("items", "20", "225,000")], claims))
    page = report.write(tmp_path).read_text()
    assert "in 9 new processes" in page and "7 times" in page
    assert "| items | 20 | 225,000 |" in page and "| 1 | 1.00 (0.86–1.15) |" in page
    assert "**Verdict: holds in part.**" in page
    assert "| There are 22 (§2) | 21 | does not hold |" in page
    assert "Why: the generator differs." in page and "never shown" not in page


def test_a_page_says_that_the_machine_was_not_quiet() -> None:
    loaded, quiet = (Report("page", "A page", "twigcast bench page", load=load).markdown() for load in (1_000, 0))
    assert "About 1,000 processes wanted to run" in loaded and "not quiet" not in quiet


def test_progress_tells_the_share_that_is_done() -> None:
    told: list[tuple[str, float]] = []
    progress = Progress(2, lambda text, share: told.append((text, share)))
    for text in ("one", "two", "three"):
        progress.step(text)
    assert told == [("one", 0.5), ("two", 1.0), ("three", 1.0)]
