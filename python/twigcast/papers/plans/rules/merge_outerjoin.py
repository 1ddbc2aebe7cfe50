"""OuterJoin-Select merges if all its return streams come ordered by the binding field (broker §4.2)."""

from __future__ import annotations

from dataclasses import replace

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import Operator, OuterJoinSelect, rewritten, stream_of
from twigcast.papers.plans.rules.rule import Rewrite


def apply(plan: Operator, facts: Facts) -> Operator:
    def change(one: Operator) -> Operator:
        if isinstance(one, OuterJoinSelect):
            proofs = [facts.ordered(stream_of(right).path.steps, one.field) for right in one.rights]
            if all(proof is not None for proof in proofs):
                said = ", ".join(sorted({proof for proof in proofs if proof is not None}))
                return replace(one, form="merge", note=said)
        return one

    return rewritten(plan, change)


RULE = Rewrite("merge-outerjoin", "query", apply)
