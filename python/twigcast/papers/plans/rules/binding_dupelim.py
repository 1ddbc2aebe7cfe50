"""No duplicate elimination on a binding path whose stream has no duplicates (broker §4.2)."""

from __future__ import annotations

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import DupElim, Operator, noted, rewritten, stream_of
from twigcast.papers.plans.rules.rule import Rewrite


def apply(plan: Operator, facts: Facts) -> Operator:
    def change(one: Operator) -> Operator:
        if isinstance(one, DupElim) and len(one.fields) == 1:
            proof = facts.distinct(stream_of(one).path.steps)
            if proof is not None:
                return noted(one.input, f"no duplicates: {proof}")
        return one

    return rewritten(plan, change)


RULE = Rewrite("binding-dupelim", "query", apply)
