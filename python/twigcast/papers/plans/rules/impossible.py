"""A transform that no valid message can match needs no plan."""

from __future__ import annotations

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import Nothing, Operator
from twigcast.papers.plans.parts import Parts
from twigcast.papers.plans.rules.rule import Prepare
from twigcast.schema.satisfiable import impossible, narrowed


def apply(parts: Parts, facts: Facts) -> Parts | Operator:
    graph = facts.graph
    if graph is None:
        return parts
    why = impossible(graph, parts.binding)
    if why is not None:
        return Nothing(f"{why.text}; {why.hint}")
    if parts.binding.nodes[-1].step.kind == "element":
        bound = graph.walk([node.step for node in parts.binding.nodes])[-1]
        left, why = narrowed(graph, parts.where, bound, str(parts.binding.path))
        if not left:
            return Nothing(f"{why.text}; {why.hint}" if why is not None else "the where clause never holds")
    return parts


RULE = Prepare("impossible", "schema", apply)
