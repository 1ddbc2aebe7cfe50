"""The experiment of the page runs, and chunked answers are unchunked ones in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.papers.chunk_lxml import ENGINES
from twigcast.papers.experiments import chunking, chunking_workload
from twigcast.papers.experiments.report import Table
from twigcast.schema import dtd_schema


def test_a_small_scenario() -> None:
    small = chunking.Scenario(
        "1, university",
        chunking_workload.university(2_000),
        dtd_schema(chunking_workload.UNIVERSITY_DTD),
        chunking_workload.university_queries,
        (3, 5),
    )
    found = chunking.measure(small, (100,), list(ENGINES), 1)
    assert len(found.times) == len(ENGINES) * 3
    assert [len(chunking.pieces_of(small, 100, degree).fragments) for degree in (3, 5)] == [4, 5]
    for engine in ENGINES:
        for degree in (3, 5):
            _, _, potpourri, sequential, parallel, first = found.times[engine, 100, degree]
            assert (potpourri > 0) == (degree == 3)
            assert first <= parallel <= sequential


def test_its_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = chunking.Sizes(1_000, (100, 500), 1, 1)
    report = chunking.experiments(sizes, "test", lambda text, share: None)
    tables = [part for part in report.parts if isinstance(part, Table)]
    assert len(tables) == 6 and all(table.claims and table.sizes for table in tables)
    page = report.write(tmp_path).read_text()
    assert "| 3, the paper's | 170 | 206 | 1,233 | – | – | 4,969 |" in page
    assert "/ejb-jar/assembly-descriptor/security-role" in page and "3,972" in page
    assert page.count("**Verdict: ") == 6
    assert len(list(tmp_path.glob("*.png"))) == 4
