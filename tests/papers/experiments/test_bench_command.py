"""``twigcast bench``: one command for all pages, with progress."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from twigcast.papers import bench
from twigcast.papers.experiments.claims import counted
from twigcast.papers.experiments.report import Report, Say, Table


def test_one_command_writes_every_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")

    def fake(name: str) -> SimpleNamespace:
        def run(quick: bool, say: Say) -> Report:
            assert quick
            say("half", 0.5)
            report = Report(name, name.title(), f"twigcast bench {name}")
            report.add(Table(f"Figure 1: {name}", ["x"], [[1]], claims=[counted("It is one (§1)", "1", True)]))
            return report

        return SimpleNamespace(run=run)

    monkeypatch.setattr(bench, "import_module", lambda path: fake(path.rpartition(".")[2]))
    done = CliRunner().invoke(bench.bench, ["all", "--quick", "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {page.stem for page in tmp_path.glob("*.md")} == set(bench.EXPERIMENTS)
    assert "broker  50%, about 0 min left: half" in done.output and "Verdict: holds." in done.output


def test_every_experiment_has_a_module() -> None:
    for name in bench.EXPERIMENTS:
        assert callable(import_module(f"twigcast.papers.experiments.{name}").run)


def test_the_remaining_time_follows_from_the_time_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 60.0, 360.0])
    monkeypatch.setattr(bench, "monotonic", lambda: next(clock))
    remaining = bench.Remaining(2)
    assert remaining.minutes(0.5) == pytest.approx(3.0)  # a quarter of the work took a minute
    remaining.next_page()
    assert remaining.minutes(0.5) == pytest.approx(2.0)  # three quarters took six
