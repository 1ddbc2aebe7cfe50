"""Claims of a paper, checked against what was measured.

A claim about times is decided with the spread of a ratio: it holds, or does not hold, only if every value within the
spread says so. Otherwise it is not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from twigcast.papers.experiments.measure import Spread, number

Measured = Sequence[str | Spread]
"""What was measured, as text with numbers in it."""


class Outcome(Enum):
    """What the measurements say of a claim."""

    HOLDS = "holds"
    OPEN = "not decided"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Claim:
    """A claim in words, with its place in the paper; what was measured; and what follows.

    ``likely`` says whether the claim holds for the medians alone, without regard to spreads. ``why`` names a known
    difference that can explain why the claim fails. It is shown only if the claim fails.
    """

    text: str
    measured: Measured
    outcome: Outcome
    likely: bool
    why: str = ""

    @property
    def shown(self) -> str:
        """What was measured, as one text."""
        return "".join(map(str, self.measured))

    def agrees_with(self, printed: Claim) -> bool:
        """Tell whether this claim, measured again, says what the printed one says, if that is decided."""
        return printed.outcome is Outcome.OPEN or self.likely == (printed.outcome is Outcome.HOLDS)


def verdict(claims: Sequence[Claim]) -> str:
    """Sum up the claims of a figure: holds, holds in part, does not hold, or not decided."""
    outcomes = {claim.outcome for claim in claims}
    if outcomes == {Outcome.HOLDS}:
        return "holds"
    if Outcome.HOLDS in outcomes:
        return "holds in part"
    return "does not hold" if Outcome.FAILS in outcomes else "not decided"


def less(text: str, a: tuple[str, Spread], b: tuple[str, Spread], why: str = "", factor: float = 1.0) -> Claim:
    """Claim that ``a`` takes less than ``b``, or less than ``factor`` times ``b``."""
    return _decided(text, [f"{a[0]} / {b[0]} = "], a[1].over(b[1]), 0.0, factor, why)


def least(text: str, best: tuple[str, Spread], others: Sequence[tuple[str, Spread]], why: str = "") -> Claim:
    """Claim that one measurement is less than all others."""
    return all_of(text, [less(text, best, other) for other in others], why)


def most(text: str, worst: tuple[str, Spread], others: Sequence[tuple[str, Spread]], why: str = "") -> Claim:
    """Claim that one measurement is greater than all others."""
    return all_of(text, [less(text, other, worst) for other in others], why)


def all_of(text: str, claims: Sequence[Claim], why: str = "") -> Claim:
    """Claim that several claims hold together. It fails if one of them fails."""
    measured: list[str | Spread] = []
    for at, claim in enumerate(claims):
        measured += ["; "] if at else []
        measured += claim.measured
    return Claim(text, measured, _all(claims), all(claim.likely for claim in claims), why)


def ratio_between(text: str, what: str, ratio: Spread, low: float, high: float = float("inf"), why: str = "") -> Claim:
    """Claim that a ratio lies between two bounds."""
    wanted = f"at least {number(low)}" if high == float("inf") else f"{number(low)} to {number(high)}"
    return _decided(text, [f"{what} = "], ratio, low, high, why, f"; counted as held: {wanted}")


def grows_faster(text: str, a: tuple[str, Spread], b: tuple[str, Spread], why: str = "") -> Claim:
    """Claim that the growth ``a`` is greater than the growth ``b``. Both are ratios of the last to the first."""
    growths: Measured = [f"{a[0]} grows ", a[1], f" times, {b[0]} ", b[1], " times; the second / the first = "]
    return _decided(text, growths, b[1].over(a[1]), 0.0, 1.0, why)


def counted(text: str, measured: str, holds: bool, why: str = "") -> Claim:
    """Claim about something that is counted, not timed, and therefore has no spread."""
    return Claim(text, [measured], Outcome.HOLDS if holds else Outcome.FAILS, holds, why)


def _decided(text: str, before: Measured, ratio: Spread, low: float, high: float, why: str, after: str = "") -> Claim:
    """Decide whether a ratio lies in [low, high) with its whole spread, with none of it, or with a part of it."""
    if low <= ratio.low and ratio.high < high:
        outcome = Outcome.HOLDS
    else:
        outcome = Outcome.FAILS if ratio.high < low or ratio.low >= high else Outcome.OPEN
    return Claim(text, [*before, ratio, *([after] if after else [])], outcome, low <= ratio.median < high, why)


def _all(claims: Sequence[Claim]) -> Outcome:
    outcomes = {claim.outcome for claim in claims}
    if Outcome.FAILS in outcomes:
        return Outcome.FAILS
    return Outcome.OPEN if Outcome.OPEN in outcomes else Outcome.HOLDS
