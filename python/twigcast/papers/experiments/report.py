"""A page of experiments: tables with verdicts, and plots, as Markdown and PNG files, and its numbers as data."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from twigcast.papers.experiments.claims import Claim, Outcome, verdict
from twigcast.papers.experiments.measure import LEAST, PROCESSES, ROUNDS, WIDER, Say, Spread, number

Cell = str | float | int | Spread | None


@dataclass(frozen=True)
class Unit:
    """What the times of a table are multiples of, and what it takes here, in words that nobody is to check."""

    text: str
    absolute: str = ""


@dataclass(frozen=True)
class Table:
    """A table of measurements: what was measured at which size, and what follows for the claims of the paper.

    Numbers are counts, or the paper's; a Spread is what was measured.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sizes: Sequence[tuple[str, str, str]] = ()
    """Sizes that all rows share: what, ours, the paper's."""
    claims: Sequence[Claim] = ()
    remark: str = ""
    """How to read the columns. It says nothing about results: these are in the claims."""
    unit: Unit | None = None


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
    """The page of one command. ``name`` names the page, its data and its pictures."""

    name: str
    title: str
    command: str
    preface: str = ""
    processes: int = PROCESSES
    rounds: int = ROUNDS
    quick: bool = False
    machine: str = field(default_factory=lambda: machine())
    load: int = field(default_factory=lambda: round(os.getloadavg()[2]))
    """How many processes wanted to run, on average over the last quarter of an hour."""
    parts: list[Table | Plot] = field(default_factory=list)

    def add(self, *parts: Table | Plot) -> None:
        """Append tables and plots."""
        self.parts += parts

    def tables(self) -> list[Table]:
        """Return the tables."""
        return [part for part in self.parts if isinstance(part, Table)]

    def write(self, folder: Path) -> Path:
        """Write <name>.json, <name>.md, which shows these data, and a picture per plot; return the path of the page."""
        from twigcast.papers.experiments.data import report_of, to_data

        folder.mkdir(parents=True, exist_ok=True)
        data = to_data(self)
        (folder / f"{self.name}.json").write_text(data, encoding="utf-8")
        for part in self.parts:
            if isinstance(part, Plot):
                draw(part, folder / self.picture(part))
        path = folder / f"{self.name}.md"
        path.write_text(report_of(json.loads(data)).markdown(), encoding="utf-8")
        return path

    def picture(self, plot: Plot) -> str:
        """Return the name of the file of a plot."""
        return f"{self.name}-{plot.name}.png"

    def markdown(self) -> str:
        """Return the page."""
        page = [f"# {self.title}", "", f"Made by `{self.command}` on {self.machine}.", ""]
        times = "once" if self.rounds == 1 else f"{self.rounds} times"
        page += [METHOD.format(report=self, times=times, wider=number(WIDER), least=f"{100 * LEAST:.0f} %"), ""]
        if self.load > BUSY:
            page += [LOADED.format(load=number(self.load)), ""]
        if self.preface:
            page += [self.preface.strip(), ""]
        for part in self.parts:
            page += _markdown(part) if isinstance(part, Table) else [f"![{part.title}]({self.picture(part)})", ""]
        units = [[table.title, table.unit.text, table.unit.absolute] for table in self.tables() if table.unit]
        if units:
            page += ["## The units, on this machine", "", ORIENTATION, ""]
            page += _grid(["table", "1 is", "here"], units)
        return "\n".join(page).rstrip() + "\n"


METHOD = """\
*How to read and check the numbers.* Times are ratios: the time of a setting divided by that of the table's unit, both
measured in the same process. Counts are exact. Everything was measured in {report.processes} new processes, one after
the other, and in each {times}, all settings in turn, in CPU time; a process counts with the median of its rounds.
A cell is the median of the processes. In parentheses is the spread in which the median of another run will lie, as in
`12 (10–15)`. It is made wider than what the processes found, so that one can rely on it for each of the many cells of a
page: it reaches {wider} times as far from the median, as a factor, as the process that is furthest from it, and at
least {least}. Digits without meaning are left out.

`twigcast bench {report.name} --check` measures everything again, and names each number and each claim that differs from
the page. Ratios move with the kind of processor and with the versions of the libraries that the first line names: on
others, some cells may lie outside.

A claim of the paper holds, or does not hold, only if the whole spread says so; otherwise it is *not decided*."""

BUSY = 2
"""More processes than this that want to run disturb a measurement."""

LOADED = """\
**The machine was not quiet.** About {load} processes wanted to run while this was measured. So spreads are wider, and
more claims are not decided, than on a quiet machine: make the page again on one."""

ORIENTATION = "For orientation only: these are not checked, and other machines and other days have others."


LIBRARIES = ("duckdb", "lxml", "pyarrow")


def machine() -> str:
    """Return the processor, and the versions of Python and of the libraries that pages measure."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        rows = [row.partition(":") for row in info.read_text().splitlines()]
        found = {key.strip(): value.strip() for key, _, value in rows}
        count = sum(key.strip() == "model name" for key, _, _ in rows)
        if "model name" in found:
            kind = "".join(f", {key} {found[key]}" for key in ("cpu family", "model") if key in found)
            cpu = f"{found['model name']} × {count}{kind}"
    versions = [f"Python {platform.python_version()}"]
    for library in LIBRARIES:
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return f"{cpu}; {', '.join(versions)}"


def _markdown(table: Table) -> list[str]:
    lines = [f"## {table.title}", ""]
    if table.sizes:
        lines += _grid(["size", "ours", "the paper's"], table.sizes)
    lines += _grid(table.columns, table.rows)
    if table.unit:
        lines += [f"1 is {table.unit.text}.", ""]
    if table.remark:
        lines += [table.remark.strip(), ""]
    if table.claims:
        lines += [f"**Verdict: {verdict(table.claims)}.**", ""]
        rows = [[claim.text, claim.shown, claim.outcome.value] for claim in table.claims]
        lines += _grid(["the paper's claim", "measured here", "here it"], rows)
        lines += [f"{line}\n" for line in reasons(table.claims)]
    return lines


OPEN = "a claim is not decided where its spread includes values for which it holds and values for which it does not."


def reasons(claims: Sequence[Claim]) -> list[str]:
    """Return the reasons why claims do not hold or are not decided, without repetitions."""
    failed = [claim.why for claim in claims if claim.outcome is Outcome.FAILS and claim.why]
    if any(claim.outcome is Outcome.OPEN for claim in claims):
        failed.append(OPEN)
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
