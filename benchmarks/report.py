"""Results as a table, as JSON, and as a plot."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.timing import Line

MARKS = {True: "ok", False: "MISS", None: ""}


def show(line: Line) -> str:
    bar = "" if line.bar is None else f"{'<=' if line.better == 'lower' else '>='} {number(line.bar)}"
    value = f"{number(line.value)} {line.unit}"
    return f"{line.group:<20} {line.name:<46} {value:>18}  {bar:<11} {MARKS[line.passed]:<5} {line.note}".rstrip()


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value < 0.1 else f"{value:.2f}"


def machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [row.partition(":")[2].strip() for row in info.read_text().splitlines() if row.startswith("model name")]
        cpu = f"{names[0]} x {len(names)}" if names else cpu
    return {"cpu": cpu, "system": platform.platform(terse=True), "python": platform.python_version()}


def write_json(path: Path, lines: list[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(line), "passed": line.passed} for line in lines]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    path.write_text(json.dumps({"when": when, "machine": machine(), "lines": rows}, indent=1) + "\n")


def plot(path: Path, lines: list[Line]) -> None:
    """How far each line is from its bar, on one logarithmic axis; left of 1 is kept."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    barred = [line for line in lines if line.bar is not None][::-1]
    if not barred:
        return
    shares = [x.value / x.bar if x.better == "lower" else x.bar / x.value for x in barred if x.bar]
    figure, axes = pyplot.subplots(figsize=(10, 0.32 * len(barred) + 1.2))
    axes.barh(
        [f"{x.group}: {x.name}" for x in barred], shares, color=["#3a7d44" if x.passed else "#b3261e" for x in barred]
    )
    for y, (line, share) in enumerate(zip(barred, shares, strict=True)):
        axes.text(share * 1.03, y, f"{number(line.value)} {line.unit}", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("share of the bar (left of 1: kept)")
    axes.margins(x=0.15, y=0.01)
    axes.tick_params(axis="y", labelsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", dpi=110)
