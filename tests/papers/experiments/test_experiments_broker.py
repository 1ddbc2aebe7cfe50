"""The broker paper's experiments run, and their plans are the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.lang.flwr import parse_transform
from twigcast.papers.experiments import broker
from twigcast.papers.experiments.assemble import assembled
from twigcast.papers.experiments.check import checked
from twigcast.papers.experiments.measure import Spread
from twigcast.papers.experiments.report import Plot, Report, Table
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.workload import vocabulary


@pytest.mark.parametrize("name", ["bib", "book"])
@pytest.mark.parametrize("predicates", [0, 1, 2])
def test_assembled_transforms_are_those_that_parsing_gives(name: str, predicates: int) -> None:
    settings = TransformSettings(binding_depth=3, predicate_paths=predicates, return_paths=3)
    for query in TransformGenerator(vocabulary(name), settings).queries(30):
        assert assembled(query) == parse_transform(query)


@pytest.fixture(scope="module")
def report() -> Report:
    sizes = broker.Sizes(2, 60, 60, (30, 60), (30, 60), 90, 2, 1)
    return broker.experiments(sizes, "test", lambda text, share: None)


@pytest.fixture(scope="module")
def tables(report: Report) -> dict[str, Table]:
    return {part.title.partition(":")[0]: part for part in report.parts if isinstance(part, Table)}


def test_every_figure_and_table_comes_out(report: Report, tables: dict[str, Table], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = {f"Figure {n}" for n in (7, 8, 9, 10, 11, 12)}
    assert set(tables) == figures | {f"Table {n}" for n in (2, 3, 4, 5)}
    assert {part.name for part in report.parts if isinstance(part, Plot)} == {f"figure-{n}" for n in range(7, 13)}
    for table in tables.values():
        assert table.rows and all(len(row) == len(table.columns) for row in table.rows), table.title
        assert table.claims and table.sizes, table.title
    # Table 3: with the DTD no duplicate elimination is left, and everything merges
    counts = {row[0]: row[1:] for row in tables["Table 3"].rows}
    assert counts["no opt"] == [60, 0, 60, 0, 180]
    assert counts["opt(q+dtd)"] == [0, 60, 0, 60, 0]
    page = report.write(tmp_path).read_text()
    assert page.count("**Verdict: ") == len(tables) and "![Figure 12" in page
    assert "| elements per document |" in page and "| 149 |" in page
    assert (tmp_path / "broker-figure-7.png").exists()


def test_the_alternatives_of_a_row_run_the_same_plans_and_find_the_same(tables: dict[str, Table]) -> None:
    for figure in (7, 8, 9, 10, 11):
        table = tables[f"Figure {figure}"]
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            # A number, not "a / b / c": -F, -FW and -FWR agree.
            assert all(isinstance(cells[name], int | float) for name in broker.COUNTED), (figure, row)
            queries = row[0] if figure == 11 else 60
            assert cells["plans run"] + cells["plans proven empty"] == queries  # type: ignore[operator]


def test_counts_and_claims_are_the_same_when_it_is_measured_again(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    again = broker.experiments(broker.Sizes(2, 60, 60, (30, 60), (30, 60), 90, 1, 1), "test", lambda text, share: None)
    found = checked(report.write(tmp_path), again)
    assert found.counted == found.equal > 100, found.differences
    assert found.measured > 100 and found.claims > 20


def test_a_setting_has_one_number_everywhere(tables: dict[str, Table]) -> None:
    seventh, eighth, ninth = (tables[f"Figure {n}"].rows for n in (7, 8, 9))
    assert seventh[-1][1:4] == eighth[0][1:4] == ninth[1][1:4]
    assert all(isinstance(cell, Spread) for cell in seventh[-1][1:4])


def test_equal_plans_run_once_only_in_figure_12_and_table_5() -> None:
    work = broker.workload("bib", 1)
    plans = broker._plans(work, work.queries(20), "FWR", broker.BEST)
    encodings = broker.encoded_plans([*plans, *plans])
    every, unique = broker.Engine(work.column, encodings), broker.Engine(work.column, encodings, unique=True)
    assert every.plans + every.empty == 40 and unique.plans <= 20
