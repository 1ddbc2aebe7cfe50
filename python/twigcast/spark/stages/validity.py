"""Messages as they are read, once: loaded, matched, dated, and refused if they are not valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.rows import ERROR, REFUSED, row_of_error
from twigcast.schema import Schema, read_schema
from twigcast.schema.gate import Gate
from twigcast.spark.sources.event_time import EventTime, with_columns, with_errors
from twigcast.spark.sources.messages import Load
from twigcast.spark.stages.outcome import Asked, Outcome, outcomes


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

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch, in which messages that an engine could read and that are not valid have an error."""
        if not self.schemas:
            return batch
        gate = Gate([schema_of(path) for path in self.schemas])
        errors, found = batch.column("error"), {}
        for row in pc.indices_nonzero(errors.is_null()).to_pylist():
            error = gate.error(batch.column("xml")[row].as_py(), self.limits)
            if error is not None:
                found[row] = row_of_error(error)
        return with_columns(batch, error=with_errors(errors, found))


ANYTHING = Validity()
_SIGNED = pa.struct([(field.name, kind) for field, kind in zip(ERROR, REFUSED.values(), strict=True)])


@dataclass(frozen=True, slots=True)
class Reading:
    """Loads messages, asks an engine about them, dates and checks them: in one reading of each."""

    load: Load
    time: EventTime
    validity: Validity = ANYTHING

    def __call__(self, batches: Iterable[pa.RecordBatch], asked: Asked) -> Iterator[tuple[pa.RecordBatch, Outcome]]:
        """Yield messages with what the engine says about them, in the same order and with their rows as ids.

        A message that is refused, for whatever reason, has the error in both, and no match or failure counts.
        """
        asked = replace(asked, text=self.time.path)
        for batch in self.load(batches):
            begun, arrival = self.time.begin(batch)
            columns = [pa.array(range(len(begun)), pa.int32()), begun.column("xml"), begun.column("error")]
            pair = pa.RecordBatch.from_arrays(columns, ["id", "xml", "error"])
            for outcome in outcomes([pair], asked):
                whole = len(outcome.ids) == len(begun)
                messages = begun if whole else begun.take(outcome.ids)
                came = arrival if whole else arrival.take(outcome.ids)
                messages = with_columns(messages, error=outcome.errors)
                messages = self.validity.of(self.time.finish(messages, outcome.texts, came))
                yield messages, outcome.of_rows(messages.column("error"))


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Load, date, check: rows of a source in, rows of ``MESSAGES_SQL`` of ``sources.messages`` out."""

    load: Load
    time: EventTime
    limits: Limits = field(default_factory=Limits)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.time.path is None:
            messages: Iterator[pa.RecordBatch] = (self.time.begin(batch)[0] for batch in self.load(batches))
        else:
            messages = (batch for batch, _ in Reading(self.load, self.time)(batches, Asked(_engine(self.limits))))
        for batch in messages:
            yield _signed(batch)


def _signed(batch: pa.RecordBatch) -> pa.RecordBatch:
    # Spark knows no unsigned numbers.
    return with_columns(batch, error=batch.column("error").cast(_SIGNED))


@lru_cache(maxsize=4)
def _engine(limits: Limits) -> Engine:
    """Return an engine without subscriptions, which reads messages for their times."""
    return Engine(limits=limits)


def schema_of(path: str) -> Schema:
    """Return the schema that the file holds now."""
    known = Path(path).stat()
    return _read(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=16)
def _read(path: str, changed: int, size: int) -> Schema:
    return read_schema(path)
