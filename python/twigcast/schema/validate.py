"""Is a message what its publisher's schema says? With line and column, and the root and namespaces checked as well:
plans that rely on the schema rely on these too (SEMANTICS 17)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from lxml import etree

from twigcast.schema.graph import ElementGraph


@dataclass(frozen=True, slots=True)
class Invalid:
    """What is wrong and where; the column is that of the start tag, None where only the line is known."""

    line: int
    column: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.line}{'' if self.column is None else f':{self.column}'}: {self.text}"


class Validator:
    """``check`` is libxml2's DTD or XMLSchema; it keeps a log, so that a validator belongs to one thread."""

    def __init__(self, check: Any, graph: ElementGraph) -> None:
        self._check = check
        self._graph = graph
        declared = graph.declarations
        self._names = {(d.ns, d.local) for d in declared}
        self._open = {d.local for d in declared if d.ns is None}
        self._roots = [declared[one] for one in graph.members(graph.roots)]

    def validate(self, xml: bytes) -> list[Invalid]:
        """Empty if the message is valid. Raises etree.XMLSyntaxError for what is not well-formed."""
        parser = etree.XMLParser(resolve_entities=True, no_network=True, attribute_defaults=True, huge_tree=True)
        tree = etree.fromstring(xml, parser).getroottree()
        found: list[tuple[Any, int, str]] = []
        root = tree.getroot()
        name = etree.QName(root)
        if not any(one.passes(name.namespace or "", name.localname) for one in self._roots):
            known = ", ".join(sorted(map(str, self._roots)))
            found.append((root, root.sourceline, f"the document element has to be {known}, not {name.text}"))
        if not self._check.validate(tree):
            for entry in self._check.error_log:
                found.append((_element(tree, entry.path), entry.line, entry.message))
        if not found:
            found += self._strange_names(tree)
        if not found:
            return []
        place = _places(xml, tree)
        return [Invalid(*place(element, line), text) for element, line, text in found]

    def _strange_names(self, tree: Any) -> list[tuple[Any, int, str]]:
        """A DTD sees prefixes and not namespaces: what it lets through may still not be what the graph means."""
        if None in self._open:
            return []
        for element in tree.iter(etree.Element):
            name = etree.QName(element)
            if (name.namespace or "", name.localname) not in self._names and name.localname not in self._open:
                text = f"the schema has no element {name.text}: it is in another namespace"
                return [(element, element.sourceline, text)]
        return []


def _element(tree: Any, path: str | None) -> Any:
    if path:
        with suppress(etree.XPathError, IndexError):
            found = tree.xpath(path)[0]
            return found if isinstance(found, etree._Element) else None
    return None


def _places(xml: bytes, tree: Any) -> Callable[[Any, int], tuple[int, int | None]]:
    """Where start tags are: libxml2 keeps a line, and no column; expat has both."""
    starts: list[tuple[int, int]] = []
    parser = expat.ParserCreate()

    def start(name: str, attributes: object) -> None:
        starts.append((parser.CurrentLineNumber, parser.CurrentColumnNumber + 1))

    parser.StartElementHandler = start
    with suppress(expat.ExpatError, LookupError, ValueError):
        parser.Parse(xml, True)
    elements = list(tree.iter(etree.Element))
    known = dict(zip(elements, starts, strict=True)) if len(starts) == len(elements) else {}

    def place(element: Any, line: int) -> tuple[int, int | None]:
        found = known.get(element) if element is not None else None
        return found or (line, None)

    return place
