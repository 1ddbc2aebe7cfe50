"""The weighted query tree, and the algorithm that picks chunk prefixes from it (eXtract, section 4, Figures 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twigcast.chunk.scheme import Name, Path


class QueryTree:
    """One node for each element on the path of an expression; its weight is how many subscriptions have one there."""

    def __init__(self) -> None:
        self.root = Node((), None)

    def add(self, paths: Iterable[Path], weight: int = 1) -> None:
        """Add subscriptions with expressions on these paths or, with a negative weight, take them away."""
        passed = {self.root}
        for path in paths:
            node = self.root
            for name in path:
                child = node.children.get(name)
                if child is None:
                    child = node.children[name] = Node((*node.path, name), node)
                node = child
                passed.add(node)
        for node in passed:
            node.weight += weight
            if not node.weight and node.parent is not None:
                # what is below it weighs no more than it does, so that it is going as well
                node.parent.children.pop(node.path[-1])

    def candidates(self) -> Iterator[Node]:
        """All nodes that may be a chunk, parents first, in the order of names: not the document element, for its chunk
        would be the document."""
        for root in self.root:
            stack = list(reversed(list(root)))
            while stack:
                node = stack.pop()
                yield node
                stack += reversed(list(node))

    def prefixes(self, chunks: int) -> list[Path]:
        """Return the prefixes of at most so many chunks, in the order of paths.

        The heaviest node is taken, as deep as its weight goes, and its weight is subtracted from the nodes above it: of
        what they stand for, this is dealt with. A node taken earlier that has thereby become lighter than the one that
        was just taken does not deserve its place any more and is given up. It stands again for what it is still worth.
        """
        left = {node: node.weight for node in self.candidates()}
        taken: set[Node] = set()
        visited: set[Node] = set()
        while len(taken) < chunks:
            # max() has the first of equals, which is the highest up
            heavy = max((node for node in left if node not in taken), key=left.__getitem__, default=None)
            if heavy is None or left[heavy] <= 0:
                break
            while deeper := [child for child in heavy if left[child] == left[heavy] and child not in taken]:
                heavy = deeper[0]
            above = heavy.parent
            while heavy not in visited and above in left:
                left[above] = max(0, left[above] - left[heavy])
                # what is above a node taken earlier has been reduced by it, and hence by all below it
                above = None if above in visited else above.parent
            visited.add(heavy)
            taken = {node for node in taken if left[node] >= left[heavy]} | {heavy}
        return sorted(node.path for node in taken)


class Node:
    """``path`` leads to it; its children come in the order of their names, whatever order they were added in."""

    __slots__ = ("children", "parent", "path", "weight")

    def __init__(self, path: Path, parent: Node | None) -> None:
        self.path = path
        self.parent = parent
        self.weight = 0
        self.children: dict[Name, Node] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter([self.children[name] for name in sorted(self.children)])
