"""A DTD: elements with content models and attributes, and the graph of who contains whom."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from lxml import etree

from twigcast.errors import OptionError
from twigcast.lang.names import XML_NAMESPACE
from twigcast.schema import libxml2
from twigcast.schema.graph import Declaration, ElementGraph, mask_of

Occurrence = Literal["once", "opt", "mult", "plus"]

# Each part ends where it first can: with plain .*? a file of many comments would take exponential time.
_OPENS_WITH_DOCTYPE = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<\?(?:(?!\?>).)*\?>|<!--(?:(?!-->).)*-->)*<!DOCTYPE\b", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Particle:
    """One node of a content model: a name, ``#PCDATA``, a sequence or a choice, with its occurrence."""

    kind: Literal["name", "text", "seq", "choice"]
    occurs: Occurrence
    name: str = ""
    parts: tuple[Particle, ...] = ()

    def names(self) -> Iterator[str]:
        if self.kind == "name":
            yield self.name
        for part in self.parts:
            yield from part.names()


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    type: str
    default: Literal["none", "required", "implied", "fixed"]
    default_value: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    content: Particle | None
    attributes: tuple[Attribute, ...]
    children: tuple[str, ...]
    has_text: bool


class Dtd:
    """Elements by name, in the order declared."""

    def __init__(self, elements: dict[str, Element]) -> None:
        self.elements = elements

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The elements that no other one contains; in a fully recursive DTD the first one declared."""
        contained = {child for e in self.elements.values() for child in e.children if child != e.name}
        return tuple(name for name in self.elements if name not in contained) or tuple(self.elements)[:1]

    @property
    def root(self) -> str:
        """The first of the roots."""
        return self.roots[0]

    def check_root(self, root: str | None) -> str:
        if root is None:
            return self.root
        if root not in self.elements:
            raise OptionError(
                "unknown-root",
                f"the DTD declares no element {root!r}",
                hint=f"it declares {', '.join(list(self.elements)[:8])}{', …' if len(self.elements) > 8 else ''}",
            )
        return root

    @cached_property
    def heights(self) -> dict[str, float]:
        """The least number of levels a valid element of each name needs; infinite where it requires itself."""
        heights = dict.fromkeys(self.elements, math.inf)
        changed = True
        while changed:
            changed = False
            for name, element in self.elements.items():
                height = 1 + (need(element.content, heights) if element.content else 0)
                if height < heights[name]:
                    heights[name] = height
                    changed = True
        return heights


def need(particle: Particle, heights: dict[str, float]) -> float:
    """Return the least number of levels below its parent that ``particle`` asks for."""
    if particle.occurs in ("opt", "mult") or particle.kind == "text":
        return 0
    return need_once(particle, heights)


def need_once(particle: Particle, heights: dict[str, float]) -> float:
    """As `need`, when the particle does occur."""
    if particle.kind == "text":
        return 0
    if particle.kind == "name":
        return heights.get(particle.name, 1)
    needs = [need(part, heights) for part in particle.parts]
    return max(needs) if particle.kind == "seq" else min(needs)


def read_dtd(source: str | Path | bytes) -> Dtd:
    """Read a DTD: a file's path, or its text as bytes. ``<!DOCTYPE name [...]>`` around it is accepted."""
    try:
        text = libxml2.Dtd(source) if isinstance(source, bytes) else libxml2.Dtd.of_file(Path(source))
    except OSError as error:
        raise OptionError("dtd-unreadable", f"{source!s}: {error.strerror}") from error
    where = "DTD" if isinstance(source, bytes) else str(source)
    try:
        declared: Any = _wrapped(text.text) if _OPENS_WITH_DOCTYPE.match(text.text) else text.load()
    except etree.XMLSyntaxError as error:
        raise OptionError("dtd-malformed", f"{where}: {error}") from error
    found = list(declared.iterelements()) if declared is not None else []
    found = [declaration for declaration in found if declaration.type != "undefined"]  # an ATTLIST without its ELEMENT
    # lxml does not show the prefix of a name inside a content model: find it by the local part.
    names = {d.name: _qname(d) for d in reversed(found)} | {d.name: d.name for d in found if not d.prefix}
    elements = {_qname(declaration): _element(declaration, names) for declaration in found}
    if not elements:
        raise OptionError("dtd-empty", f"{where}: declares no element")
    return Dtd({name: _with_any(element, elements) for name, element in elements.items()})


def _wrapped(data: bytes) -> Any:
    """Return the internal subset of a document, or of a bare DOCTYPE declaration (as in the XQuery use cases)."""
    after = data[data.rfind(b"]>") + 2 :].strip()
    tree = etree.parse(BytesIO(data.strip() + (b"" if after else b"<x/>")), libxml2.parser())
    return tree.docinfo.internalDTD


def _qname(node: Any) -> str:
    return f"{node.prefix}:{node.name}" if node.prefix else str(node.name)


def _element(declaration: Any, names: dict[str, str]) -> Element:
    content = _particle(declaration.content, names) if declaration.content is not None else None
    has_text = declaration.type in ("mixed", "any")
    if declaration.type == "any":  # completed by _with_any, once every name is known
        content = Particle("choice", "mult")
    # Sorted: libxml2's own order of attributes is not the order declared and has changed between versions.
    attributes = sorted((_attribute(a) for a in declaration.iterattributes()), key=lambda a: a.name)
    children = tuple(dict.fromkeys(content.names())) if content else ()
    return Element(_qname(declaration), content, tuple(attributes), children, has_text)


def _with_any(element: Element, elements: dict[str, Element]) -> Element:
    if element.content is None or element.content.kind != "choice" or element.content.parts:
        return element
    names = tuple(Particle("name", "once", name) for name in elements)
    content = Particle("choice", "mult", parts=(Particle("text", "once"), *names))
    return Element(element.name, content, element.attributes, tuple(elements), True)


def _attribute(declaration: Any) -> Attribute:
    return Attribute(
        _qname(declaration),
        declaration.type,
        declaration.default,
        # libxml2 hands out a default with its ampersands still written as &#38;
        declaration.default_value and declaration.default_value.replace("&#38;", "&"),
        tuple(declaration.itervalues()),
    )


def _particle(content: Any, names: dict[str, str]) -> Particle:
    if content.type == "pcdata":
        return Particle("text", content.occur)
    if content.type == "element":
        return Particle("name", content.occur, names.get(content.name, content.name))
    # libxml2 keeps (a, b, c) as a binary tree leaning right: walk down the spine rather than recurse along it.
    parts = []
    node = content
    while True:
        parts.append(_particle(node.left, names))
        right = node.right
        if right.type != content.type or right.occur != "once":
            parts.append(_particle(right, names))
            break
        node = right
    return Particle("seq" if content.type == "seq" else "choice", content.occur, parts=tuple(parts))


def graph_of(dtd: Dtd, roots: tuple[str, ...] = ()) -> ElementGraph:
    """Return the element graph of a DTD. ``roots`` default to the DTD's own.

    A DTD knows no namespaces: what its ``xmlns`` attributes say by default is taken for true, and validation then holds
    the message to it.
    """
    spaces = _namespaces(dtd)
    number = {name: at for at, name in enumerate(dtd.elements)}
    declarations = []
    for name, element in dtd.elements.items():
        ns, local = _expanded(name, spaces)
        attributes = {
            ("" if ":" not in one.name else _expanded(one.name, spaces)[0] or "", one.name.rpartition(":")[2])
            for one in element.attributes
            if one.name != "xmlns" and not one.name.startswith("xmlns:")
        }
        unknown = any(":" in one.name and _expanded(one.name, spaces)[0] is None for one in element.attributes)
        children = mask_of(number[child] for child in element.children if child in number)
        # White space between children is text too (SEMANTICS 10); only EMPTY has none.
        has_text = element.content is not None or element.has_text
        declarations.append(Declaration(ns, local, children, attributes, has_text, unknown))
    return ElementGraph(declarations, mask_of(number[dtd.check_root(one)] for one in roots or dtd.roots))


def _namespaces(dtd: Dtd) -> dict[str, str | None]:
    """Prefix -> namespace, None where the DTD leaves it open."""
    found: dict[str, str | None] = {"xml": XML_NAMESPACE}
    for element in dtd.elements.values():
        for one in element.attributes:
            if one.name == "xmlns" or one.name.startswith("xmlns:"):
                prefix = one.name[6:]
                value = one.default_value
                found[prefix] = value if found.get(prefix, value) == value else None
    return found


def _expanded(name: str, spaces: dict[str, str | None]) -> tuple[str | None, str]:
    prefix, colon, local = name.rpartition(":")
    return (spaces.get(prefix) if colon else spaces.get("", "")), local
