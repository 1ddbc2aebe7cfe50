"""``twigcast explain`` of a correlation."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

Q1 = "S//book->x1[//author->x2][//title->x3] FOLLOWED BY{x2=x5 AND x3=x6, T1} S//blog->x4[//author->x5][//title->x6]"
Q2 = Q1.replace("title", "category")


@pytest.fixture
def subscriptions(tmp_path: Path) -> str:
    file = tmp_path / "subscriptions.jsonl"
    lines = [{"id": "q1", "query": Q1}, {"id": "q2", "query": Q2}, {"id": "path", "query": "//a/b"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def test_text_and_json(run: Any, subscriptions: str) -> None:
    query = Q1.replace("T1", "5 min").replace("x2", "a")
    done = run("explain", "-s", subscriptions, query)
    assert done.returncode == 0, done.stderr
    assert "x5: S//blog//author by value, for 5 min, shared with 2" in done.stdout
    assert "of 2 correlations, 1 of the same shape, 1 of them equal" in done.stdout
    done = run("explain", "--format", "json", query)
    assert [one["name"] for one in json.loads(done.stdout)["join_graph"]] == ["x1", "a", "x3", "x4", "x5", "x6"]


def test_mistakes(run: Any) -> None:
    done = run("explain", "S//a JOIN{x=y, 5} T//b->y")
    assert done.returncode != 0
    assert "nothing binds x" in done.stderr
    assert "^" in done.stderr


def test_what_the_page_shows(run: Any) -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "correlations.md").read_text()
    examples = re.findall(r"^    \$ twigcast (explain) '(.+)'\n((?:    .+\n)+)", page, re.MULTILINE)
    assert len(examples) == 2
    for command, query, shown in examples:
        done = run(command, query)
        assert (done.stdout + done.stderr).strip() == textwrap.dedent(shown).strip()
