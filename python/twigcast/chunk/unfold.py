"""Wildcards and ``//`` resolved along the schema (eXtract, section 3): short expressions become long prefixes.

A path is written out, one expression for each way there, until an element would contain itself; from there on its
``//`` stays. Nothing but the nesting of elements is relied on, so that a document can be held to it in passing.
"""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.ir.pattern import Node, Step, Twig, uses_position
from twigcast.ir.visit import replace
from twigcast.schema.graph import Declaration, ElementGraph
from twigcast.schema.satisfiable import Impossible, impossible, narrowed

# Expressions made of one; an expression with more ways than this gains nothing from being split.
MOST_WAYS = 64
# Steps taken to find them: a schema may have exponentially many paths.
MOST_STEPS = 2_000


class _TooMany(Exception):
    pass


def nesting(graph: ElementGraph) -> ElementGraph:
    """Return the graph without what it says of attributes and text."""
    return ElementGraph(
        [Declaration(d.ns, d.local, d.children, any_attribute=True) for d in graph.declarations], graph.roots
    )


def unfolded(graph: ElementGraph, twig: Twig) -> list[Twig] | Impossible:
    """Twigs that together find what ``twig`` finds in a valid document, or why that is nothing."""
    why = impossible(graph, twig)
    if why is not None:
        return why
    try:
        return list(dict.fromkeys(_Unfolding(graph, twig).all()))
    except _TooMany:
        return [twig]


class _Unfolding:
    def __init__(self, graph: ElementGraph, twig: Twig) -> None:
        self.graph = graph
        self.nodes = twig.nodes
        self.made: list[Twig] = []
        self.steps = 0

    def all(self) -> list[Twig]:
        self.go(None, 0, (), 0)
        return self.made

    def emit(self, nodes: tuple[Node, ...]) -> None:
        if len(self.made) >= MOST_WAYS:
            raise _TooMany
        self.made.append(Twig(nodes))

    def go(self, at: int | None, seen: int, before: tuple[Node, ...], i: int) -> None:
        """``at``: the declarations that ``before`` leads to; ``seen``: those on the way."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _TooMany
        if i == len(self.nodes) or self.nodes[i].step.kind != "element":
            self.emit((*before, *self.nodes[i:]))
            return
        node = self.nodes[i]
        graph = self.graph
        target = graph.named(node.step.ns, node.step.local)
        children = graph.roots if at is None else graph.all_children(at)
        deep = node.step.axis == "descendant"
        useful = children & target
        if deep:
            useful |= sum(1 << one for one in graph.members(children & ~target) if graph.below[one] & target)
        groups = dict(self.by_name(useful))
        if (deep and useful & seen) or any(None in name for name in groups):
            self.emit((*before, *self.nodes[i:]))
            return
        counts = any(map(uses_position, node.filters)) and None in (node.step.ns, node.step.local)
        if counts and useful & target:
            # the position is one among all names that pass, so the wildcard stays
            self.emit((*before, replace(node, step=replace(node.step, axis="child")), *self.nodes[i + 1 :]))
        for (ns, local), group in groups.items():
            step = Step("child", "element", ns, local)
            hits = group & target
            for one in node.filters:
                hits = narrowed(graph, one, hits, "")[0]
            if hits and not counts:
                self.go(hits, seen | group, (*before, replace(node, step=step)), i + 1)
            if deep and graph.all_below(group) & target:
                self.go(group, seen | group, (*before, Node(step)), i)

    def by_name(self, mask: int) -> Iterator[tuple[tuple[str | None, str | None], int]]:
        groups: dict[tuple[str | None, str | None], int] = {}
        for one in self.graph.members(mask):
            declared = self.graph.declarations[one]
            name = (declared.ns, declared.local)
            groups[name] = groups.get(name, 0) | 1 << one
        yield from groups.items()
