"""The reference meaning of patterns: evaluated naively, straight from the words of pattern.py, over an lxml tree."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from twigcast.ir.pattern import (
    And,
    Bool,
    Compare,
    Count,
    Exists,
    LinearPath,
    Match,
    Node,
    NodeIs,
    NormalizeSpace,
    Not,
    Or,
    Position,
    Predicate,
    StringLength,
    StringValue,
    Twig,
    Value,
)
from twigcast.lang.values import to_number

OPS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(eq=False)
class XNode:
    """A node of the XPath data model. ``key`` names it the way lxml's results can be named."""

    kind: str
    ns: str | None
    local: str | None
    text: str
    key: object
    order: int = 0
    children: list[XNode] = field(default_factory=list)
    attributes: list[XNode] = field(default_factory=list)

    def below(self) -> Iterator[XNode]:
        for child in self.children:
            yield child
            yield from child.below()

    @property
    def value(self) -> str:
        if self.kind in ("document", "element"):
            return "".join(node.text for node in self.below() if node.kind == "text")
        return self.text


def load(root: etree._Element) -> XNode:
    document = XNode("document", None, None, "", "document")
    before = list(root.itersiblings(preceding=True))[::-1]
    document.children = [_load(one) for one in (*before, root, *root.itersiblings())]
    order = 0
    for node in document.below():
        for one in (node, *node.attributes):
            order += 1
            one.order = order
    return document


def _load(element: etree._Element) -> XNode:
    if isinstance(element, etree._Comment):
        return XNode("comment", None, None, element.text or "", element)
    if isinstance(element, etree._ProcessingInstruction):
        return XNode("pi", None, element.target, element.text or "", element)
    name = etree.QName(element)
    node = XNode("element", name.namespace or "", name.localname, "", element)
    for full, value in element.attrib.items():
        attribute = etree.QName(full)
        key = (element, "attribute", full)
        node.attributes.append(XNode("attribute", attribute.namespace or "", attribute.localname, value, key))
    if element.text:
        node.children.append(XNode("text", None, None, element.text, (element, "text")))
    for child in element:
        node.children.append(_load(child))
        if child.tail:
            node.children.append(XNode("text", None, None, child.tail, (child, "tail")))
    return node


def lxml_keys(results: list[object]) -> set[object]:
    """The same keys for what lxml's xpath() returns."""
    found: set[object] = set()
    for one in results:
        if isinstance(one, str):
            kind = "attribute" if one.is_attribute else "text" if one.is_text else "tail"
            found.add((one.getparent(), kind, one.attrname) if one.is_attribute else (one.getparent(), kind))
        else:
            found.add(one)
    return found


def passes(node: XNode, kind: str, ns: str | None, local: str | None) -> bool:
    if kind == "node":
        return node.kind not in ("attribute", "document")
    return node.kind == kind and ns in (None, node.ns) and local in (None, node.local)


def select(twig: Twig | LinearPath, context: XNode) -> list[XNode]:
    """The nodes in document order."""
    found = {context}
    nodes = twig.nodes if isinstance(twig, Twig) else [Node(step) for step in twig.steps]
    for node in nodes:
        found = {one for start in found for one in _step(node, start)}
    return sorted(found, key=lambda one: one.order)


def _step(node: Node, start: XNode) -> Iterator[XNode]:
    step = node.step
    for parent in (start, *start.below()) if step.axis == "descendant" else (start,):
        left = [one for one in (*parent.attributes, *parent.children) if passes(one, step.kind, step.ns, step.local)]
        for predicate in node.filters:
            left = [one for at, one in enumerate(left, 1) if holds(predicate, one, at, len(left))]
        yield from left


def holds(predicate: Predicate, context: XNode, position: int = 1, last: int = 1) -> bool:
    match predicate:
        case Bool(value):
            return value
        case And(terms):
            return all(holds(term, context, position, last) for term in terms)
        case Or(terms):
            return any(holds(term, context, position, last) for term in terms)
        case Not(term):
            return not holds(term, context, position, last)
        case Exists(twig):
            return bool(select(twig, context))
        case NodeIs(kind, ns, local):
            return passes(context, kind, ns, local)
        case Compare(value, op, const):
            found = values(value, context)
            if isinstance(const.value, float):
                return any(OPS[op](to_number(one), const.value) for one in found)
            return any(OPS[op](one, const.value) for one in found)
        case Match("contains", value, const):
            return any(const.value in one for one in values(value, context))
        case Match("starts-with", value, const):
            return any(one.startswith(const.value) for one in values(value, context))
        case Position(of, op, n):
            number = {"position": position, "last": last, "from-end": last - position}[of]
            return bool(OPS[op](number, n))
    raise AssertionError(f"not part of a pattern: {predicate!r}")


def values(value: Value, context: XNode) -> list[str | float]:
    match value:
        case StringValue(twig, first):
            found = [node.value for node in select(twig, context)]
            return (found or [""])[:1] if first else found
        case NormalizeSpace(of):
            texts = [one.translate(str.maketrans("\t\r\n", "   ")).split(" ") for one in values(of, context)]
            return [" ".join(filter(None, words)) for words in texts]
        case StringLength(of):
            return [float(len(one)) for one in values(of, context)]
        case Count(twig):
            return [float(len(select(twig, context)))]
