"""The ways to lay predicates out (relational §4), and what of that is settable."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.errors import OptionError

PLANS = ("recursive", "share", "bucket", "unroll", "share-bucket")
AUTO = "auto"
UNROLL, BUCKETS = 5, 20


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
