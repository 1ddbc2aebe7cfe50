"""A message as libxml2 sees it, for explanations: expressions evaluated at any node, and nodes with names and places.

A node is given as an expression that finds it and nothing else, ``(path)[3]``: lxml has no objects for attributes and
text nodes to evaluate at, and so positions and every axis mean what XPath says without our doing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from twigcast.errors import Span
from twigcast.lang import ast
from twigcast.lang.context import DOCUMENT
from twigcast.lang.printer import to_xpath
from twigcast.limits import Limits
from twigcast.schema import libxml2

_NOWHERE = Span(0, 0)
# Nodes that are no elements have to be found again for each evaluation.
_FOUND_ANEW = 30


@dataclass(frozen=True, slots=True)
class Found:
    """A node of the message. Line and column are those of the element it is or belongs to."""

    kind: str
    path: str
    line: int | None = None
    column: int | None = None
    ns: str = ""
    local: str = ""
    value: str = field(default="", repr=False)

    def __str__(self) -> str:
        place = "" if self.line is None else f" ({self.line}{'' if self.column is None else f':{self.column}'})"
        return self.path + place

    def as_dict(self) -> dict[str, object]:
        return {"path": self.path, "line": self.line, "column": self.column}


def nth(nodes: ast.Expr, n: int) -> ast.Expr:
    """The n-th of the nodes in document order."""
    return where(nodes, ast.Number(float(n), _NOWHERE))


def where(nodes: ast.Expr, *predicates: ast.Expr) -> ast.Expr:
    return ast.FilterPath(nodes, predicates, (), _NOWHERE)


def call(name: str, *arguments: ast.Expr) -> ast.Expr:
    return ast.Call(name, arguments, _NOWHERE)


class MessageTree:
    """One message. Raises MessageError if the kernel or libxml2 cannot read it."""

    def __init__(self, xml: bytes, limits: Limits) -> None:
        self._xml = xml
        self._limits = limits
        self._tree = libxml2.read(xml, limits)
        self._numbers: dict[etree._Element, int] | None = None

    def evaluate(self, expr: ast.Expr) -> object:
        xpath, prefixes = to_xpath(expr)
        return etree.XPath(xpath, namespaces=prefixes or None)(self._tree)

    def truth(self, expr: ast.Expr) -> bool:
        return bool(self.evaluate(call("boolean", expr)))

    def string(self, expr: ast.Expr) -> str:
        return str(self.evaluate(call("string", expr)))

    def count(self, nodes: ast.Expr) -> int:
        return int(self.evaluate(call("count", nodes)))  # type: ignore[call-overload,no-any-return]

    def first(self, nodes: ast.Expr, most: int = 1) -> list[Found]:
        """The first nodes in document order; the document, which lxml never returns, stands before all others."""
        head = []
        if self.truth(where(nodes, _IS_DOCUMENT)):
            head.append(Found("document", "/", value=self.string(DOCUMENT)))
        return (head + [self._found(one) for one in self._head(nodes, most)])[:most]

    def each(self, nodes: ast.Expr, most: int) -> list[ast.Expr]:
        """Expressions for the first nodes one by one, quick to evaluate where they are elements."""
        found = self._head(nodes, most)
        if len(found) < min(most, self.count(nodes)) or not all(type(one) is etree._Element for one in found):
            return [nth(nodes, n) for n in range(1, min(most, _FOUND_ANEW, self.count(nodes)) + 1)]
        return [_location(one) for one in found if isinstance(one, etree._Element)]

    def names(self, nodes: ast.Expr, most: int) -> list[tuple[str, str]]:
        """The distinct names (URI, local) of the first elements and attributes among the nodes, as they come."""
        found: dict[tuple[str, str], None] = {}
        for one in self._head(nodes, most):
            name = getattr(one, "attrname", None) or getattr(one, "tag", None)
            if isinstance(name, str):
                found[etree.QName(name).namespace or "", etree.QName(name).localname] = None
        return list(found)

    def _head(self, nodes: ast.Expr, most: int) -> list[object]:
        bound = ast.Number(float(most), _NOWHERE)
        found = self.evaluate(where(nodes, ast.Comparison("<=", call("position"), bound, _NOWHERE)))
        assert isinstance(found, list)
        return found

    def _found(self, node: object) -> Found:
        if isinstance(node, tuple):
            prefix, uri = node
            return Found("namespace", f"namespace::{prefix or ''}", value=str(uri))
        if isinstance(node, etree._Comment):
            return self._at("comment", node, "/comment()", value=node.text or "")
        if isinstance(node, etree._ProcessingInstruction):
            return self._at("pi", node, "/processing-instruction()", local=str(node.target), value=node.text or "")
        if isinstance(node, etree._Element):
            name = etree.QName(node)
            value = str(node.xpath("string()"))
            line, column = self._place(node)
            return Found("element", _path(node), line, column, name.namespace or "", name.localname, value)
        assert isinstance(node, etree._ElementUnicodeResult)
        owner = node.getparent()
        if owner is None:
            # libxml2's preceding axis strays into the entities of the DOCTYPE
            return Found("text", "text() of an entity", value=str(node))
        if node.is_attribute:
            line, column = self._place(owner)
            name = etree.QName(node.attrname)
            text = _prefixed(owner, name.namespace, name.localname)
            path = f"{_path(owner)}/@{text}"
            return Found("attribute", path, line, column, name.namespace or "", name.localname, str(node))
        parent: Any = owner if node.is_text else owner.getparent()
        return Found("text", f"{_path(parent)}/text()", *self._place(parent), value=str(node))

    def _at(self, kind: str, node: etree._Element, step: str, local: str = "", value: str = "") -> Found:
        parent = node.getparent()
        if parent is None:
            return Found(kind, step, local=local, value=value)
        return Found(kind, _path(parent) + step, *self._place(parent), local=local, value=value)

    def _place(self, element: etree._Element) -> tuple[int, int]:
        """Return line and column of a start tag in the message."""
        if self._numbers is None:
            self._numbers = {one: number for number, one in enumerate(self._tree.getroot().iter(etree.Element))}
        line, column, _ = libxml2.places(self._xml, [self._numbers[element]], self._limits)[0]
        return line, column


_PARENT = ast.AxisStep("parent", ast.KindTest("node", None, _NOWHERE), (), _NOWHERE)
_IS_DOCUMENT = call("not", ast.LocationPath(False, (_PARENT,), _NOWHERE))


def _location(element: etree._Element) -> ast.Expr:
    """The way to an element by position alone."""
    steps: list[ast.AxisStep] = []
    node: etree._Element | None = element
    while node is not None:
        before = sum(1 for _ in node.itersiblings(etree.Element, preceding=True))
        any_name = ast.NameTest(None, None, _NOWHERE)
        steps.append(ast.AxisStep("child", any_name, (ast.Number(before + 1.0, _NOWHERE),), _NOWHERE))
        node = node.getparent()
    return ast.LocationPath(True, tuple(reversed(steps)), _NOWHERE)


def _path(element: etree._Element) -> str:
    """The way from the root, names as the message writes them; numbered where there are several of a name."""
    parts: list[str] = []
    node: etree._Element | None = element
    while node is not None:
        name = etree.QName(node)
        text = f"/{node.prefix}:{name.localname}" if node.prefix else f"/{name.localname}"
        before = sum(1 for _ in node.itersiblings(node.tag, preceding=True)) if node.getparent() is not None else 0
        alone = before == 0 and next(iter(node.itersiblings(node.tag)), None) is None
        parts.append(text if alone else f"{text}[{before + 1}]")
        node = node.getparent()
    return "".join(reversed(parts))


def _prefixed(element: etree._Element, ns: str | None, local: str) -> str:
    for prefix, uri in element.nsmap.items():
        if uri == ns and prefix:
            return f"{prefix}:{local}"
    return f"{{{ns}}}{local}" if ns and not ns.endswith("/XML/1998/namespace") else f"xml:{local}" if ns else local
