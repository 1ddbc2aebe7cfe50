"""The broker paper's experiments run, and their plans are the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.experiments import broker
from twigcast.experiments.assemble import assembled
from twigcast.experiments.report import Plot, Table
from twigcast.lang.flwr import parse_transform
from twigcast.workload import TransformGenerator, TransformSettings, vocabulary


@pytest.mark.parametrize("name", ["bib", "book"])
@pytest.mark.parametrize("predicates", [0, 1, 2])
def test_assembled_transforms_are_those_that_parsing_gives(name: str, predicates: int) -> None:
    settings = TransformSettings(binding_depth=3, predicate_paths=predicates, return_paths=3)
    for query in TransformGenerator(vocabulary(name), settings).queries(30):
        assert assembled(query) == parse_transform(query)


def test_every_figure_and_table_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = broker.Sizes(2, 60, 60, (30, 60), (30, 60), (90,), 1)
    monkeypatch.setattr(broker, "PARTS", ())
    report = broker.run(True, lambda text: None)
    for name in ("basic", "predicates", "returns", "recursive", "growing", "shared"):
        report.add(*broker._part(name, sizes))
    tables = {part.title.partition(":")[0]: part for part in report.parts if isinstance(part, Table)}
    figures = {f"Figure {n}" for n in (7, 8, 9, 10, 11, 12)}
    assert set(tables) == figures | {f"Table {n}" for n in (2, 3, 4, 5)}
    assert {part.name for part in report.parts if isinstance(part, Plot)} == {f"figure-{n}" for n in range(7, 13)}
    for table in tables.values():
        assert table.rows and all(len(row) == len(table.columns) for row in table.rows), table.title
        assert table.remark
    # Table 3: with the DTD no duplicate elimination is left, and everything merges
    counts = {row[0]: row[1:] for row in tables["Table 3"].rows}
    assert counts["no opt"] == [60, 0, 60, 0, 180]
    assert counts["opt(q+dtd)"] == [0, 60, 0, 60, 0]
    # whatever the way, the groups are the same
    assert len({row[-2] for row in tables["Figure 8"].rows}) == 3
    page = report.write(tmp_path).read_text()
    assert "472 ms" not in page and "![Figure 12" in page
    assert (tmp_path / "broker-figure-7.png").exists()
