"""What a plan costs (relational §4), by the paper's parameters.

Costs are in look-ups of an index (C_i = 1). The number of subscriptions and what their predicates look like are
measured; of messages, which are not there yet when a plan is chosen, the parameters are typical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twigcast.relational.compile import EQUALITIES, EXISTS, Row
from twigcast.relational.plans import PLANS, Plan

C_T, C_R = 0.2, 0.05
"""Retrieving a tuple, and testing it on the rows of a message, in look-ups."""
VALUES = 10.0
"""m: values of a message that some linear path leads to."""
_SELECTIVITY = {EXISTS: 1.0, "!=": 1.0, "!==": 1.0}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Those of Table 4.1, and what sharing and buckets depend on."""

    n: float
    """Conjunctions."""
    b: float
    """Predicates of a conjunction."""
    s: float
    """Selectivity: how often a predicate holds for a value of its path."""
    p: float
    """Linear paths that match a tag path."""
    m: float
    shared: float
    """Of the first predicates, the part that is distinct."""
    ranges: float
    """Of the predicates, the part that is no equality."""


@dataclass(frozen=True, slots=True)
class Cost:
    plan: str
    cost: float
    parameters: Parameters


def parameters(conjunctions: Sequence[Sequence[Row]], n: int | None = None) -> Parameters:
    predicates = [row for rows in conjunctions for row in rows]
    count = max(1, len(predicates))
    constants: dict[tuple[str, str], set[tuple[str, float]]] = {}
    for row in predicates:
        if row.op in EQUALITIES:
            constants.setdefault((row.path, row.op), set()).add((row.value, row.number))

    def selectivity(row: Row) -> float:
        if row.op in EQUALITIES:
            return 1 / len(constants[row.path, row.op])
        return _SELECTIVITY.get(row.op, 0.5)

    firsts = [rows[0] for rows in conjunctions if rows]
    return Parameters(
        n=max(1, len(conjunctions) if n is None else n),
        b=count / max(1, len(conjunctions)),
        s=sum(map(selectivity, predicates)) / count,
        p=1.0,
        m=VALUES,
        shared=len({row[:4] for row in firsts}) / max(1, len(firsts)),
        ranges=sum(row.op not in EQUALITIES for row in predicates) / count,
    )


def estimate(name: str, x: Parameters, plan: Plan) -> float:
    """The formulas of §4.1 to §4.3."""
    # a predicate meets the values of its own path only, so that of m values m / (distinct paths) count; s has that
    spm = min(0.95, x.s)
    more = (x.b - 1) / x.b
    probes = x.p * x.m
    if name == "unroll":
        k = min(plan.unroll, x.b)
        rest: float = x.n * spm**k * max(0.0, x.b - plan.unroll)
        return probes * probes + spm * spm * x.n * (k * C_T + C_R) + rest
    n = x.n
    if name in ("share", "share-bucket"):
        n *= x.shared if x.ranges < 1 else 1.0
    tuples = n * spm / (1 - spm * more)
    cost = probes + tuples * (probes * more + C_T)
    if name in ("share", "share-bucket"):
        # what is shared is looked up once; the rest of each conjunction is its own
        tail = x.n * spm * x.ranges / (1 - spm * more)
        if name == "share-bucket":
            tail *= max(spm, min(1.0, plan.buckets / max(1.0, x.n * spm)))
        cost += tail * (probes * more + C_T)
    if name in ("bucket", "share-bucket"):
        cost += plan.buckets
    return cost


def measure(conjunctions: Sequence[Sequence[Row]], plan: Plan, n: int | None = None) -> list[Cost]:
    x = parameters(conjunctions, n)
    return sorted((Cost(name, estimate(name, x, plan), x) for name in PLANS), key=lambda cost: cost.cost)


def choose(costs: Sequence[Cost]) -> str:
    return costs[0].plan
