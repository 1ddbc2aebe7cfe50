"""A page of experiments: tables and plots with the published figures beside ours, as Markdown and PNG files."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """``remark`` says in a sentence how ours differs from the published figures, and why."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    remark: str = ""


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
    """What one command measured. ``name`` names the page and its pictures."""

    name: str
    title: str
    command: str
    preface: str = ""
    parts: list[Table | Plot] = field(default_factory=list)

    def add(self, *parts: Table | Plot) -> None:
        self.parts += parts

    def write(self, folder: Path) -> Path:
        """Writes <name>.md and a picture per plot; returns the page."""
        folder.mkdir(parents=True, exist_ok=True)
        page = [f"# {self.title}", "", f"Made by `{self.command}` on {machine()}.", ""]
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


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        rows = info.read_text().splitlines()
        names = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
        cpu = f"{names[0]} × {len(names)}" if names else cpu
    return f"{cpu}, Python {platform.python_version()}"


def _markdown(table: Table) -> list[str]:
    lines = [f"## {table.title}", "", _row(table.columns), _row(["---"] * len(table.columns))]
    lines += [_row([show(cell) for cell in row]) for row in table.rows]
    return [*lines, "", *([table.remark.strip(), ""] if table.remark else [])]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def draw(plot: Plot, path: Path) -> None:
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
