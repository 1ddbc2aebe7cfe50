"""Validation by a DTD or XML Schema, with the place of each error in the message.

The root and the namespaces are checked as well: plans that rely on the schema rely on these too (SEMANTICS 17).

libxml2 reports every error of a tree, and lxml writes down for each of them the path of its element, which takes time
proportional to the number of its siblings. A message of a few megabytes in which every element or attribute is wrong
would take hours. So a message with many elements or attributes is fed to libxml2 in small parts, up to the first part
with an error. References by ID, which libxml2 checks at the end, are checked before (`References`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lxml import etree

from twigcast.errors import excerpt
from twigcast.limits import Limits
from twigcast.schema import libxml2
from twigcast.schema.graph import ElementGraph

LARGE = 1_000
"""Tags and attributes of a message beyond which it is validated in parts."""
PART = 512
"""Bytes of a part."""
_NO_TAGS = re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>", re.DOTALL)
_NAME = re.compile(rb"<([^\s/>]+)")

Wrong = tuple[int, str]
"""The number of an element, from 0 in document order, and what is wrong with it."""
Feeding = Callable[[bytes], etree.XMLParser]
"""Gives a parser that validates what is fed to it, for a document element of that name."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """What is wrong with a message, and the start tag of the element that it is wrong with."""

    line: int
    column: int
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.text}"


class Validator:
    """Validates by ``check``, which is libxml2's DTD or XMLSchema, or by ``feeding`` for large messages. Any thread may
    ask. Messages are in plain form (`libxml2.plain`)."""

    def __init__(self, check: Any, feeding: Feeding, graph: ElementGraph) -> None:
        self._check = check
        self._feeding = feeding
        self._lock = Lock()  # libxml2's validators keep a log
        self._references = References(check) if isinstance(check, etree.DTD) else None
        declared = graph.declarations
        self._names = {(d.ns, d.local) for d in declared}
        self._open = {d.local for d in declared if d.ns is None}
        self._roots = [declared[one] for one in graph.members(graph.roots)]

    def errors(self, plain: bytes) -> Iterator[Wrong]:
        """Yield what is wrong with a message; of a large one only the first error."""
        is_large = plain.count(b"<") + plain.count(b"=") > LARGE
        if is_large and not self._references:
            yield from self._of_large(plain)
            return
        tree = libxml2.parse(plain)
        dangling = self._references.first_error(tree) if self._references else None
        if dangling is not None:
            yield _number(tree, dangling[0]), dangling[1]
            return
        if is_large:
            del tree
            yield from self._of_large(plain)
            return
        found = list(self._root(tree))
        with self._lock:
            if not self._check.validate(tree):
                found += [(_element(tree, entry.path), excerpt(entry.message)) for entry in self._check.error_log]
        found = found or list(self._strange_names(tree))
        wanted = {element for element, _ in found}
        numbers = {one: n for n, one in enumerate(tree.getroot().iter(etree.Element)) if one in wanted}
        for element, text in found:
            yield numbers.get(element, 0), text

    def _root(self, tree: etree._ElementTree) -> Iterator[tuple[Any, str]]:
        """Yield an error if the schema does not allow the document element."""
        root = tree.getroot()
        name = etree.QName(root)
        if not any(one.passes(name.namespace or "", name.localname) for one in self._roots):
            known = ", ".join(sorted(map(str, self._roots)))
            yield root, f"the document element has to be {known}, not {excerpt(name.text)}"

    def _strange_names(self, tree: etree._ElementTree) -> Iterator[tuple[Any, str]]:
        """Yield the first element in a namespace that the schema does not know. A DTD sees prefixes, not namespaces:
        what it lets through may still not be what the graph means."""
        if None in self._open:
            return
        for element in tree.getroot().iter(etree.Element):
            name = etree.QName(element)
            if (name.namespace or "", name.localname) not in self._names and name.localname not in self._open:
                yield element, f"the schema has no element {excerpt(name.text)}: it is in another namespace"
                return

    def _of_large(self, plain: bytes) -> Iterator[Wrong]:
        """Yield the first error, at the last start tag that had been read when libxml2 reported it."""
        with self._lock:
            parser = self._fed(plain, 0)
            for start in range(0, len(plain), PART):
                parser.feed(plain[start : start + PART])
                if len(parser.feed_error_log):
                    yield self._closer(plain, start)
                    return
            try:
                tree = parser.close().getroottree()
            except etree.XMLSyntaxError as error:  # what only the end shows
                if not len(parser.feed_error_log):
                    raise libxml2.refused(error) from error
                yield 0, excerpt(parser.feed_error_log[0].message)
                return
        for element, text in (*self._root(tree), *self._strange_names(tree)):
            yield _number(tree, element), text
            return

    def _closer(self, plain: bytes, start: int) -> Wrong:
        """Return the first error, which is known to be in the part that begins at ``start``."""
        parser = self._fed(plain, start)
        end = start
        while not len(parser.feed_error_log) and end < start + PART:
            begin, end = end, plain.find(b">", end, start + PART) + 1 or start + PART
            parser.feed(plain[begin:end])
        tags = _NO_TAGS.sub(b"", plain[:end])
        number = tags.count(b"<") - tags.count(b"</") - 1
        return max(number, 0), excerpt(parser.feed_error_log[0].message)

    def _fed(self, plain: bytes, end: int) -> etree.XMLParser:
        """Return a parser that has got the beginning of a message."""
        root = _NAME.search(_NO_TAGS.sub(b"", plain[: plain.find(b">", _root_at(plain)) + 1]))
        parser = self._feeding(root[1] if root else b"none")
        if end:
            parser.feed(plain[:end])
        return parser


def _root_at(plain: bytes) -> int:
    """Return where the document element begins in a message in plain form."""
    at = 0
    while True:
        at = plain.index(b"<", at)
        if plain.startswith(b"<!--", at):
            at = plain.index(b"-->", at)
        elif plain.startswith(b"<?", at):
            at = plain.index(b"?>", at)
        else:
            return at


def located(xml: bytes, wrong: list[Wrong], limits: Limits) -> list[Invalid]:
    """Return errors with their places in the message."""
    places = libxml2.places(xml, [number for number, _ in wrong], limits)
    return [Invalid(*place, text) for place, (_, text) in zip(places, wrong, strict=True)]


def _number(tree: etree._ElementTree, element: Any) -> int:
    """Return the number of an element, from 0 in document order."""
    return next(n for n, one in enumerate(tree.getroot().iter(etree.Element)) if one is element)


def _element(tree: etree._ElementTree, path: str | None) -> Any:
    """Return the element that libxml2 names by its path, the root where it names none."""
    if path:
        with suppress(etree.XPathError, IndexError):
            found: Any = tree.xpath(path)[0]
            return found if isinstance(found, etree._Element) else found.getparent()
    return tree.getroot()


_ID, _REFERENCES = "id", ("idref", "idrefs")


class References:
    """References from IDREF and IDREFS attributes to ID attributes, checked before libxml2 checks them.

    libxml2 reports every reference without a target when a message ends, and writing down their paths could take hours
    (see above). Here the first one ends the check.
    """

    def __init__(self, dtd: Any) -> None:
        self._declared: dict[str, list[tuple[str | None, str, str]]] = {}
        for element in dtd.iterelements():
            found = [(a.prefix, a.name, a.type) for a in element.iterattributes() if a.type in (_ID, *_REFERENCES)]
            if found:
                self._declared[_qualified(element.prefix, element.name)] = found

    def __bool__(self) -> bool:
        """Return whether the DTD declares references."""
        return any(kind in _REFERENCES for found in self._declared.values() for _, _, kind in found)

    def first_error(self, tree: etree._ElementTree) -> tuple[Any, str] | None:
        """Return the first element with a reference that has no target, and what is wrong; None if there is none."""
        ids = {value.strip() for _, _, kind, value in self._attributes(tree) if kind == _ID}
        for element, name, kind, value in self._attributes(tree):
            if kind in _REFERENCES:
                unknown = next((one for one in value.split() if one not in ids), None)
                if unknown is not None:
                    return element, f'{kind.upper()} attribute {name} references an unknown ID "{excerpt(unknown)}"'
        return None

    def _attributes(self, tree: etree._ElementTree) -> Iterator[tuple[Any, str, str, str]]:
        """Yield element, name, type and value of each of these attributes that a message has."""
        for element in tree.getroot().iter(etree.Element):
            tag = element.tag
            declared = self._declared.get(_qualified(element.prefix, tag[tag.rfind("}") + 1 :]))
            for prefix, local, kind in declared or ():
                # a DTD knows prefixes, and lxml namespaces
                value = element.get(local if prefix is None else f"{{{element.nsmap.get(prefix)}}}{local}")
                if value is not None:
                    yield element, _qualified(prefix, local), kind, value


def _qualified(prefix: str | None, local: str) -> str:
    return f"{prefix}:{local}" if prefix else local
