"""Messages as they are read: loaded, with their event times, and refused if a publisher's schema is law for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.rows import ERROR, REFUSED, row_of_error
from twigcast.schema import Schema, read_schema
from twigcast.schema.gate import Gate
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import Load


@dataclass(frozen=True, slots=True)
class Validity:
    """``schemas`` are files, each a DTD or an XML Schema by its name, one of which a message must be valid by. With
    none, messages are taken as they come.

    The plans in use rely on no schema, so that a message which need not be valid needs no other treatment.
    """

    schemas: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raises OptionError if a schema cannot be used."""
        for path in self.schemas:
            try:
                schema_of(path).prepare()
            except OptionError as error:
                raise OptionError("bad-schema", f"{path}: {error.text}", hint=error.hint) from error

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, in which messages that are not valid, or that the kernel refuses, have an error."""
        if not self.schemas:
            yield from batches
            return
        gate = Gate([schema_of(path) for path in self.schemas])
        for batch in batches:
            errors = batch.column("error").to_pylist()
            for row, xml in enumerate(batch.column("xml")):
                if errors[row] is None and xml.is_valid:
                    found = gate.error(xml.as_py(), self.limits)
                    if found is not None:
                        errors[row] = row_of_error(found)
            place = batch.schema.get_field_index("error")
            yield batch.set_column(place, "error", pa.array(errors, ERROR))


ANYTHING = Validity()
_SIGNED = pa.struct([(field.name, kind) for field, kind in zip(ERROR, REFUSED.values(), strict=True)])


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Load, date, check: rows of a source in, rows of ``MESSAGES_SQL`` out."""

    load: Load
    time: EventTime
    validity: Validity = ANYTHING

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.validity(self.time(self.load(batches))):
            # Spark knows no unsigned numbers.
            yield batch.set_column(batch.schema.get_field_index("error"), "error", batch.column("error").cast(_SIGNED))


def schema_of(path: str) -> Schema:
    """Return the schema that the file holds now."""
    known = Path(path).stat()
    return _read(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=16)
def _read(path: str, changed: int, size: int) -> Schema:
    return read_schema(path)
