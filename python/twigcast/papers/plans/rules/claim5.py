"""Claim 5: with ``//`` in steps 1 to i, the stream is still in increasing order of field i if, for every such step j,
the elements of steps j and i are not on one loop.

Order breaks only where a match of step i lies inside another. The paper rules that out by names, and so may we where a
name has one declaration and every step a name. With ``*``, or several declarations of a name, loops do not tell (in
``//a/*/c`` a c may lie inside a c without any a below it): then no match of step i may possibly lie inside another.
"""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.ir.pattern import Step
from twigcast.papers.plans.facts import Claim, Facts, deep, nests, one_per_name


def holds(steps: Sequence[Step], i: int, facts: Facts) -> bool:
    graph = facts.graph
    if graph is None:
        return False
    reached = graph.walk(steps[:i], facts.start)
    last = reached[-1]
    if not nests(graph, last):
        return True
    named = all(step.kind == "element" and step.ns is not None and step.local is not None for step in steps[:i])
    if not named or not one_per_name(graph):
        return False
    return not any(graph.all_below(last) & reached[at] for at in deep(steps[:i]))


RULE = Claim("claim 5", "schema", "ordered", holds)
