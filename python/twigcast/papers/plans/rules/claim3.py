"""Claim 3: a path cut after step i has no duplicates in fields i and last together if neither part has any, by claim 1
or claim 2, the second taken as a path of its own below step i."""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.ir.pattern import Step
from twigcast.papers.plans.facts import Claim, Facts


def holds(steps: Sequence[Step], i: int, facts: Facts) -> bool:
    head, tail = steps[:i], steps[i:]
    return facts.distinct(head) is not None and facts.below(head).distinct(tail) is not None


RULE = Claim("claim 3", "query", "distinct-pairs", holds)
