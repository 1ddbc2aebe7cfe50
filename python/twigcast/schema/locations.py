"""The files that an XML Schema is made of: itself, and what it includes, imports, redefines or overrides.

All of them must be in the folder of the schema, or below. They are checked here before a schema is read, because the
two packages that read it (xmlschema and libxml2) each look files up by rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lxml import etree

from twigcast.errors import OptionError
from twigcast.schema import libxml2

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_NAMING = tuple(_XSD + name for name in ("include", "import", "redefine", "override"))


def check_locations(source: Path | bytes) -> None:
    """Check that an XML Schema, a file or its text, names no other file than those in its folder or below.

    Raises
    ------
    OptionError
        ``xsd-elsewhere``, with the place that it names. A text alone has no folder, and must not name any file.
    """
    if isinstance(source, bytes):
        for location in _locations(source):
            raise OptionError(
                "xsd-elsewhere",
                f"the XML Schema names another one, {location!r}, and only its own text is here",
                hint="put all declarations into one schema, or use the schema as a file",
            )
        return
    folder = source.resolve().parent
    known = {source.resolve()}
    todo = [source.resolve()]
    while todo:
        path = todo.pop()
        for location in _locations(path.read_bytes()):
            target = _inside(folder, path, location)
            if target is None:
                raise OptionError(
                    "xsd-elsewhere",
                    f"{path} names {location!r}, which is not a file in the folder {folder} or below",
                    hint="put a copy into that folder and name it in schemaLocation; nothing is fetched from elsewhere",
                )
            if target not in known and target.is_file():
                known.add(target)
                todo.append(target)


def _locations(text: bytes) -> Iterator[str]:
    """Yield the values of ``schemaLocation``. A text that is not well-formed has none: its reader says so."""
    try:
        root = etree.fromstring(text, libxml2.parser())
    except (etree.XMLSyntaxError, ValueError):
        return
    for element in root.iterchildren(*_NAMING):
        location = element.get("schemaLocation")
        if location is not None:
            yield location.strip()


def _inside(folder: Path, base: Path, location: str) -> Path | None:
    """Return the file that a schema names, links resolved, or None if it is not in the folder or below."""
    parts = urlsplit(location)
    if parts.scheme or parts.netloc:
        return None
    # The two readers differ in whether they decode %2E, so that both forms have to be inside.
    paths = [(base.parent / text).resolve() for text in (parts.path, unquote(parts.path))]
    return paths[-1] if all(path.is_relative_to(folder) for path in paths) else None
