"""The relational experiments: all plans find the same, PathMatch is timed apart, and the paper's sizes are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.papers.experiments import relational
from twigcast.papers.experiments.measure import Spread
from twigcast.papers.experiments.report import Table


def test_its_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = relational.Sizes(2_000, (50, 100), 5, 1, 1, messages=200)
    report = relational.experiments(sizes, "test", lambda text, share: None)
    first, second, third = (part for part in report.parts if isinstance(part, Table))
    for table in (first, second, third):
        assert table.claims and table.sizes
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            assert isinstance(cells["notifications"], int), "the plans agree"
            assert any(isinstance(cell, Spread) and "PathMatch" in name for name, cell in cells.items())
    # The last row of Table 5.2 is the third of Table 5.1: it is measured once.
    assert second.rows[-1][2:] == first.rows[2]
    page = report.write(tmp_path).read_text()
    assert "130,000 to 2,700,000" in page and page.count("**Verdict: ") == 3


def test_nested_subscriptions_share_shapes_and_match() -> None:
    work = relational.Nested(40, per_shape=10)
    queries = list(work.queries())
    assert len(queries) == 40
    engine = relational.loaded(work, "share")
    assert engine.match_rows(work.batch(1_000))[0].num_rows >= 40, "each holds for the message that it was made from"
    engine.close()
