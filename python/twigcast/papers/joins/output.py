"""A result -> the new message: the SELECT template filled with nodes of the messages joined (SEMANTICS 16, 21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.ir.correlation import Correlation, Ref, VariablePath
from twigcast.ir.transform import Path
from twigcast.papers.plans.evaluate import select
from twigcast.papers.plans.factory import Group, filled
from twigcast.papers.plans.nodes import Message, Node

Part = tuple["bytes | Message", Mapping[int, int]]
"""A message, and the nodes that the variables of its block are bound to, by their numbers."""


def render(correlation: Correlation, parts: Sequence[Part], most: int | None = None) -> bytes:
    """Return the payload of one result; raise TooLong if it has more than ``most`` bytes.

    ``parts`` has one for each block; only variables that SELECT shows are looked up. A message that is wanted often is
    better given as a tree."""
    messages = [xml if isinstance(xml, Message) else Message(xml) for xml, _ in parts]
    nodes = {ref: messages[ref.block].nodes[parts[ref.block][1][ref.variable]] for ref in correlation.shown}
    return filled(correlation.template, _Bound(nodes), most)


class _Bound(Group):
    """What a template's paths find, given the nodes of its variables."""

    def __init__(self, bound: Mapping[Ref, Node]) -> None:
        self.bound = bound

    def nodes(self, path: Path) -> list[Node]:
        assert isinstance(path, VariablePath) and path.twig is not None
        node = self.bound[path.ref]
        if not path.is_self:
            return select(path.twig, node)
        # A copy of the document is one of its root element: what stands around that has no place in a message.
        return [one for one in node.children if one.kind == "element"] if node.kind == "document" else [node]
