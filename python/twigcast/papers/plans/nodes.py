"""A message as the XPath data model has it, numbered in document order: what plans in Python run over.

The kernel has its own flat table; this one is for the reference evaluator and for plans that are to be checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from twigcast.ir.pattern import Step
from twigcast.limits import READ_BEFORE, Limits
from twigcast.schema import libxml2


class Node:
    """``id`` is the pre-order number, attributes right after their element; ``end`` is the first id past its subtree.
    ``element`` is the lxml element that it is, or belongs to."""

    __slots__ = ("attributes", "children", "element", "end", "id", "kind", "local", "ns", "parent", "text")

    def __init__(self, kind: str, ns: str, local: str, text: str, element: Any, parent: Node | None) -> None:
        self.kind = kind
        self.ns = ns
        self.local = local
        self.text = text
        self.element = element
        self.parent = parent
        self.id = 0
        self.end = 0
        self.children: list[Node] = []
        self.attributes: list[Node] = []

    def __repr__(self) -> str:
        return f"<{self.kind} {self.local} #{self.id}>"

    def below(self) -> Iterator[Node]:
        """All descendants in document order, without attributes."""
        stack = self.children[::-1]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children[::-1]

    @property
    def value(self) -> str:
        """The string-value."""
        if self.kind in ("element", "document"):
            return "".join(node.text for node in self.below() if node.kind == "text")
        return self.text

    def passes(self, kind: str, ns: str | None, local: str | None) -> bool:
        if kind == "node":
            return self.kind not in ("attribute", "document")
        return self.kind == kind and (ns is None or ns == self.ns) and (local is None or local == self.local)

    def along(self, step: Step) -> Iterator[tuple[Node, Node]]:
        """(parent, node) for each node that a step finds from here, in document order."""
        parents: Iterable[Node] = (self, *self.below()) if step.axis == "descendant" else (self,)
        for parent in parents:
            for node in parent.attributes if step.kind == "attribute" else parent.children:
                if node.passes(step.kind, step.ns, step.local):
                    yield parent, node


class Message:
    """The nodes of one message; ``nodes[i].id == i`` and ``nodes[0]`` is the document."""

    def __init__(self, xml: bytes, limits: Limits | None = None) -> None:
        """Read a message. Raises MessageError if the kernel or libxml2 cannot read it."""
        self.tree = libxml2.read(xml, limits or READ_BEFORE)
        self.nodes: list[Node] = []
        self._of: dict[object, Node] = {}
        self.document = self._build()

    def node(self, result: Any) -> Node:
        """The node that lxml's xpath() returned."""
        if isinstance(result, str):
            owner = result.getparent()  # type: ignore[attr-defined]
            if result.is_attribute:  # type: ignore[attr-defined]
                return self._of[owner, result.attrname]  # type: ignore[attr-defined]
            return self._of[owner, result.is_tail]  # type: ignore[attr-defined]
        return self._of[result]

    def _build(self) -> Node:
        document = self._add("document", "", "", "", None, None)
        root = self.tree.getroot()
        around = [*list(root.itersiblings(preceding=True))[::-1], root, *root.itersiblings()]
        stack: list[tuple[Any, Node]] = [(one, document) for one in reversed(around)]
        while stack:
            item, parent = stack.pop()
            if isinstance(item, Node):
                item.end = len(self.nodes)
            elif isinstance(item, tuple):
                element, is_tail = item
                text = element.tail if is_tail else element.text
                self._of[element, is_tail] = self._add("text", "", "", text, element, parent)
            else:
                self._element(item, parent, stack)
        document.end = len(self.nodes)
        return document

    def _element(self, element: Any, parent: Node, stack: list[tuple[Any, Node]]) -> None:
        if isinstance(element, etree._Comment):
            self._of[element] = self._add("comment", "", "", element.text or "", element, parent)
            return
        if isinstance(element, etree._ProcessingInstruction):
            self._of[element] = self._add("pi", "", str(element.target), element.text or "", element, parent)
            return
        qname = etree.QName(element)
        node = self._add("element", qname.namespace or "", qname.localname, "", element, parent)
        self._of[element] = node
        for full, value in element.attrib.items():
            name = etree.QName(full)
            attribute = self._add("attribute", name.namespace or "", name.localname, value, element, node)
            self._of[element, full] = attribute
        stack.append((node, node))
        for child in reversed(element):
            if child.tail:
                stack.append(((child, True), node))
            stack.append((child, node))
        if element.text:
            stack.append(((element, False), node))

    def _add(self, kind: str, ns: str, local: str, text: str, element: Any, parent: Node | None) -> Node:
        node = Node(kind, ns, local, text, element, parent)
        node.id = len(self.nodes)
        node.end = node.id + 1
        self.nodes.append(node)
        if parent is not None:
            (parent.attributes if kind == "attribute" else parent.children).append(node)
        return node
