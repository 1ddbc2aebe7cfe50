"""The nodes that libxml2 selects, with the numbers that the kernel gives them (see ``results.RESULTS``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from lxml import etree

from twigcast.lang import ast
from twigcast.lang.printer import to_xpath


class Tree:
    """A parsed message and the numbers of its nodes."""

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

    def _walk(self) -> Iterator[tuple[str, etree._Element]]:
        root = self.tree.getroot()
        for node in (*reversed(list(root.itersiblings(preceding=True))), root, *root.itersiblings()):
            if isinstance(node.tag, str):
                yield from etree.iterwalk(node, events=("start", "end", "comment", "pi"))
            else:
                yield "comment", node

    def number(self, node: Any) -> int:
        """Return the number of what lxml's xpath() returns for a node."""
        if isinstance(node, etree._Element):
            return self.numbers[node]
        return self.numbers[node.getparent(), node.attrname if node.is_attribute else node.is_text]


class Query:
    """An expression that libxml2 evaluates."""

    def __init__(self, expr: ast.Expr) -> None:
        xpath, prefixes = to_xpath(expr)
        namespaces = prefixes or None
        self._holds = etree.XPath(f"boolean({xpath})", namespaces=namespaces, smart_strings=False)
        if ast.type_of(expr) == ast.NODE_SET:
            self._nodes = etree.XPath(xpath, namespaces=namespaces)
            # lxml leaves the document out of a node-set; it is the one node without a parent
            self._document = etree.XPath(f"boolean(({xpath})[not(..)])", namespaces=namespaces, smart_strings=False)

    def holds(self, tree: Tree) -> bool:
        return bool(self._holds(tree.tree))

    def find(self, tree: Tree) -> list[int]:
        """Return the numbers of the nodes that a node-set has, in document order, without namespace nodes."""
        nodes: Any = self._nodes(tree.tree)
        found = {tree.number(node) for node in nodes if not isinstance(node, tuple)}
        if self._document(tree.tree):
            found.add(0)
        return sorted(found)
