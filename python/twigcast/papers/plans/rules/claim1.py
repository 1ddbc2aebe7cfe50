"""Claim 1: with at most one ``//`` in a path, no node comes twice in the last field."""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.ir.pattern import Step
from twigcast.papers.plans.facts import Claim, Facts, deep


def holds(steps: Sequence[Step], i: int, facts: Facts) -> bool:
    return len(deep(steps)) <= 1


RULE = Claim("claim 1", "query", "distinct", holds)
