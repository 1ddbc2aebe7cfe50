"""Measurement in rounds: every setting of a table is measured once per round.

When the machine becomes slower or faster during a run, all settings of a round are affected alike. The drift then shows
in the spread of every cell and not as a difference between cells.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

ROUNDS = 5
"""Rounds of a full run. A quick run has fewer."""


@dataclass(frozen=True)
class Spread:
    """The median of several runs, and their least and greatest value.

    ``runs`` has the runs by round, if they are known, and ``rounds`` identifies the rounds. Two spreads of the same
    rounds are added and divided round by round, so that a slow round, which slows both, does not blur the result.
    """

    median: float
    low: float
    high: float
    runs: tuple[float, ...] = field(default=(), compare=False, repr=False)
    rounds: object = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"

    def __add__(self, other: Spread) -> Spread:
        if self._is_paired_with(other):
            return spread([a + b for a, b in zip(self.runs, other.runs, strict=True)], self.rounds)
        return Spread(self.median + other.median, self.low + other.low, self.high + other.high)

    def over(self, other: Spread) -> Spread:
        """Return the ratio to another measurement.

        If both come from the same rounds, it is the spread of the rounds' ratios. Otherwise its bounds are the least
        and the greatest ratio that both spreads allow.
        """
        if self._is_paired_with(other):
            return spread([_divide(a, b) for a, b in zip(self.runs, other.runs, strict=True)], self.rounds)
        return Spread(_divide(self.median, other.median), _divide(self.low, other.high), _divide(self.high, other.low))

    def _is_paired_with(self, other: Spread) -> bool:
        return self.rounds is not None and self.rounds is other.rounds


def spread(runs: Sequence[float], rounds: object = None) -> Spread:
    """Return the median, the least and the greatest of some runs. ``rounds`` identifies the rounds they belong to."""
    return Spread(median(runs), min(runs), max(runs), tuple(runs), rounds)


def measure(
    settings: Mapping[K, Callable[[], float]], rounds: int, done: Callable[[K], None] = lambda _: None
) -> dict[K, Spread]:
    """Measure each setting once per round and return the spread of each. ``done`` is called after each measurement."""
    many = {key: _as_row(run) for key, run in settings.items()}
    return {key: row[0] for key, row in measure_rows(many, rounds, done).items()}


def measure_rows(
    settings: Mapping[K, Callable[[], Sequence[float]]], rounds: int, done: Callable[[K], None] = lambda _: None
) -> dict[K, list[Spread]]:
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
    same = object()
    return {key: [spread(column, same) for column in zip(*rows, strict=True)] for key, rows in runs.items()}


def number(value: float) -> str:
    """Return a number with three significant digits, or as a whole number with separators from 1,000 on."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def _as_row(run: Callable[[], float]) -> Callable[[], Sequence[float]]:
    return lambda: [run()]


def _divide(of: float, by: float) -> float:
    return of / by if by else float("inf")
