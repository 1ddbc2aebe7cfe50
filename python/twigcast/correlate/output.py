"""A result -> the new message: the SELECT template filled with nodes of the messages joined (SEMANTICS 16, 21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.ir.correlation import Correlation, Ref, VariablePath
from twigcast.ir.transform import Copy, Element, Hole, Path
from twigcast.transform.evaluate import select
from twigcast.transform.nodes import Message, Node
from twigcast.transform.render import Group, escaped, filled, quoted

Part = tuple["bytes | Message", Mapping[int, int]]
"""A message, and the nodes that the variables of its block are bound to, by their numbers."""


def render(correlation: Correlation, parts: Sequence[Part], most: int | None = None) -> bytes:
    """Return the payload of one result; raise TooLong if it has more than ``most`` bytes.

    ``parts`` has one for each block; only variables that SELECT shows are looked up. A message that is wanted often is
    better given as a tree."""
    messages = [xml if isinstance(xml, Message) else Message(xml) for xml, _ in parts]
    nodes = {ref: messages[ref.block].nodes[parts[ref.block][1][ref.variable]] for ref in correlation.shown}
    return filled(correlation.template, _Bound(nodes), most)


def pieces(template: Element) -> tuple[bytes | Ref, ...] | None:
    """What the payload is put together of: text, and the elements of variables as they are in their messages. None if
    more is asked of it than that; most templates ask for no more, and need no tree of any message."""
    made: list[str | Ref] = []
    if not _put(template, made):
        return None
    joined: list[bytes | Ref] = []
    text = ""
    for one in made:
        if isinstance(one, str):
            text += one
        else:
            joined += [text.encode(), one] if text else [one]
            text = ""
    return (*joined, text.encode())


def _put(element: Element, made: list[str | Ref]) -> bool:
    name = element.name
    if name.prefix or name.ns or element.declared:
        return False
    tag = f"<{name.local}"
    for one in element.attributes:
        if one.name.prefix or one.name.ns or not all(isinstance(part, str) for part in one.parts):
            return False
        tag += f' {one.name.local}="{quoted("".join(map(str, one.parts)))}"'
    if not element.content:
        made.append(tag + "/>")
        return True
    made.append(tag + ">")
    for part in element.content:
        if isinstance(part, str):
            made.append(escaped(part))
        elif isinstance(part, Element):
            if not _put(part, made):
                return False
        elif isinstance(part, Hole):
            for item in part.items:
                path = item.path if isinstance(item, Copy) else None
                if not isinstance(path, VariablePath) or not path.is_self or path.kind not in ("element", "document"):
                    return False
                made.append(path.ref)
        else:
            return False
    made.append(f"</{name.local}>")
    return True


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
