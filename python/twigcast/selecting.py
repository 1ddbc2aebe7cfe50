"""What residual subscriptions select, by libxml2: nodes with the numbers that the kernel gives them, and as XML."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from lxml import etree

from twigcast.limits import Limits
from twigcast.pattern import Residual


class Tree:
    """A parsed message and the numbers of its nodes (see ``results.RESULTS``)."""

    def __init__(self, tree: etree._ElementTree) -> None:
        self.tree = tree

    @cached_property
    def numbers(self) -> dict[Any, int]:
        """By element, comment or PI itself, (element, name of an attribute) or (node, before or after its tag)."""
        found: dict[Any, int] = {}

        def add(*keys: Any) -> None:
            for key in keys:
                found[key] = len(found) + 1

        for event, node in self._walk():
            if event == "start":
                add(node, *[(node, name) for name in node.attrib])
                if node.text:
                    add((node, True))
            elif event != "end":
                add(node)
            if event != "start" and node.tail:
                add((node, False))
        return found

    def top(self) -> Iterator[etree._Element]:
        root = self.tree.getroot()
        yield from reversed(list(root.itersiblings(preceding=True)))
        yield root
        yield from root.itersiblings()

    def _walk(self) -> Iterator[tuple[str, etree._Element]]:
        for node in self.top():
            if isinstance(node.tag, str):
                yield from etree.iterwalk(node, events=("start", "end", "comment", "pi"))
            else:
                yield "comment", node

    def number(self, node: Any) -> int:
        """Of what lxml's xpath() returns for a node; 0 is the document."""
        if node is self.tree:
            return 0
        if isinstance(node, etree._Element):
            return self.numbers[node]
        return self.numbers[node.getparent(), node.attrname if node.is_attribute else node.is_text]

    def fragment(self, node: Any) -> bytes:
        if node is self.tree:
            return b"".join(map(self.fragment, self.top()))
        if isinstance(node, str):
            text = node.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
            return text.encode()
        data: bytes = etree.tostring(node, encoding="UTF-8", with_tail=False)
        return data


class Selecting:
    """The results of one residual subscription."""

    def __init__(self, residual: Residual, *, fragments: bool) -> None:
        prefixes = dict(residual.prefixes) or None
        self.fragments = fragments
        self._nodes = etree.XPath(residual.xpath, namespaces=prefixes)
        # lxml leaves the document out of a node-set; it is the one node without a parent
        self._document = etree.XPath(f"boolean(({residual.xpath})[not(..)])", namespaces=prefixes, smart_strings=False)

    def select(
        self, tree: Tree, limits: Limits, room: int = 1 << 30
    ) -> tuple[list[int] | None, list[bytes] | None, bool]:
        """Nodes or fragments (of at most ``room`` bytes), and whether these are all.

        Namespace nodes, which lxml gives as pairs, are left out.
        """
        nodes: Any = self._nodes(tree.tree)
        found = {tree.number(node): node for node in nodes if not isinstance(node, tuple)}
        if self._document(tree.tree):
            found[0] = tree.tree
        numbers = sorted(found)
        few = numbers[: limits.max_result_nodes]
        if not self.fragments:
            return few, None, len(few) == len(numbers)
        given, size = [], 0
        for number in few:
            fragment = tree.fragment(found[number])
            size += len(fragment)
            if size > min(limits.max_result_bytes, room):
                break
            given.append(fragment)
        return None, given, len(given) == len(numbers)
