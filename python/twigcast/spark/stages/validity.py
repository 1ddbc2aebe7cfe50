"""Messages of a publisher whose schema is law: those that are not valid are refused before they are matched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from lxml import etree

from twigcast import _kernel
from twigcast.errors import OptionError
from twigcast.schema import Schema, dtd_schema, xsd_schema
from twigcast.spark.stages.outcome import ERROR


@dataclass(frozen=True, slots=True)
class Validity:
    """``schemas`` are files, a DTD or an XML Schema by their names, one of which a message must be valid by; none where
    messages are taken as they come.

    The plans in use rely on no schema, so that a message which need not be valid needs no other treatment.
    """

    schemas: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises an OptionError if a schema cannot be read."""
        for path in self.schemas:
            try:
                schema_of(path).validate(b"<x/>")
            except etree.LxmlError as error:
                raise OptionError("bad-schema", f"{path}: {error}") from error

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self.schemas:
            yield from batches
            return
        schemas = [schema_of(path) for path in self.schemas]
        for batch in batches:
            errors = batch.column("error").to_pylist()
            for row, (xml, error) in enumerate(zip(batch.column("xml").to_pylist(), errors, strict=True)):
                if error is None and xml is not None:
                    errors[row] = _wrong(schemas, xml)
            place = batch.schema.get_field_index("error")
            yield batch.set_column(place, "error", pa.array(errors, ERROR))


ANYTHING = Validity()


def _wrong(schemas: list[Schema], xml: bytes) -> dict[str, object] | None:
    try:
        # With a DTD of its own a message could have libxml2 open files: ours has put in place all that it may say.
        plain = _kernel.plain(xml) if _has_dtd(xml) else xml
        found = [schema.validate(plain) for schema in schemas]
    except (etree.XMLSyntaxError, ValueError):
        return None  # not well-formed: the engine says why, and better
    if not all(found):
        return None
    first = found[0][0]
    return {"code": "invalid", "line": first.line, "column": first.column, "offset": None, "text": first.text}


def _has_dtd(xml: bytes) -> bool:
    return b"<!DOCTYPE" in xml or b"\0" in xml[:4] or xml[:2] in (b"\xfe\xff", b"\xff\xfe")


def schema_of(path: str) -> Schema:
    """The schema as the file has it now."""
    known = Path(path).stat()
    return _read(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=16)
def _read(path: str, changed: int, size: int) -> Schema:
    return dtd_schema(path) if path.lower().endswith(".dtd") else xsd_schema(path)
