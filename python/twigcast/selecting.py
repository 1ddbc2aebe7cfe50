"""What residual subscriptions select, by libxml2: nodes with the numbers that the kernel gives them, and as XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lxml import etree

from twigcast import _kernel
from twigcast.failures import FATAL, Failed
from twigcast.limits import Limits
from twigcast.pattern import Residual
from twigcast.shares import BUDGET_BYTES, BUDGET_RESULTS, RESULT_BYTES, RESULT_NODES, Sharing, fitting


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


@dataclass(slots=True)
class Taken:
    """What a residual subscription gets of a message, while it is made."""

    number: int
    nodes: list[tuple[int, Any]]
    """The nodes by their numbers, in document order, as lxml has them."""
    fragments: list[bytes] | None = None
    """The nodes as XML, if that is asked for."""
    reason: str | None = None
    """Why results are missing."""

    def selected(self) -> _kernel.Selected:
        """Return the results as the kernel has them."""
        nodes = [number for number, _ in self.nodes] if self.fragments is None else None
        return self.number, nodes, self.fragments, self.reason


class Selecting:
    """The results of one residual subscription."""

    def __init__(self, residual: Residual, *, fragments: bool) -> None:
        prefixes = dict(residual.prefixes) or None
        self.fragments = fragments
        self._nodes = etree.XPath(residual.xpath, namespaces=prefixes)
        # lxml leaves the document out of a node-set; it is the one node without a parent
        self._document = etree.XPath(f"boolean(({residual.xpath})[not(..)])", namespaces=prefixes, smart_strings=False)

    def find(self, tree: Tree) -> list[tuple[int, Any]]:
        """Return the selected nodes by number, in document order.

        Namespace nodes, which lxml gives as pairs, are left out.
        """
        nodes: Any = self._nodes(tree.tree)
        found = {tree.number(node): node for node in nodes if not isinstance(node, tuple)}
        if self._document(tree.tree):
            found[0] = tree.tree
        return sorted(found.items(), key=lambda pair: pair[0])


def select(tree: Tree, selecting: Iterable[tuple[int, Selecting]], limits: Limits) -> tuple[list[Taken], list[Failed]]:
    """Return what subscriptions, by number, get of a message within limits and budget, and those that fail."""
    failed: list[Failed] = []
    counted = Sharing[Taken](limits.max_message_results, lambda taken: len(taken.nodes), _cut_nodes)
    for number, one in selecting:
        try:
            taken = Taken(number, one.find(tree), [] if one.fragments else None)
        except FATAL:
            raise
        except BaseException as error:
            failed.append(Failed.of(number, error, "residual-refused"))
            continue
        own = limits.max_result_nodes
        if len(taken.nodes) > own:
            del taken.nodes[own:]
            taken.reason = RESULT_NODES
        beyond = len(taken.nodes) > counted.share
        if beyond:
            _cut_nodes(taken, counted.share)
        counted.add(taken, beyond=beyond)
    every = counted.finish()
    rendered = Sharing[Taken](limits.max_message_result_bytes, lambda taken: sum(map(len, taken.fragments or ())), _cut)
    for taken in every:
        try:
            beyond = taken.fragments is not None and _write(tree, taken, taken.fragments, limits, rendered.share)
        except FATAL:
            raise
        except BaseException as error:
            failed.append(Failed.of(taken.number, error, "residual-refused"))
            continue
        rendered.add(taken, beyond=beyond)
    return rendered.finish(), failed


def _write(tree: Tree, taken: Taken, fragments: list[bytes], limits: Limits, share: int) -> bool:
    """Append the fragments of a subscription's nodes; return whether they would exceed the share."""
    left = min(limits.max_result_bytes, share)
    for _, node in taken.nodes:
        fragment = tree.fragment(node)
        left -= len(fragment)
        if left < 0:
            is_own = limits.max_result_bytes <= share
            taken.reason = RESULT_BYTES if is_own else BUDGET_BYTES
            return not is_own
        fragments.append(fragment)
    return False


def _cut_nodes(taken: Taken, share: int) -> None:
    del taken.nodes[share:]
    taken.reason = BUDGET_RESULTS


def _cut(taken: Taken, share: int) -> None:
    if taken.fragments is not None:
        del taken.fragments[fitting(taken.fragments, share) :]
        taken.reason = BUDGET_BYTES
