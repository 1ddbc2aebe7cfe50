"""Claim 2: with n > 1 ``//`` in a path, no node comes twice in the last field if the elements of the first n-1 such
steps are on no loop.

A node has then at most one ancestor for each of these steps, and what lies between and after is determined by it. For
a ``*``, or a name with several declarations, "on no loop" means that none of the elements it stands for may lie inside
another: two different names may nest without any loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.ir.pattern import Step
from twigcast.papers.plans.facts import Claim, Facts, deep, nests


def holds(steps: Sequence[Step], i: int, facts: Facts) -> bool:
    graph = facts.graph
    if graph is None:
        return False
    reached = graph.walk(steps, facts.start)
    return not any(nests(graph, reached[at]) for at in deep(steps)[:-1])


RULE = Claim("claim 2", "schema", "distinct", holds)
