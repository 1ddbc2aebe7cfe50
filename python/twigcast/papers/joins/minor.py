"""Graph minors (joins §4.2): a join graph without what the tree patterns of its blocks have decided already.

Left are the nodes that value joins compare and the least common ancestors of these. What the paper leaves to its
XPath evaluator goes into the patterns of the nodes that stay, so that each is found only where its block can match: a
branch that was cut off becomes a filter on the node above it, a node between two others joins the path.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from twigcast.ir.correlation import Correlation, Ref
from twigcast.ir.pattern import Twig
from twigcast.lang.canon import exists, with_filters
from twigcast.papers.joins.graph import GraphNode, JoinGraph, ValueEdge, join_graph


def kept_nodes(graph: JoinGraph) -> list[int]:
    """The nodes of the minor, in the order of the graph."""
    children = graph.children()
    joined = graph.joined
    below: list[int] = [0] * len(graph.nodes)  # how many branches of a node hold joined nodes
    live: list[bool] = [False] * len(graph.nodes)
    for at in reversed(range(len(graph.nodes))):
        below[at] = sum(live[child] for child in children[at])
        live[at] = below[at] > 0 or at in joined
    return [at for at in range(len(graph.nodes)) if at in joined or below[at] > 1]


def minor(graph: JoinGraph, kept: Sequence[int] | None = None) -> JoinGraph:
    """``kept``: if it is known which nodes stay."""
    kept = kept_nodes(graph) if kept is None else kept
    numbers = {at: number for number, at in enumerate(kept)}
    nodes: list[GraphNode] = []
    for at in kept:
        node = graph.nodes[at]
        above = node.parent
        while above is not None and above not in numbers:
            above = graph.nodes[above].parent
        nodes.append(GraphNode(node.block, None if above is None else numbers[above], node.label))
    edges = tuple(ValueEdge(numbers[edge.left], edge.op, numbers[edge.right]) for edge in graph.edges)
    return JoinGraph(tuple(nodes), edges)


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A node of a minor as a pattern: ``twig`` leads from the node of ``parent`` (None: from the document)."""

    ref: Ref
    parent: int | None
    twig: Twig


def patterns(correlation: Correlation) -> tuple[JoinGraph, tuple[PatternNode, ...]]:
    """The minor of a query's join graph, and the pattern of each of its nodes."""
    graph = join_graph(correlation)
    kept = kept_nodes(graph)
    twigs: list[Twig] = []
    for block in correlation.blocks:
        for variable in block.variables:
            assert variable.path.twig is not None
            twigs.append(variable.path.twig)
    numbers = {at: number for number, at in enumerate(kept)}
    if len(kept) < len(twigs):
        live = _live(graph, numbers)
        for at in reversed(range(len(twigs))):
            above = graph.nodes[at].parent
            if not live[at] and above is not None:
                twigs[above] = _filtered(twigs[above], twigs[at])
    made: list[PatternNode] = []
    for at in kept:
        node = graph.nodes[at]
        assert node.label is not None
        twig, above = twigs[at], node.parent
        while above is not None and above not in numbers:
            twig = Twig((*twigs[above].nodes, *twig.nodes))
            above = graph.nodes[above].parent
        made.append(PatternNode(node.label, None if above is None else numbers[above], twig))
    return minor(graph, kept), tuple(made)


def _live(graph: JoinGraph, kept: Container[int]) -> list[bool]:
    live = [at in kept for at in range(len(graph.nodes))]
    for at in reversed(range(len(graph.nodes))):
        parent = graph.nodes[at].parent
        if live[at] and parent is not None:
            live[parent] = True
    return live


def _filtered(twig: Twig, branch: Twig) -> Twig:
    """The twig with a branch below its last node that has to exist; the document has no filters, so there it is left
    to the check of the whole."""
    if not twig.nodes:
        return twig
    last = with_filters(twig.nodes[-1], exists(branch))
    return twig if last is None else Twig((*twig.nodes[:-1], last))
