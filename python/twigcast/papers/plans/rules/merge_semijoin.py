"""A semijoin merges if the stream of its predicate path comes ordered by the binding field (broker §4.2)."""

from __future__ import annotations

from dataclasses import replace

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import Operator, Semijoin, rewritten, stream_of
from twigcast.papers.plans.rules.rule import Rewrite


def apply(plan: Operator, facts: Facts) -> Operator:
    def change(one: Operator) -> Operator:
        if isinstance(one, Semijoin):
            proof = facts.ordered(stream_of(one.right).path.steps, one.field)
            if proof is not None:
                return replace(one, form="merge", note=proof)
        return one

    return rewritten(plan, change)


RULE = Rewrite("merge-semijoin", "query", apply)
