"""What a transform means, straight from SEMANTICS 14-17, node by node: no sharing, no plan. The oracle that plans and
the kernel are held against: libxml2 evaluates what no tree pattern decides.

libxml2 reads "1e2" as a number, XPath 1.0 does not (SEMANTICS 5): where there is a pattern, the pattern is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lxml import etree

from twigcast.ir.pattern import Predicate, Step, uses_position
from twigcast.ir.transform import Path, Transform
from twigcast.lang.printer import to_xpath
from twigcast.lang.xpath import parse
from twigcast.papers.plans.evaluate import filtered, holds, select
from twigcast.papers.plans.nodes import Message, Node
from twigcast.papers.plans.render import Group, render


def transformed(
    transform: Transform, xml: bytes, *, deliver_empty: bool = False, patterns: bool = True
) -> bytes | None:
    """The new message; None where no binding survives, unless ``deliver_empty``. ``patterns`` False: all by libxml2."""
    return render(transform, groups(transform, Message(xml), patterns=patterns), deliver_empty=deliver_empty)


def groups(transform: Transform, message: Message, *, patterns: bool = True) -> list[Group]:
    """Return one group per binding that passes the where clause, in document order."""

    def found(path: Path, context: Node) -> list[Node]:
        if patterns and path.twig is not None:
            return select(path.twig, context)
        return _nodes(path.text, message, context)

    bound = found(transform.binding, message.document)
    where = transform.where
    if where is not None and patterns and where.predicate is not None:
        bound = [node for node in bound if holds(where.predicate, node)]
    elif where is not None:
        bound = [node for node in bound if _holds(where.text, message, node)]
    return [Group(node, {path: found(path, node) for path in transform.return_paths}) for node in bound]


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
    if context.parent.kind == "document":
        return bool(_compiled(f"boolean(/{step}[{text}])")(message.tree))
    return bool(_compiled(f"boolean({step}[{text}])")(context.parent.element))


@lru_cache(4096)
def _compiled(text: str) -> etree.XPath:
    xpath, prefixes = to_xpath(parse(text))
    return etree.XPath(xpath, namespaces=prefixes or None, smart_strings=True)


def passes(node: Node, step: Step, filters: Sequence[Predicate]) -> bool:
    """Whether a node that ``step`` found passes the filters on it; positions count among its siblings."""
    if not any(map(uses_position, filters)):
        return all(holds(one, node) for one in filters)
    assert node.parent is not None
    family = node.parent.attributes if node.kind == "attribute" else node.parent.children
    siblings = [one for one in family if one.passes(step.kind, step.ns, step.local)]
    return any(one is node for one in filtered(siblings, filters))
