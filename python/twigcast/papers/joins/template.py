"""Query templates (joins §4.1): minors up to isomorphism. Queries of one template differ in their variables alone.

The canonical form comes from colour refinement: nodes are told apart by their block, their place in the tree and what
they join, and where two are alike, one is picked and all are looked at again. Nodes that even then stay alike are
taken for interchangeable; were they not, two templates would stand for one, and no answer would change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from twigcast.papers.joins.graph import GraphNode, JoinGraph, ValueEdge

# Of nodes that are alike, so many are tried: more are alike in large stars only, where any will do.
_TRIED = 8


@dataclass(frozen=True, slots=True)
class Template:
    """``parents`` and ``blocks`` have one entry for each meta-variable, block by block and parents first; ``edges``
    are the value joins between them, sorted."""

    blocks: tuple[int, ...]
    parents: tuple[int | None, ...]
    edges: tuple[ValueEdge, ...]

    def __str__(self) -> str:
        def tree(at: int) -> str:
            below = [tree(child) for child, parent in enumerate(self.parents) if parent == at]
            return f"var{at + 1}" + (f"({', '.join(below)})" if below else "")

        sides = []
        for block in range(max(self.blocks) + 1 if self.blocks else 0):
            roots = [at for at, parent in enumerate(self.parents) if parent is None and self.blocks[at] == block]
            sides.append(" ".join(map(tree, roots)))
        joins = ", ".join(f"var{left + 1} {op} var{right + 1}" for left, op, right in self.edges)
        return f"{' | '.join(sides)} : {joins}"


def template_of(graph: JoinGraph) -> tuple[Template, tuple[int, ...]]:
    """The template of a minor, and the node that each of its meta-variables stands for."""
    nodes = tuple(GraphNode(node.block, node.parent) for node in graph.nodes)
    return _template_of(JoinGraph(nodes, graph.edges))


@lru_cache(100_000)
def _template_of(graph: JoinGraph) -> tuple[Template, tuple[int, ...]]:
    order = canonical_order(graph, [node.block for node in graph.nodes])
    number = {at: new for new, at in enumerate(order)}
    parents = [graph.nodes[at].parent for at in order]
    edges = sorted(ValueEdge(number[edge.left], edge.op, number[edge.right]) for edge in set(graph.edges))
    template = Template(
        tuple(graph.nodes[at].block for at in order),
        tuple(None if parent is None else number[parent] for parent in parents),
        tuple(edges),
    )
    return template, tuple(order)


def canonical_order(graph: JoinGraph, colours: list[int]) -> list[int]:
    """The nodes block by block, parents first, in an order that is the same for isomorphic graphs. ``colours`` tell
    nodes apart to begin with; where nothing does, the order of the graph stands."""
    colours = _discrete(graph, colours)
    children = graph.children()
    order: list[int] = []
    for block in sorted({node.block for node in graph.nodes}):
        roots = [at for at, node in enumerate(graph.nodes) if node.block == block and node.parent is None]
        stack = sorted(roots, key=lambda at: colours[at], reverse=True)
        while stack:
            at = stack.pop()
            order.append(at)
            stack += sorted(children[at], key=lambda child: colours[child], reverse=True)
    return order


def _discrete(graph: JoinGraph, colours: list[int]) -> list[int]:
    """A colour for each node, all different; the same for isomorphic graphs."""
    colours = _refined(graph, colours)
    while True:
        sizes: dict[int, list[int]] = {}
        for at, colour in enumerate(colours):
            sizes.setdefault(colour, []).append(at)
        alike = next((sizes[colour] for colour in sorted(sizes) if len(sizes[colour]) > 1), None)
        if alike is None:
            return colours
        picked: tuple[tuple[int, ...], list[int]] | None = None
        for at in alike[:_TRIED]:
            # Twice as many colours, so that the one picked comes right before those it was like.
            tried = _refined(graph, [2 * colour + 1 - (one == at) for one, colour in enumerate(colours)])
            shape = _shape(graph, tried)
            if picked is None or shape < picked[0]:
                picked = shape, tried
        assert picked is not None
        colours = picked[1]


def _refined(graph: JoinGraph, colours: list[int]) -> list[int]:
    children = graph.children()
    partners: list[list[tuple[str, int, int]]] = [[] for _ in graph.nodes]
    for left, op, right in graph.edges:
        partners[left].append((op, 0, right))
        partners[right].append((op, 1, left))
    while True:
        signatures: list[tuple[object, ...]] = []
        for at, node in enumerate(graph.nodes):
            joins = sorted((op, side, colours[other]) for op, side, other in partners[at])
            parent = -1 if node.parent is None else colours[node.parent]
            below = sorted(colours[child] for child in children[at])
            signatures.append((colours[at], parent, tuple(below), tuple(joins)))
        ranks = {signature: rank for rank, signature in enumerate(sorted(set(signatures)))}
        refined = [ranks[signature] for signature in signatures]
        if len(ranks) == len(set(colours)):
            return refined
        colours = refined


def _shape(graph: JoinGraph, colours: list[int]) -> tuple[int, ...]:
    """What isomorphic colourings have in common: the sizes of the classes, and the colours that are joined."""
    sizes: list[int] = [0] * (max(colours) + 1)
    for colour in colours:
        sizes[colour] += 1
    joins = sorted((colours[edge.left], colours[edge.right]) for edge in graph.edges)
    return (*sizes, *(end for edge in joins for end in edge))
