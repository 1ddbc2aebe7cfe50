"""Removal of superfluous ``//`` (broker §5.1): where the schema shows a single path between two steps, it is written
out. Equal paths then share one stream, and claims that stumble over ``//`` apply."""

from __future__ import annotations

from twigcast.ir.pattern import Node, Step, Twig
from twigcast.ir.visit import replace
from twigcast.schema.graph import ElementGraph
from twigcast.schema.satisfiable import narrowed

# A path longer than this gains nothing from being written out.
MOST_STEPS = 12


def without_descendants(graph: ElementGraph, twig: Twig, start: int | None = None) -> Twig:
    """An equivalent twig, on valid messages, with as few ``//`` on its trunk as the schema allows."""
    nodes: list[Node] = []
    at = start
    for node in twig.nodes:
        reached = graph.step(at, node.step)
        if node.step.axis == "descendant":
            between = single_path(graph, at, node.step, reached)
            if between is not None:
                nodes += [Node(Step("child", "element", ns, local)) for ns, local in between]
                node = replace(node, step=replace(node.step, axis="child"))
        nodes.append(node)
        at = reached
        if node.step.kind == "element":
            for one in node.filters:
                at = narrowed(graph, one, at, "")[0]
    return Twig(tuple(nodes))


def single_path(graph: ElementGraph, at: int | None, step: Step, reached: int) -> list[tuple[str, str]] | None:
    """The names between ``at`` and what a ``//`` step finds, if every valid message has these and no others."""
    if not reached or step.kind not in ("element", "attribute", "text"):
        return None  # comments and the like may also stand beside the document element
    leaf = step.kind != "element"
    # Elements from which a match can still be reached: all others may be left out of account.
    useful = 0
    for one in range(len(graph.declarations)):
        if graph.below[one] & reached or (leaf and reached >> one & 1):
            useful |= 1 << one
    found: list[tuple[str, str]] = []
    here = at
    while len(found) <= MOST_STEPS:
        ends = bool(here is not None and here & reached) if leaf else False
        below = graph.roots if here is None else graph.all_children(here)
        if not leaf:
            ends = bool(below & reached)
        on = below & useful
        if ends and not on:
            return found
        # It must not end here for some and go on for others; nor part ways.
        names = {(graph.declarations[one].ns, graph.declarations[one].local) for one in graph.members(on)}
        if ends or len(names) != 1:
            return None
        ns, local = names.pop()
        if ns is None or local is None:
            return None
        found.append((ns, local))
        here = on
    return None
