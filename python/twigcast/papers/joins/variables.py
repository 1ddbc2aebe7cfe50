"""Variables across queries: those of one definition are one, and are looked for in a message once (joins §2, §3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.ir.correlation import Correlation
from twigcast.ir.pattern import Node, Twig
from twigcast.papers.joins.minor import PatternNode


@dataclass(slots=True)
class SharedVariable:
    """``twig`` leads from the node of ``parent`` (None: from the document). ``name`` is that in the first query that
    had it. ``uses`` counts queries; ``compared`` those that join its values, and ``alone`` those that have no other
    variable in its block."""

    number: int
    name: str
    stream: str
    parent: int | None
    twig: Twig
    uses: int = 0
    compared: int = 0
    alone: int = 0
    children: list[int] = field(default_factory=list)


class Variables:
    """The registry; a definition is a stream, the variable above it, and the way from there."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int | None, Twig], int] = {}
        self._next = 0
        self.shared: dict[int, SharedVariable] = {}

    def add(self, correlation: Correlation, nodes: tuple[PatternNode, ...], compared: set[int]) -> tuple[int, ...]:
        """The shared variables of a minor's nodes; ``compared`` are those of them that join."""
        numbers: list[int] = []
        for at, node in enumerate(nodes):
            stream = correlation.blocks[node.ref.block].stream
            parent = None if node.parent is None else numbers[node.parent]
            key = stream, parent, node.twig
            number = self._numbers.get(key)
            if number is None:
                number, self._next = self._next, self._next + 1
                self._numbers[key] = number
                name = correlation.variable(node.ref).name
                self.shared[number] = SharedVariable(number, name, stream, parent, node.twig)
                if parent is not None:
                    self.shared[parent].children.append(number)
            self._count(number, 1, at in compared, _is_alone(nodes, at))
            numbers.append(number)
        return tuple(numbers)

    def remove(self, nodes: tuple[PatternNode, ...], numbers: tuple[int, ...], compared: set[int]) -> None:
        for at in reversed(range(len(nodes))):
            number = numbers[at]
            self._count(number, -1, at in compared, _is_alone(nodes, at))
            shared = self.shared[number]
            if shared.uses == 0:
                del self.shared[number], self._numbers[shared.stream, shared.parent, shared.twig]
                if shared.parent is not None:
                    self.shared[shared.parent].children.remove(number)

    def find(self, correlation: Correlation, nodes: tuple[PatternNode, ...]) -> list[int]:
        """Those of a minor's variables that are there already."""
        numbers: list[int | None] = []
        for node in nodes:
            parent = None if node.parent is None else numbers[node.parent]
            lost = node.parent is not None and parent is None
            key = correlation.blocks[node.ref.block].stream, parent, node.twig
            numbers.append(None if lost else self._numbers.get(key))
        return [number for number in numbers if number is not None]

    def pattern(self, number: int) -> str:
        """The way from the document, as one path."""
        nodes: list[Node] = []
        at: int | None = number
        while at is not None:
            shared = self.shared[at]
            nodes[:0] = shared.twig.nodes
            at = shared.parent
        text = str(Twig(tuple(nodes)))
        return text[1:] if text.startswith(".") else f"/{text}"

    def _count(self, number: int, by: int, compared: bool, alone: bool) -> None:
        shared = self.shared[number]
        shared.uses += by
        shared.compared += by * compared
        shared.alone += by * alone


def _is_alone(nodes: tuple[PatternNode, ...], at: int) -> bool:
    return nodes[at].parent is None and not any(node.parent == at for node in nodes)
