"""Claim 4: without ``//`` in steps 1 to i, the stream is in increasing order of field i: its nodes lie at one depth."""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.ir.pattern import Step
from twigcast.papers.plans.facts import Claim, Facts, deep


def holds(steps: Sequence[Step], i: int, facts: Facts) -> bool:
    return not deep(steps[:i])


RULE = Claim("claim 4", "query", "ordered", holds)
