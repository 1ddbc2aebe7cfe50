"""The experiment of the page runs, and chunked answers are unchunked ones in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.chunk.filter import ENGINES
from twigcast.experiments import chunking, chunking_workload
from twigcast.schema import dtd_schema


@pytest.mark.parametrize("engine", ENGINES)
def test_a_small_scenario(engine: str) -> None:
    small = chunking.Scenario(
        "1, university",
        chunking_workload.university(2_000),
        dtd_schema(chunking_workload.UNIVERSITY_DTD),
        chunking_workload.university_queries,
        (3, 5),
    )
    said: list[str] = []
    measured = chunking.measure(small, 100, engine, said.append)
    assert len(said) == 2 and len(measured[3].fragments) == 4 and len(measured[5].fragments) == 5
    assert measured[3].potpourri > 0 and not measured[5].potpourri
    assert all(one.parallel <= one.sequential for one in measured.values())


def test_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    made = chunking.Run(1.0, [2.0, 3.0], [10, 20], 3.0, 1.5, 12.0)
    monkeypatch.setattr(chunking, "measure", lambda scenario, count, engine, say: dict.fromkeys(scenario.degrees, made))
    page = chunking.run(True, lambda text: None).write(tmp_path).read_text()
    assert "| 100 | 5 | 12 | 1 | 3 | 3 | 50 % | 67 % | 1.5 × | 25.0 % | 24 % parallel" in page
    assert len(list(tmp_path.glob("*.png"))) == 4
