"""``twigcast bench``: one command for all pages, with progress."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from twigcast.errors import OptionError
from twigcast.papers import bench
from twigcast.papers.experiments.check import printed_report
from twigcast.papers.experiments.claims import counted, less
from twigcast.papers.experiments.measure import Say, spread
from twigcast.papers.experiments.report import Report, Table

ROOT = Path(__file__).parents[3]


class Fake:
    """Experiments whose numbers a test can change between two runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 1.4
        self.count = 7
        monkeypatch.setattr(bench, "import_module", lambda path: self._module(path.rpartition(".")[2]))

    def _module(self, name: str) -> SimpleNamespace:
        def run(quick: bool, say: Say) -> Report:
            say("half", 0.5)
            report = Report(name, name.title(), f"twigcast bench {name}", quick=quick)
            slow, fast = spread([self.time, self.time * 1.01]), spread([1.0, 1.02])
            ratio = slow.over(fast)
            claims = [
                counted("There are seven (§1)", str(self.count), self.count == 7),
                less("B", ("b", fast), ("s", slow)),
            ]
            report.add(Table("Figure 1: x", ["x", "n", "time"], [["row", self.count, ratio]], claims=claims))
            return report

        return SimpleNamespace(run=run)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    pytest.importorskip("matplotlib")
    return Fake(monkeypatch)


def _bench(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(bench.bench, arguments)
    if isinstance(done.exception, OptionError):
        return 2, str(done.exception)
    return done.exit_code, done.output


def test_one_command_writes_every_page(tmp_path: Path, fake: Fake) -> None:
    status, output = _bench("all", "--quick", "--output", str(tmp_path))
    assert status == 0, output
    for suffix in ("md", "json"):
        assert {page.stem for page in tmp_path.glob(f"*.{suffix}")} == set(bench.EXPERIMENTS)
    assert "broker  50%, about 0 min left: half" in output and "Verdict: holds." in output


def test_a_page_that_is_measured_again_is_confirmed(tmp_path: Path, fake: Fake) -> None:
    _bench("broker", "--quick", "--output", str(tmp_path))
    fake.time = 1.45
    status, output = _bench("broker", "--check", str(tmp_path / "broker.md"))
    assert status == 0, output
    assert "2 of 2 measured numbers lie within their spread" in output and "2 of 2 claims are confirmed" in output
    assert _bench("all", "--check", str(tmp_path))[0] == 2, "there is no page of joins"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"time": 1.8}, "Figure 1: x: row row: time: printed 1.39 (1.21–1.61), now 1.8"),
        ({"count": 8}, "Figure 1: x: row row: n: printed 7, now 8"),
        ({"count": 8}, "There are seven (§1): printed that it holds; now it does not hold"),
        ({"time": 0.5}, "B: printed that it holds; now it does not hold"),
    ],
)
def test_a_check_finds_what_differs(tmp_path: Path, fake: Fake, change: dict[str, float], reason: str) -> None:
    _bench("broker", "--output", str(tmp_path))
    vars(fake).update(change)
    status, output = _bench("broker", "--check", str(tmp_path))
    assert status == 1 and reason in output, output


def test_a_check_finds_a_cell_that_was_changed_by_hand(tmp_path: Path, fake: Fake) -> None:
    _bench("broker", "--output", str(tmp_path))
    page = tmp_path / "broker.md"
    page.write_text(page.read_text().replace("1.39 (1.21–1.61)", "1.50 (1.21–1.61)"))
    status, output = _bench("broker", "--check", str(page))
    assert status == 1 and "broker.md does not show what" in output
    status, output = _bench("joins", "--check", str(page))
    assert status == 2 and "is a page of broker, not of joins" in output


def test_a_page_is_made_of_its_data_alone(tmp_path: Path, fake: Fake) -> None:
    _bench("broker", "--output", str(tmp_path))
    assert printed_report(tmp_path / "broker.md").markdown() == (tmp_path / "broker.md").read_text()


@pytest.mark.parametrize("data", sorted((ROOT / "docs" / "experiments").glob("*.json")), ids=lambda data: data.stem)
def test_the_published_pages_show_their_data(data: Path) -> None:
    page = data.with_suffix(".md")
    assert printed_report(page).markdown() == page.read_text(encoding="utf-8")


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
