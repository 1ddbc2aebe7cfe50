"""Superfluous ``//`` are written out (broker §5.1), in the binding path and in the paths below it."""

from __future__ import annotations

from dataclasses import replace

from twigcast.ir.pattern import LinearPath
from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import Operator
from twigcast.papers.plans.parts import Parts
from twigcast.papers.plans.rewrite import without_descendants
from twigcast.papers.plans.rules.rule import Prepare


def apply(parts: Parts, facts: Facts) -> Parts | Operator:
    graph = facts.graph
    if graph is None:
        return parts
    binding = without_descendants(graph, parts.binding)
    if binding.nodes[-1].step.kind != "element":
        return replace(parts, binding=binding)
    bound = graph.walk(LinearPath(tuple(node.step for node in binding.nodes)).steps)[-1]
    return replace(
        parts,
        binding=binding,
        predicates=tuple(replace(one, twig=without_descendants(graph, one.twig, bound)) for one in parts.predicates),
        returns=tuple((path, without_descendants(graph, twig, bound)) for path, twig in parts.returns),
    )


RULE = Prepare("descendants", "schema", apply)
