"""What duplicate elimination is left on a return path is a scan if its stream comes ordered by the binding field."""

from __future__ import annotations

from dataclasses import replace

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import DupElim, Operator, rewritten, stream_of
from twigcast.papers.plans.rules.rule import Rewrite


def apply(plan: Operator, facts: Facts) -> Operator:
    def change(one: Operator) -> Operator:
        if isinstance(one, DupElim) and one.form == "hash":
            proof = facts.ordered(stream_of(one).path.steps, one.fields[0])
            if proof is not None:
                return replace(one, form="scan", note=proof)
        return one

    return rewritten(plan, change)


RULE = Rewrite("scan-dupelim", "query", apply)
