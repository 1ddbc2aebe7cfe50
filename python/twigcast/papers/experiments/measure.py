"""Measurement that another day can repeat: ratios, taken in several new processes, with a spread that is wide enough.

A process is lucky or unlucky with its memory and its neighbours for as long as it lives. So every setting is measured
in several processes, each of which runs all settings in turn, round by round.
"""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isclose, log10
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Say = Callable[[str, float], None]
"""Takes a line about what was just done, and the share of the page that is done: 0 to 1."""

PROCESSES = 6
ROUNDS = 1
"""Processes and rounds of a full run. A further process says more than a further round."""

WIDER = 3.0
"""A spread reaches so many times as far from the median, as a factor, as the process that is furthest from it."""
LEAST = 0.15
"""And at least so far, for what differs from one day to the next and not from one process to the next."""


@dataclass(frozen=True)
class Spread:
    """The median over processes, the lowest and the highest of them, and the bounds in which another median will lie.

    ``runs`` has the value of each process. Two spreads of the same processes are added and divided process by process,
    so that a slow process, which slows both, does not blur the result.
    """

    median: float
    lowest: float
    highest: float
    runs: tuple[float, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        if not self.median:
            return "0"
        if self.lowest == self.median == self.highest == 1.0:
            return "1"  # the unit of a table
        low, high = self._bounds()
        return f"{self._rounded(round, self.median)} ({low}–{high})"

    @property
    def low(self) -> float:
        """The lower bound as it is printed: rounded away from the median."""
        return float(self._bounds()[0].replace(",", ""))

    @property
    def high(self) -> float:
        """The upper bound as it is printed."""
        return float(self._bounds()[1].replace(",", ""))

    def _bounds(self) -> tuple[str, str]:
        return self._rounded(floor, self.median / self._reach), self._rounded(ceil, self.median * self._reach)

    def over(self, other: Spread) -> Spread:
        """Return the ratio to another measurement, process by process."""
        return spread([_divide(a, b) for a, b in zip(self.runs, other.runs, strict=True)])

    def __add__(self, other: Spread) -> Spread:
        return spread([a + b for a, b in zip(self.runs, other.runs, strict=True)])

    def includes(self, value: float) -> bool:
        """Tell whether a value lies within the bounds."""
        return self.low <= value <= self.high

    @property
    def _reach(self) -> float:
        """How far the bounds are from the median, as a factor."""
        if not self.median:
            return 1.0
        furthest = max(self.highest / self.median, self.median / (self.lowest or self.median))
        return float(max(furthest**WIDER, 1 + LEAST))

    def _rounded(self, how: Callable[[float], float], value: float) -> str:
        """Return a value with as many digits as the bounds leave a meaning."""
        width = self.median - self.median / self._reach
        places = -floor(log10(width / 2)) if width else 0
        scaled = value * 10.0**places
        # 0.3 * 10 is a bit more than 3: that must not be rounded up to 4.
        whole = round(scaled) if isclose(scaled, round(scaled), rel_tol=1e-9) else how(scaled)
        return f"{whole / 10.0**places:,.{max(places, 0)}f}"


def spread(runs: Sequence[float]) -> Spread:
    """Return the median, the lowest and the highest of the values of some processes."""
    return Spread(median(runs), min(runs), max(runs), tuple(runs))


def merged(found: Sequence[Mapping[K, Sequence[float]]]) -> dict[K, list[Spread]]:
    """Return the spreads of the numbers that several processes have measured by the same keys."""
    return {
        key: [spread(runs) for runs in zip(*(one[key] for one in found), strict=True)]
        for key in (found[0] if found else ())
    }


def measure(
    settings: Mapping[K, Callable[[], float]], rounds: int, done: Callable[[K], None] = lambda _: None
) -> dict[K, list[float]]:
    """Measure each setting once per round, in this process, and return the median of each as a list of one number.

    ``done`` is called after each measurement.
    """
    return measure_rows({key: _as_row(run) for key, run in settings.items()}, rounds, done)


def measure_rows(
    settings: Mapping[K, Callable[[], Sequence[float]]], rounds: int, done: Callable[[K], None] = lambda _: None
) -> dict[K, list[float]]:
    """Measure settings that yield several numbers per run, as ``measure`` does."""
    runs: dict[K, list[Sequence[float]]] = {key: [] for key in settings}
    order = list(settings)
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()  # What is there already stays; to look through it before every run would take longer than the runs.
    gc.disable()
    try:
        for _ in range(rounds):
            for key in order:
                gc.collect()
                runs[key].append(settings[key]())
                done(key)
            order.append(order.pop(0))  # No setting always runs after the same one.
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
    return {key: [median(column) for column in zip(*rows, strict=True)] for key, rows in runs.items()}


SHORTEST = 0.05
"""CPU seconds: what takes less is run repeatedly, until it has taken as long."""


def repeated(run: Callable[[], float]) -> float:
    """Call what returns the seconds that it took, repeatedly if these are few, and return their median."""
    took = [run()]
    while sum(took) < SHORTEST and len(took) < 50:
        took.append(run())
    return median(took)


def seconds(work: Callable[[], object]) -> float:
    """Return CPU seconds of some work, the median of several runs if one takes little."""

    def once() -> float:
        began = thread_time()
        work()
        return thread_time() - began

    return repeated(once)


def in_fresh_processes(
    work: Callable[[T, int, Say], Any], prepared: T, processes: int, say: Say, share: float = 0.0
) -> list[Any]:
    """Call ``work`` in several new processes, one after the other, and return their results.

    Each call gets ``prepared``, which was made once.

    It also gets the number of its process, from 0, and a function that reports progress. ``work`` must be importable by
    name, and ``prepared`` must be picklable. ``share`` is how much of the page was done before, from 0 to 1.
    """
    context = multiprocessing.get_context("spawn")
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prepared"
        file.write_bytes(pickle.dumps(prepared, pickle.HIGHEST_PROTOCOL))
        for at in range(processes):
            ours, theirs = context.Pipe()
            child = context.Process(target=_child, args=(work, str(file), at, theirs))
            child.start()
            theirs.close()
            try:
                found.append(_result(ours, at, processes, say, share))
            except EOFError:
                child.join()
                raise RuntimeError(f"process {at + 1} ended with status {child.exitcode}") from None
            finally:
                child.terminate()
                child.join()
    return found


def _result(pipe: Connection, at: int, processes: int, say: Say, share: float) -> Any:
    """Pass on the progress of a process until it returns its result."""
    while True:
        kind, *what = pipe.recv()
        if kind == "done":
            return what[0]
        text, part = what
        say(f"process {at + 1} of {processes}, {text}", share + (1 - share) * (at + part) / processes)


def _child(work: Callable[[Any, int, Say], Any], file: str, at: int, pipe: Connection) -> None:
    gc.disable()  # What is read has no cycles, and much of it would be looked through again and again.
    prepared = pickle.loads(Path(file).read_bytes())
    gc.freeze()
    gc.enable()
    pipe.send(("done", work(prepared, at, lambda text, part: pipe.send(("say", text, part)))))


def number(value: float) -> str:
    """Return a number with three significant digits, or as a whole number with separators from 1,000 on."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def rough(value: float) -> str:
    """Return a number for orientation, with two significant digits."""
    return number(float(f"{value:.2g}"))


def _as_row(run: Callable[[], float]) -> Callable[[], Sequence[float]]:
    return lambda: [run()]


def _divide(of: float, by: float) -> float:
    return of / by if by else float("inf")
