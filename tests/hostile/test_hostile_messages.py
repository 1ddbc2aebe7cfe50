"""Every hostile message through every way in: nothing is opened, nothing explodes, and neighbours get their matches."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from hostile_messages import BY_NAME, GOOD, SECRET, table
from ways_in import WAYS, Answers, Way

from twigcast import Engine, MessageError

SECONDS = 60
"""For all messages together, of the processor: generous, for the machine may be busy and slow."""
MEGABYTES = 500
TEXT = 500
"""Characters of an error text: 200 of content, and what we say ourselves."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_way_in(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = table(tmp_path / "lure")
    monkeypatch.chdir(tmp_path / "lure")  # relative names must lead nowhere either
    (tmp_path / "work").mkdir()
    good = iter(GOOD.items())
    messages = dict([next(good), *hostile.items(), *good])
    before, began = _peak(), time.process_time()
    answers = way.run(tmp_path / "work", messages)
    took, grown = time.process_time() - began, _peak() - before
    problems = wrong(way, messages, answers)
    assert not problems, "\n".join(problems)
    assert took < SECONDS
    assert grown < MEGABYTES << 10


def wrong(way: Way, messages: dict[str, bytes], answers: Answers) -> list[str]:
    """What is not as it must be."""
    found = []
    if set(answers) != set(messages):
        found.append(f"no answer for {set(messages) - set(answers)}")
    for name in GOOD:
        answer = answers[name]
        if answer.error or answer.matches != way.ids:
            found.append(f"{name}: {answer.error} {answer.text} {answer.matches}")
    for name, answer in answers.items():
        if SECRET in answer.said or SECRET in answer.text:
            found.append(f"{name}: the secret is out: {answer.said[:2000]}")
        if len(answer.text) > TEXT:
            found.append(f"{name}: an error text of {len(answer.text)} characters: {answer.text[:1000]}")
        if name in GOOD:
            continue
        codes = BY_NAME[name].codes
        if codes and way.name != "digest":
            if answer.error not in codes or answer.matches:
                found.append(f"{name}: {answer.error}, {answer.matches} instead of one of {codes}: {answer.text[:300]}")
        elif answer.error is not None and not (way.schema and answer.error == "invalid"):
            found.append(f"{name}: refused: {answer.error}: {answer.text[:300]}")
    return found


def _peak() -> int:
    """Kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_table_says_what_the_kernel_says(tmp_path: Path) -> None:
    engine = Engine()
    for name, xml in table(tmp_path).items():
        try:
            engine.match(xml)
            error = None
        except MessageError as refused:
            error = refused.code
        codes = BY_NAME[name].codes
        assert error in codes if codes else error is None, (name, error)
