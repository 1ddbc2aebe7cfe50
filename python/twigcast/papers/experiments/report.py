"""A page of experiments: tables with verdicts, and plots, as Markdown and PNG files."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twigcast.papers.experiments.claims import Claim, Outcome, verdict
from twigcast.papers.experiments.measure import ROUNDS, Spread, number

Cell = str | float | int | Spread | None
Say = Callable[[str, float], None]
"""Takes a line about what was just done, and the share of the page that is done: 0 to 1."""


@dataclass(frozen=True)
class Table:
    """A table of measurements: what was measured at which size, and what follows for the claims of the paper."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sizes: Sequence[tuple[str, str, str]] = ()
    """Sizes that all rows share: what, ours, the paper's."""
    claims: Sequence[Claim] = ()
    remark: str = ""
    """How to read the columns. It says nothing about results: these are in the claims."""


@dataclass(frozen=True)
class Plot:
    """Lines over a shared x axis: name -> (xs, ys)."""

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = False
    x_names: Sequence[str] = ()
    """Names for 0, 1, … on the x axis."""


@dataclass
class Report:
    """The page of one command. ``name`` names the page and its pictures."""

    name: str
    title: str
    command: str
    preface: str = ""
    rounds: int = ROUNDS
    parts: list[Table | Plot] = field(default_factory=list)

    def add(self, *parts: Table | Plot) -> None:
        """Append tables and plots."""
        self.parts += parts

    def write(self, folder: Path) -> Path:
        """Write <name>.md and a picture per plot, and return the path of the page."""
        folder.mkdir(parents=True, exist_ok=True)
        page = [
            f"# {self.title}",
            "",
            f"Made by `{self.command}` on {machine()}.",
            "",
            METHOD.format(rounds=self.rounds),
            "",
        ]
        if self.preface:
            page += [self.preface.strip(), ""]
        for part in self.parts:
            if isinstance(part, Table):
                page += _markdown(part)
            else:
                picture = f"{self.name}-{part.name}.png"
                draw(part, folder / picture)
                page += [f"![{part.title}]({picture})", ""]
        path = folder / f"{self.name}.md"
        path.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")
        return path


METHOD = """\
A measured cell is the median of the runs with their least and greatest value: `12.3 (11.9–13.0)`. Every setting of a
table is measured once per round, and there are {rounds} rounds. The ratio of two settings of a table is taken round by
round, because a slow moment of the machine slows both. A claim of the paper holds, or does not hold, if all rounds say
so; otherwise it is *not decided*."""


def machine() -> str:
    """Return the processor and the version of Python."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        rows = info.read_text().splitlines()
        names = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
        cpu = f"{names[0]} × {len(names)}" if names else cpu
    return f"{cpu}, Python {platform.python_version()}"


def _markdown(table: Table) -> list[str]:
    lines = [f"## {table.title}", ""]
    if table.sizes:
        lines += _grid(["size", "ours", "the paper's"], table.sizes)
    lines += _grid(table.columns, table.rows)
    if table.remark:
        lines += [table.remark.strip(), ""]
    if table.claims:
        lines += [f"**Verdict: {verdict(table.claims)}.**", ""]
        rows = [[claim.text, claim.measured, claim.outcome.value] for claim in table.claims]
        lines += _grid(["the paper's claim", "measured here", "here it"], rows)
        lines += [f"{line}\n" for line in reasons(table.claims)]
    return lines


def reasons(claims: Sequence[Claim]) -> list[str]:
    """Return why claims that fail may do so, each reason once."""
    failed = [claim.why for claim in claims if claim.outcome is Outcome.FAILS and claim.why]
    return [f"Why: {why}" for why in dict.fromkeys(failed)]


def _grid(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns)), *(_row([show(cell) for cell in row]) for row in rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show(cell: Cell) -> str:
    """Return a cell as text: a measured one is its median with its spread."""
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else str(cell) if isinstance(cell, Spread) else number(cell)


class Progress:
    """Reports how much of a page is done. ``total`` is the number of steps that the page announces."""

    def __init__(self, total: int, say: Say) -> None:
        self._total = max(total, 1)
        self._done = 0
        self._say = say

    def step(self, text: str) -> None:
        """Count one step and report it."""
        self._done += 1
        self._say(text, min(1.0, self._done / self._total))


def draw(plot: Plot, path: Path) -> None:
    """Draw a plot into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    for name, (xs, ys) in plot.lines.items():
        axes.plot(xs, ys, marker="o", markersize=3, label=name)
    axes.set_title(plot.title, fontsize=10)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    if plot.x_names:
        axes.set_xticks(range(len(plot.x_names)), plot.x_names)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, bbox_inches="tight", dpi=110)
    pyplot.close(figure)
