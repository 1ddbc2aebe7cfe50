"""Schemas of publishers: DTD or XML Schema -> element graph, for satisfiability, rewriting, claims and validation."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from lxml import etree

from twigcast.errors import OptionError
from twigcast.pattern import Twig
from twigcast.schema import from_dtd, from_xsd
from twigcast.schema.dtd import Dtd, read_dtd
from twigcast.schema.graph import Declaration, ElementGraph
from twigcast.schema.rewrite import without_descendants
from twigcast.schema.satisfiable import Impossible, impossible
from twigcast.schema.validate import Invalid, Validator


class Schema:
    """One publisher's schema. Everything but ``validate`` only looks at the graph."""

    def __init__(self, graph: ElementGraph, check: Any = None) -> None:
        self.graph = graph
        self._check = check
        self._validator: Validator | None = None

    def validate(self, xml: bytes) -> list[Invalid]:
        """What is wrong with a message; empty if it is valid."""
        if self._validator is None:
            self._validator = Validator(self._check(), self.graph)
        return self._validator.validate(xml)

    def impossible(self, twig: Twig) -> Impossible | None:
        """Why a pattern can never match a valid message; None if it can."""
        return impossible(self.graph, twig)

    def rewritten(self, twig: Twig) -> Twig:
        """The same pattern with superfluous ``//`` written out (broker §5.1)."""
        return without_descendants(self.graph, twig)


def dtd_schema(source: str | Path | bytes, *, roots: tuple[str, ...] = ()) -> Schema:
    """A DTD: a file's path, or its text as bytes."""
    dtd = read_dtd(source)
    data = source if isinstance(source, bytes) else Path(source).read_bytes()

    def check() -> Any:
        try:
            return etree.DTD(BytesIO(data))
        except etree.DTDParseError as error:
            raise OptionError(
                "dtd-malformed", f"{error}", hint="write the declarations without <!DOCTYPE ...>"
            ) from error

    return Schema(from_dtd.graph_of(dtd, roots), check)


def xsd_schema(source: str | Path | bytes, *, roots: tuple[str, ...] = ()) -> Schema:
    """An XML Schema: a file's path, or its text as bytes. Includes and imports are looked up beside the file, never on
    the network; a text alone has none."""
    import xmlschema  # only those who use XSD pay for it

    where = "XML Schema" if isinstance(source, bytes) else str(source)
    try:
        if isinstance(source, bytes):
            read = xmlschema.XMLSchema(source, allow="none", use_fallback=False)
        else:
            read = xmlschema.XMLSchema(str(Path(source).resolve()), allow="local", use_fallback=False)
    except OSError as error:
        raise OptionError("xsd-unreadable", f"{where}: {error}") from error
    except (xmlschema.XMLSchemaException, xmlschema.XMLResourceError, etree.XMLSyntaxError, SyntaxError) as error:
        # the rest of it shows the schema itself
        said = str(error).strip().partition("\n")[0].rstrip(":")
        raise OptionError("xsd-malformed", f"{where}: {said}") from error

    def check() -> Any:
        parser = etree.XMLParser(no_network=True)
        text = BytesIO(source) if isinstance(source, bytes) else str(source)
        return etree.XMLSchema(etree.parse(text, parser))

    return Schema(from_xsd.graph_of(read, roots), check)


def read_schema(path: str | Path) -> Schema:
    """A DTD or an XML Schema, by the file's name or, where that does not tell, by what it holds."""
    name = str(path).lower()
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise OptionError("schema-unreadable", f"{path}: {error.strerror}") from error
    is_dtd = name.endswith((".dtd", ".mod", ".ent")) or (not name.endswith(".xsd") and b"<!ELEMENT" in data)
    return dtd_schema(path) if is_dtd else xsd_schema(path)


__all__ = [
    "Declaration",
    "Dtd",
    "ElementGraph",
    "Impossible",
    "Invalid",
    "Schema",
    "Validator",
    "dtd_schema",
    "read_dtd",
    "read_schema",
    "xsd_schema",
]
