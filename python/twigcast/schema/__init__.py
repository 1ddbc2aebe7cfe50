"""Schemas of publishers: DTD or XML Schema -> element graph, for satisfiability and validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from lxml import etree

from twigcast.errors import OptionError
from twigcast.ir.pattern import Twig
from twigcast.limits import Limits
from twigcast.schema import dtd as dtds
from twigcast.schema import from_xsd, libxml2
from twigcast.schema.dtd import Dtd, read_dtd
from twigcast.schema.graph import Declaration, ElementGraph
from twigcast.schema.locations import check_locations
from twigcast.schema.satisfiable import Impossible, impossible
from twigcast.schema.validate import Feeding, Invalid, Validator, located


class Schema:
    """One publisher's schema. Everything but validating only looks at the graph."""

    def __init__(self, graph: ElementGraph, check: Callable[[], tuple[Any, Feeding]]) -> None:
        self.graph = graph
        self._check = check

    @cached_property
    def _validator(self) -> Validator:
        return Validator(*self._check(), self.graph)

    def prepare(self) -> None:
        """Make ready for validating. Raises OptionError if libxml2 cannot use the schema."""
        _ = self._validator

    def validate(self, xml: bytes, limits: Limits | None = None) -> list[Invalid]:
        """Return what is wrong with a message; nothing if it is valid. Raises MessageError if it cannot be read."""
        limits = limits or Limits()
        return located(xml, list(self._validator.errors(libxml2.plain(xml, limits))), limits)

    def first_error(self, xml: bytes, plain: bytes, limits: Limits) -> Invalid | None:
        """Return the first error of a message, of which the plain form is known, or None if it is valid."""
        wrong = list(islice(self._validator.errors(plain), 1))
        return located(xml, wrong, limits)[0] if wrong else None

    def impossible(self, twig: Twig) -> Impossible | None:
        """Why a pattern can never match a valid message; None if it can."""
        return impossible(self.graph, twig)


def dtd_schema(source: str | Path | bytes, *, roots: tuple[str, ...] = ()) -> Schema:
    """Read a DTD: a file's path, or its text as bytes. External entities are looked up in the folder of the file, and
    below, never elsewhere; a text alone has none."""
    dtd = read_dtd(source)
    text = libxml2.Dtd(source) if isinstance(source, bytes) else libxml2.Dtd.of_file(Path(source))

    def check() -> tuple[Any, Feeding]:
        try:
            return text.load(), text.feeding
        except etree.XMLSyntaxError as error:
            raise OptionError(
                "dtd-malformed", f"{error}", hint="write the declarations without <!DOCTYPE ...>"
            ) from error

    return Schema(dtds.graph_of(dtd, roots), check)


def xsd_schema(source: str | Path | bytes, *, roots: tuple[str, ...] = ()) -> Schema:
    """Read an XML Schema: a file's path, or its text as bytes.

    Includes and imports are looked up in the folder of the file, and below, never elsewhere; a text alone has none.
    """
    import xmlschema  # only those who use XSD pay for it

    where = "XML Schema" if isinstance(source, bytes) else str(source)
    try:
        check_locations(source if isinstance(source, bytes) else Path(source))
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

    def check() -> tuple[Any, Feeding]:
        text = BytesIO(source) if isinstance(source, bytes) else str(source)
        try:
            made = etree.XMLSchema(etree.parse(text, libxml2.parser()))
            return made, lambda root: libxml2.parser(schema=made)
        except etree.LxmlError as error:
            raise OptionError("xsd-malformed", f"{where}: {error}") from error

    return Schema(from_xsd.graph_of(read, roots), check)


def read_schema(source: str | Path | bytes, kind: str | None = None) -> Schema:
    """Read a DTD or an XML Schema: a file's path, or its text as bytes.

    ``kind`` is ``"dtd"`` or ``"xsd"``; without it the name of the file decides, or else the content.
    """
    if kind is None:
        kind = _kind_of(source)
    return dtd_schema(source) if kind == "dtd" else xsd_schema(source)


def _kind_of(source: str | Path | bytes) -> str:
    data = source
    if not isinstance(data, bytes):
        try:
            data = Path(data).read_bytes()
        except OSError as error:
            raise OptionError("schema-unreadable", f"{source!s}: {error.strerror}") from error
        except ValueError:  # a NUL, or half a surrogate pair
            raise OptionError("schema-unreadable", f"{str(source)!r} is not the name of a file") from None
        suffix = Path(str(source)).suffix.lower()
        if suffix in (".dtd", ".mod", ".ent", ".xsd"):
            return "xsd" if suffix == ".xsd" else "dtd"
    return "dtd" if b"<!ELEMENT" in data else "xsd"


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


def schema_of(source: Schema | str | Path | None) -> Schema | None:
    """Return a schema, which may be given as the path of its file."""
    if isinstance(source, str | Path):
        return read_schema(source)
    if source is not None and not isinstance(source, Schema):
        text = f"a schema is a twigcast.schema.Schema or a file, not {type(source).__name__}"
        raise OptionError("bad-schema", text, hint="twigcast.schema has dtd_schema and xsd_schema")
    return source
