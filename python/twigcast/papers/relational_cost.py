"""What a plan costs for a message (relational §4), in microseconds.

The formulas are the paper's, level by level: a level looks the chains that are left up (C_i each), and retrieves the
predicates that come next (C_t each); unrolled rows are retrieved by their first predicate and tested on the rest (C_r).
What the subscriptions look like is measured on a sample of them; what a look-up costs was measured on DuckDB by
``python -m benchmarks.relational_costs``. Of messages, what has been seen counts, or else what is typical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from twigcast.papers.relational_plans import PLANS, Plan, bounds_of, bucketed
from twigcast.relational.compile import EQUALITIES, EXISTS, Row

C_I, C_T, C_R = 0.380, 0.023, 0.032
"""Looking a chain up; retrieving a predicate and testing it; the same for an unrolled row, whatever it has."""
VALUES, PATHS = 10.0, 1.0
"""m and p where no message has been seen: values of a message that some linear path leads to, paths that match each."""
_SELECTIVITY = {EXISTS: 1.0, "!=": 1.0, "!==": 1.0}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Those of Table 4.1."""

    n: float
    """Conjunctions."""
    b: float
    """Predicates of a conjunction."""
    s: float
    """Selectivity: how often a predicate holds for a value of its path."""
    p: float
    """Linear paths that match a tag path."""
    m: float
    """Values of a message that some linear path leads to."""


@dataclass(frozen=True, slots=True)
class Cost:
    plan: str
    cost: float
    parameters: Parameters


Chain = Sequence[Row]


class Estimate:
    """``n`` conjunctions, of which those given are a sample."""

    def __init__(self, sample: Sequence[Chain], n: int | None = None, m: float = VALUES, p: float = PATHS) -> None:
        self._sample = [chain for chain in sample if chain]
        constants: dict[tuple[str, str], Counter[Hashable]] = {}
        for row in (row for chain in self._sample for row in chain):
            if row.op in EQUALITIES:
                constants.setdefault((row.path, row.op), Counter())[row.value, row.number] += 1
        n = max(1, len(sample) if n is None else n)
        self._factor = n / max(1, len(self._sample))
        self._distinct = {key: _distinct(counts, n) for key, counts in constants.items()}
        rows = [row for chain in self._sample for row in chain]
        self.parameters = Parameters(
            n=n,
            b=len(rows) / max(1, len(self._sample)),
            s=sum(map(self._selectivity, rows)) / max(1, len(rows)),
            p=p,
            m=m,
        )

    def _selectivity(self, row: Row) -> float:
        """An equality's is that of one constant of many; of ranges the values are not known."""
        if row.op in EQUALITIES:
            return 1 / self._distinct[row.path, row.op]
        return _SELECTIVITY.get(row.op, 0.5)

    def cost(self, plan: Plan) -> float:
        x = self.parameters
        if plan.unrolls:
            rests = [chain[plan.unroll :] for chain in self._sample]
            reached = [_product(map(self._selectivity, chain[: plan.unroll])) for chain in self._sample]
            rows = sum(self._selectivity(chain[0]) for chain in self._sample) * self._factor
            return x.m * x.p * C_I + rows * C_R + self._chains(rests, reached, shares=False)
        chains: list[Chain] = list(self._sample)
        if plan.has_buckets:
            bounds = bounds_of(chains, plan.buckets, lambda row: (row.path, row.op))
            chains = [bucketed(list(chain), bounds, lambda row: (row.path, row.op)) for chain in chains]
        return x.m * x.p * C_I + self._chains(chains, [1.0] * len(chains), shares=plan.shares)

    def _chains(self, chains: Sequence[Chain], reached: Sequence[float], *, shares: bool) -> float:
        """Chains that are followed with the chances given."""
        total = 0.0
        left = list(zip(chains, reached, strict=True))
        for level in range(max((len(chain) for chain in chains), default=0)):
            left = [(chain, chance) for chain, chance in left if len(chain) > level]
            # a chain that ends here has a predicate of its own; the others may share theirs
            going = [(chain, chance) for chain, chance in left if len(chain) > level + 1]
            part = _part(Counter(_prefix(c, level + 1) for c, _ in going), self._factor) if shares and going else 1.0
            above = _part(Counter(_prefix(c, level) for c, _ in left), self._factor) if shares else 1.0
            for chain, chance in left:
                # equalities are looked up by their values, too: only those that hold are retrieved
                found = chance * (self._selectivity(chain[level]) if chain[level].op in EQUALITIES else 1.0)
                total += found * self._factor * C_T * (part if len(chain) > level + 1 else 1.0)
                if level:
                    total += chance * self._factor * C_I * above
            left = [(chain, chance * self._selectivity(chain[level])) for chain, chance in left]
        return total


def _prefix(chain: Chain, length: int) -> Hashable:
    return tuple(row[:4] for row in chain[:length])


def _part(counts: Counter[Hashable], factor: float) -> float:
    """Of so many chains as there are in all, the part that is distinct."""
    total = sum(counts.values()) * factor
    return min(1.0, _distinct(counts, total) / total)


def _distinct(counts: Counter[Hashable], total: float) -> float:
    """How many distinct ones there are in all, by those that the sample has once and twice (Chao 1984)."""
    once = sum(count == 1 for count in counts.values())
    twice = sum(count == 2 for count in counts.values())
    return min(float(total), len(counts) + once * (once - 1) / (2 * (twice + 1)))


def _product(numbers: Iterable[float]) -> float:
    product = 1.0
    for number in numbers:
        product *= number
    return product


def measure(
    sample: Sequence[Chain], plan: Plan, n: int | None = None, *, m: float = VALUES, p: float = PATHS
) -> list[Cost]:
    """All plans, the cheapest first; of equal ones the simplest."""
    estimate = Estimate(sample, n, m, p)
    costs = [Cost(name, estimate.cost(Plan(name, plan.unroll, plan.buckets)), estimate.parameters) for name in PLANS]
    return sorted(costs, key=lambda cost: cost.cost)


def choose(costs: Sequence[Cost]) -> str:
    return costs[0].plan
