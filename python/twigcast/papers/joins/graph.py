"""Join graphs (joins §4.1): the trees of a query's blocks, and value join edges between their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from twigcast.ir.correlation import Correlation, Ref


@dataclass(frozen=True, slots=True)
class GraphNode:
    """``parent`` is the number of another node, which comes before; None: the root of its block's tree. ``label`` is
    the variable it stands for."""

    block: int
    parent: int | None
    label: Ref | None = None


class ValueEdge(NamedTuple):
    """``left op right``, the left node in the earlier block."""

    left: int
    op: str
    right: int


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """The nodes of a block follow on one another, parents before children."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[ValueEdge, ...]

    @property
    def joined(self) -> set[int]:
        """The nodes that a value join compares."""
        return {end for edge in self.edges for end in (edge.left, edge.right)}

    def children(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.nodes]
        for at, node in enumerate(self.nodes):
            if node.parent is not None:
                found[node.parent].append(at)
        return found


def join_graph(correlation: Correlation) -> JoinGraph:
    nodes: list[GraphNode] = []
    numbers: dict[Ref, int] = {}
    for at, block in enumerate(correlation.blocks):
        for number, variable in enumerate(block.variables):
            ref = Ref(at, number)
            numbers[ref] = len(nodes)
            parent = None if variable.parent is None else numbers[Ref(at, variable.parent)]
            nodes.append(GraphNode(at, parent, ref))
    edges = [ValueEdge(numbers[one.left], one.op, numbers[one.right]) for one in correlation.predicates]
    return JoinGraph(tuple(nodes), tuple(edges))
