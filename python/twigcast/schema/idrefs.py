"""References from IDREF and IDREFS attributes to ID attributes, checked before libxml2 checks them.

libxml2 looks at references when a message ends and reports every one that has no target. lxml then writes down the path
of each element, which takes time proportional to the number of its siblings: one message could take hours. Here the
first reference without a target ends the check.

Imports: errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

from twigcast.errors import excerpt

_ID, _REFERENCES = "id", ("idref", "idrefs")


class References:
    """The ID, IDREF and IDREFS attributes that a DTD declares, by the name of their element."""

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
