"""A chunker as plain as can be, on a tree: the reference for the kernel's, and what the property tests of the scheme
run on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from random import Random
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from lxml_nodes import Tree
from twigcast.chunk.filter import Merge
from twigcast.chunk.scheme import Fragment, Keep, Name, Path, Scheme
from twigcast.engine.results import Selected
from twigcast.ir.pattern import Step
from twigcast.limits import Limits
from twigcast.papers.chunk_lxml import ENGINES
from twigcast.schema.libxml2 import read

XML = "http://www.w3.org/XML/1998/namespace"


def fragments(scheme: Scheme, xml: bytes, batch: int | None = None) -> Iterator[Fragment]:
    """``batch``: so many elements at the prefix of a batchable chunk in each of its fragments."""
    tree = Tree(read(xml, Limits()))
    paths: dict[etree._Element, Path] = {}
    for one in tree.tree.getroot().iter(etree.Element):
        paths[one] = (*paths.get(one.getparent(), ()), name_of(one))
    for chunk in scheme.fragments:
        if chunk.whole:
            yield Fragment(chunk.number, xml)
        elif chunk.batchable and batch:
            roots = [element for element, path in paths.items() if path == chunk.prefix]
            for at in range(0, len(roots), batch):
                yield _Cutter(tree, chunk.number, roots[at : at + batch], []).fragment()
        else:
            kept = {keep: [one for one, path in paths.items() if found(keep.steps, path)] for keep in chunk.keeps}
            full = [one for keep, some in kept.items() if keep.subtree for one in some]
            bare = [one for keep, some in kept.items() if not keep.subtree for one in some]
            yield _Cutter(tree, chunk.number, full, bare).fragment()


_TOKEN = re.compile(r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|<[^>]*>|[^<]+", re.DOTALL)


def pieces(units: list[Keep], xml: bytes, random: Random) -> Iterator[bytes]:
    """The document (one of ``chunk_random``) cut anywhere between tags but inside the elements that ``units`` find."""
    tags: list[str] = []
    path: list[Name] = []
    whole = 0
    made: list[str] = []
    for token in _TOKEN.findall(xml.decode()):
        is_tag = token[0] == "<" and token[1] not in "!?"
        if is_tag and token[1] != "/" and path and not whole and random.random() < 0.5:
            yield "".join([*made, *ends(tags)]).encode()
            made = [*tags]
        made.append(token)
        if not is_tag:
            continue
        if token[1] == "/":
            tags.pop()
            path.pop()
            whole = max(0, whole - 1)
            if path and not whole and random.random() < 0.5:
                yield "".join([*made, *ends(tags)]).encode()
                made = [*tags]
            continue
        prefix, _, local = name_in(token).rpartition(":")
        tags.append(token)
        path.append(("urn:n" if prefix else "", local))
        if whole or any(found(unit.steps, tuple(path)) for unit in units):
            whole += 1
    yield "".join(made).encode()


def name_in(tag: str) -> str:
    return re.split(r"[\s>]", tag[1:], maxsplit=1)[0]


def ends(tags: list[str]) -> list[str]:
    return [f"</{name_in(tag)}>" for tag in reversed(tags)]


def match(scheme: Scheme, xml: bytes, *, engine: str = "twigcast", batch: int | None = None) -> list[Selected]:
    return merged(scheme, fragments(scheme, xml, batch), engine)


def merged(scheme: Scheme, made: Iterable[Fragment], engine: str = "twigcast") -> list[Selected]:
    filtering, merge = ENGINES[engine](scheme), Merge(scheme)
    for fragment in made:
        merge.add(one for one in filtering.evaluate(fragment) if one.refused is None)
    return merge.answers()


def allowed(scheme: Scheme, xml: bytes) -> bool:
    return all(scheme.allows(path_of(one)) for one in read(xml, Limits()).getroot().iter(etree.Element))


def name_of(element: etree._Element) -> Name:
    name = etree.QName(element)
    return name.namespace or "", name.localname


def path_of(element: etree._Element) -> Path:
    return (*(name_of(one) for one in reversed(list(element.iterancestors()))), name_of(element))


@lru_cache(100_000)
def found(steps: tuple[Step, ...], path: Path) -> bool:
    """Whether a path of steps from the document leads to the element at this path of names."""
    reached = {0}
    for name in path:
        after = {i for i in reached if i < len(steps) and steps[i].axis == "descendant"}
        after |= {i + 1 for i in reached if i < len(steps) and _passes(steps[i], name)}
        reached = after
    return len(steps) in reached


def _passes(step: Step, name: Name) -> bool:
    return step.ns in (None, name[0]) and step.local in (None, name[1])


class _Cutter:
    """Writes the elements in ``full`` with all that is in them, those in ``bare`` as tags, and the tags above both."""

    def __init__(self, tree: Tree, number: int, full: list[etree._Element], bare: list[etree._Element]) -> None:
        self.tree = tree
        self.number = number
        self.full = {inner for one in full for inner in one.iter(etree.Element)}
        self.bare = self.full.union(bare, *(one.iterancestors() for one in [*full, *bare]))
        self.out: list[str] = []
        self.ids: list[int] = [0]

    def fragment(self) -> Fragment:
        root = self.tree.tree.getroot()
        self.bare.add(root)
        self.write(root)
        runs = [(here, there) for here, there in enumerate(self.ids) if here == 0 or there != self.ids[here - 1] + 1]
        return Fragment(self.number, "".join(self.out).encode(), tuple(runs))

    def write(self, element: etree._Element) -> None:
        parent = element.getparent()
        outer = {} if parent is None else parent.nsmap
        prefix = f"{element.prefix}:" if element.prefix else ""
        name = prefix + etree.QName(element).localname
        self.out.append(f"<{name}")
        for short, uri in element.nsmap.items():
            if outer.get(short) != uri:
                self.out.append(f" xmlns{':' + short if short else ''}={quoteattr(uri)}")
        if None in outer and None not in element.nsmap:
            self.out.append(' xmlns=""')
        self.ids.append(self.tree.numbers[element])
        for key, value in element.attrib.items():
            self.out.append(f" {self.attribute(element, key)}={quoteattr(value, _CONTROLS)}")
            self.ids.append(self.tree.numbers[element, key])
        self.out.append(">")
        full = element in self.full
        if full and element.text:
            self.text(element, True, element.text)
        for child in element:
            if isinstance(child.tag, str):
                if child in self.bare:
                    self.write(child)
            elif full:
                self.out.append(etree.tostring(child, with_tail=False, encoding="unicode"))
                self.ids.append(self.tree.numbers[child])
            if full and child.tail:
                self.text(child, False, child.tail)
        self.out.append(f"</{name}>")

    def text(self, node: etree._Element, before: bool, text: str) -> None:
        self.out.append(escape(text, {"\r": "&#13;"}))
        self.ids.append(self.tree.numbers[node, before])

    def attribute(self, element: etree._Element, key: str) -> str:
        name = etree.QName(key)
        if not name.namespace:
            return name.localname
        if name.namespace == XML:
            return f"xml:{name.localname}"
        prefix = next(p for p, uri in element.nsmap.items() if p and uri == name.namespace)
        return f"{prefix}:{name.localname}"


_CONTROLS = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
