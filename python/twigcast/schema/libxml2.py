"""Messages as libxml2 sees them. This is the only place where a message goes to a parser outside of the kernel.

The kernel reads a message first, under the limits, and writes it down in plain form: UTF-8, entities replaced, default
attributes in place, no DTD but the declarations of ID attributes. libxml2 gets that form and never the message itself,
so it has no encoding to guess and nothing to look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lxml import etree

from twigcast import _kernel
from twigcast.errors import MessageError, excerpt
from twigcast.limits import Limits

REFUSED = "libxml2-refused"
"""The code of the error where the kernel can read a message and libxml2 cannot."""


def parser(**options: Any) -> etree.XMLParser:
    """Return a parser that opens nothing, on the network or elsewhere, and replaces no entity."""
    return etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True, **options)


class Dtd:
    """The text of a DTD, and the folder that its external entities may be in. Without a folder it has none."""

    def __init__(self, text: bytes, folder: Path | None = None) -> None:
        self.text = text
        self.folder = None if folder is None else folder.resolve()

    @classmethod
    def of_file(cls, path: Path) -> Dtd:
        return cls(path.read_bytes(), path.parent)

    def load(self) -> etree.DTD:
        """Return libxml2's form of the DTD. Raises etree.XMLSyntaxError if it is malformed."""
        document = b'<!DOCTYPE x SYSTEM "%b"><x/>' % _Loader.NAME
        return etree.fromstring(document, self._parser()).getroottree().docinfo.externalDTD

    def feeding(self, root: bytes) -> etree.XMLParser:
        """Return a parser that validates what is fed to it: a message in plain form with that document element."""
        made = self._parser(dtd_validation=True, attribute_defaults=True)
        made.feed(b'<!DOCTYPE %b SYSTEM "%b">' % (root, _Loader.NAME))
        return made

    def _parser(self, **options: Any) -> etree.XMLParser:
        # The loader answers for every address, so nothing reaches the network; without it libxml2 would fail instead.
        made = etree.XMLParser(load_dtd=True, resolve_entities=False, no_network=False, huge_tree=True, **options)
        made.resolvers.add(_Loader(self))
        return made


class _Loader(etree.Resolver):  # type: ignore[misc]
    """Gives a parser the text of a DTD, and the files in its folder; everything else is empty."""

    NAME = b"this-schema"

    def __init__(self, dtd: Dtd) -> None:
        self._dtd = dtd

    def resolve(self, url: str, public: str, context: Any) -> Any:
        if url == self.NAME.decode():
            return self.resolve_string(self._dtd.text, context, base_url=url)
        folder = self._dtd.folder
        if folder is not None and ":" not in url:
            path = (folder / url).resolve()
            if path.is_relative_to(folder) and path.is_file():
                return self.resolve_string(path.read_bytes(), context, base_url=url)
        # Not resolve_empty(), after which libxml2 looks for the file itself.
        return self.resolve_string(b" ", context, base_url=url)


def read(xml: bytes | str, limits: Limits) -> etree._ElementTree:
    """Return a message as a tree. Raises MessageError if the kernel or libxml2 cannot read it."""
    return parse(plain(xml, limits, ids=True))


def plain(xml: bytes | str, limits: Limits, *, ids: bool = False) -> bytes:
    """Return a message in plain form, with declarations of ID attributes if ``ids``. Raises MessageError if the kernel
    cannot read it."""
    data = xml.encode() if isinstance(xml, str) else xml
    made, error = _kernel.plain(data, limits.as_dict(), ids=ids)
    if error is not None:
        raise MessageError.of_kernel(error)
    return made


def parse(plain: bytes) -> etree._ElementTree:
    """Return a message in plain form as a tree. Raises MessageError if libxml2 cannot read it."""
    tree = _parsed(plain)
    # id() goes on to work without the declarations. libxml2 2.14 would count their text as text of the document.
    tree.docinfo.clear()
    if tree.getroot().getnext() is not None:
        # Without a DOCTYPE libxml2 leaves a root that comes first out of what precedes a comment behind it.
        tree.docinfo.system_url = "none"
        tree.docinfo.system_url = None
    return tree


def _parsed(plain: bytes) -> etree._ElementTree:
    # libxml2 has rules that XML has not, such as that the name of a namespace is a URI: only what is fatal counts.
    lenient = parser(recover=True)
    root = etree.fromstring(plain, lenient)
    if root is None or lenient.error_log.filter_from_fatals():
        try:
            root = etree.fromstring(plain, parser())
        except etree.XMLSyntaxError as error:
            raise refused(error) from error
    return root.getroottree()


def refused(error: etree.XMLSyntaxError) -> MessageError:
    """Return the error for a message that libxml2 cannot read."""
    return MessageError(REFUSED, f"libxml2 cannot read it: {excerpt(str(error))}", line=1, column=1, offset=0)


def places(xml: bytes, elements: Sequence[int], limits: Limits) -> list[tuple[int, int, int]]:
    """Return line, column and offset in the message for each of these elements, numbered from 0 in document order."""
    found, error = _kernel.places(xml, elements, limits.as_dict())
    if error is not None:
        return [(1, 1, 0)] * len(elements)
    return [place or (1, 1, 0) for place in found]
