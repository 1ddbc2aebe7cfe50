"""Subscriptions against the XPath suites of .NET, Jaxen and libxml2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import xpath_suite
from xpath_cases import Case, cases

CASES = cases()

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/data/xpath-* are absent")


@pytest.fixture(scope="module")
def answers() -> dict[Case, str]:
    return {case: xpath_suite.answer(case) for case in CASES}


def test_every_case_comes_out_as_its_suite_says_or_is_listed(
    answers: dict[Case, str], record_property: Callable[[str, object], None]
) -> None:
    listed = xpath_suite.exceptions()
    scores = xpath_suite.scores(answers)
    record_property("table", xpath_suite.table(scores))
    unlisted = [(case, ours) for case, ours in answers.items() if ours != case.expected and case.id not in listed]
    assert not unlisted
    for score in scores.values():
        assert score.both_right == score.libxml2_right


def test_every_exception_is_needed_and_its_reason_holds(answers: dict[Case, str]) -> None:
    by_id = {case.id: (case, ours) for case, ours in answers.items()}
    listed = xpath_suite.exceptions()
    needless = [id for id in listed if id not in by_id or by_id[id][1] == by_id[id][0].expected]
    assert not needless, "these pass now: take them off the list"
    wrong = [id for id, reason in listed.items() if not xpath_suite.REASONS[reason](*by_id[id])]
    assert not wrong, "the reason given does not fit these"


def test_the_evaluator_answers_as_the_engine_or_as_the_suite_says(answers: dict[Case, str]) -> None:
    """It may be right where libxml2 is wrong."""
    accepted = {case: ours for case, ours in answers.items() if ours in ("true", "false")}
    assert accepted
    found = {case: xpath_suite.evaluated(case) for case in accepted}
    wrong = [
        (case.id, case.expr, answer) for case, answer in found.items() if answer not in (case.expected, answers[case])
    ]
    assert not wrong


@pytest.mark.parametrize(
    "mode", [mode if mode == "trie" else pytest.param(mode, marks=pytest.mark.slow) for mode in xpath_suite.MODES]
)
def test_all_cases_of_a_document_at_once(answers: dict[Case, str], mode: str) -> None:
    assert not xpath_suite.in_bulk(CASES, answers, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", xpath_suite.MODES[1:])
def test_every_mode_answers_alike(answers: dict[Case, str], mode: str) -> None:
    assert {case.id: xpath_suite.answer(case, [mode]) for case in CASES} == {c.id: a for c, a in answers.items()}
