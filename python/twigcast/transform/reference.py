"""What a transform means, straight from SEMANTICS 14-17: every path evaluated by libxml2, node by node. No sharing, no
plan; the oracle that plans are held against, and the way out for transforms that no tree pattern decides."""

from __future__ import annotations

from functools import cache
from typing import Any

from lxml import etree

from twigcast.constructor import Transform
from twigcast.lang.printer import to_xpath
from twigcast.lang.xpath import parse
from twigcast.transform.nodes import Message, Node
from twigcast.transform.render import Group, render


def transformed(transform: Transform, xml: bytes, *, deliver_empty: bool = False) -> bytes | None:
    """The new message; None where no binding survives, unless ``deliver_empty``."""
    return render(transform, groups(transform, Message(xml)), deliver_empty=deliver_empty)


def groups(transform: Transform, message: Message) -> list[Group]:
    """One group per binding that passes the where clause, in document order."""
    bound = _nodes(transform.binding.text, message, message.document)
    where = transform.where
    if where is not None:
        bound = [node for node in bound if _holds(where.text, message, node)]
    return [Group(node, {path: _nodes(path.text, message, node) for path in transform.return_paths}) for node in bound]


def _nodes(text: str, message: Message, context: Node) -> list[Node]:
    if context.kind not in ("document", "element"):
        return [context] if text == "." or _holds(text, message, context) else []
    found: Any = _compiled(text)(message.tree if context.kind == "document" else context.element)
    return sorted((message.node(one) for one in found), key=lambda node: node.id)


def _holds(text: str, message: Message, context: Node) -> bool:
    if context.kind == "element":
        return bool(_compiled(f"boolean({text})")(context.element))
    # lxml evaluates at elements only: go to an attribute or text node by its position below its parent.
    assert context.parent is not None
    siblings = [node for node in context.parent.children if node.kind != "attribute"]
    if context.kind == "attribute":
        step = f"@{{{context.ns}}}{context.local}"
    else:
        step = f"node()[{1 + next(i for i, node in enumerate(siblings) if node is context)}]"
    parent: Any = message.tree if context.parent.kind == "document" else context.parent.element
    return bool(_compiled(f"boolean({step}[{text}])")(parent))


@cache
def _compiled(text: str) -> etree.XPath:
    xpath, prefixes = to_xpath(parse(text))
    return etree.XPath(xpath, namespaces=prefixes or None, smart_strings=True)
