"""DTD -> element graph. A DTD knows no namespaces: what its ``xmlns`` attributes say by default is taken for true, and
validation then holds the message to it."""

from __future__ import annotations

from twigcast.errors import OptionError
from twigcast.lang.names import XML_NAMESPACE
from twigcast.schema.dtd import Dtd
from twigcast.schema.graph import Declaration, ElementGraph, mask_of


def graph_of(dtd: Dtd, roots: tuple[str, ...] = ()) -> ElementGraph:
    """``roots`` default to the elements that no other one contains, or else the first declared."""
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
    return ElementGraph(declarations, mask_of(number[one] for one in roots_of(dtd, roots)))


def roots_of(dtd: Dtd, roots: tuple[str, ...] = ()) -> tuple[str, ...]:
    for root in roots:
        if root not in dtd.elements:
            raise OptionError("unknown-root", f"the DTD declares no element {root!r}")
    if roots:
        return roots
    contained = {child for one in dtd.elements.values() for child in one.children if child != one.name}
    return tuple(name for name in dtd.elements if name not in contained) or (dtd.root,)


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
