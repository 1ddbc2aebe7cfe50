"""The relational paper's plans: the ways to lay predicates out (relational §4), and what of that is settable."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from twigcast.errors import OptionError
from twigcast.relational.tables import UNROLL

_RANGES = ("<", "<=", ">", ">=")
PLANS = ("recursive", "share", "bucket", "unroll", "share-bucket")
AUTO = "auto"
BUCKETS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """``unroll`` and ``buckets`` count where the plan has them: predicates per row, parts of a range of constants."""

    name: str
    unroll: int = UNROLL
    buckets: int = BUCKETS

    def __post_init__(self) -> None:
        if self.name not in PLANS:
            known = ", ".join((*PLANS, AUTO))
            raise OptionError("unknown-plan", f"there is no plan {self.name!r}", hint=f"the plans are {known}")
        for what, number, most in (("unroll", self.unroll, 50), ("buckets", self.buckets, 10_000)):
            if not (isinstance(number, int) and 1 <= number <= most):
                raise OptionError(f"bad-{what}", f"{what} is a number from 1 to {most}, not {number!r}")

    @property
    def shares(self) -> bool:
        return self.name in ("share", "share-bucket")

    @property
    def has_buckets(self) -> bool:
        return self.name in ("bucket", "share-bucket")

    @property
    def unrolls(self) -> bool:
        return self.name == "unroll"


class _Ranged(Protocol):
    @property
    def op(self) -> str: ...

    @property
    def number(self) -> float: ...

    def _replace(self: R, *, number: float) -> R: ...


R = TypeVar("R", bound=_Ranged)
Key = TypeVar("Key")


def bounds_of(chains: Iterable[Sequence[R]], n: int, key: Callable[[R], Key]) -> dict[Key, list[float]]:
    """Where the first ranges of conjunctions are parted, if they have more than n constants: into parts of one size."""
    constants: dict[Key, list[float]] = {}
    for predicates in chains:
        p = next((p for p in predicates if p.op in _RANGES), None)
        if p is not None:
            constants.setdefault(key(p), []).append(p.number)
    bounds = {}
    for name, numbers in constants.items():
        if len(set(numbers)) > n:
            numbers.sort()
            bounds[name] = sorted({numbers[i * len(numbers) // n] for i in range(n)})
    return bounds


def bucketed(predicates: list[R], bounds: Mapping[Key, list[float]], key: Callable[[R], Key]) -> list[R]:
    """``x > 7 and P`` as ``x > 5 and P and x > 7``, where 5 is a bound (§4.2)."""
    for i, p in enumerate(predicates):
        if p.op in _RANGES:
            parts = bounds.get(key(p))
            if parts is None or len(predicates) == i + 1:
                return predicates
            if p.op in (">", ">="):
                at = bisect_right(parts, p.number)
                bound = parts[at - 1] if at else float("-inf")
            else:
                at = bisect_left(parts, p.number)
                bound = parts[at] if at < len(parts) else float("inf")
            return [*predicates[:i], p._replace(number=bound), *predicates[i + 1 :], p]
    return predicates
