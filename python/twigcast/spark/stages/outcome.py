"""What the engine said about some messages, in Arrow; and the guarded way of asking it.

This is the part of the match stage that knows nothing of DataFrames, so that a pipeline can put a source before it and
a sink behind it in one pass of one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine
from twigcast.failures import FATAL
from twigcast.rows import ERROR, FAILURES, MATCHES, error_row

MATCHES_AT_ONCE = 1 << 21
"""Matches held at one time, roughly: a message may have one per subscription."""

# A text column has been decoded already, so whatever encoding the message declares is no longer true.
_DECLARED_ENCODING = r"""\A(\x{FEFF}?<\?xml[^>]*?)\s+encoding\s*=\s*(?:"[^"]*"|'[^']*')"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows of: message id, its bytes, the subscription numbers it matches, or the error if it was refused, and the
    subscriptions that could not be evaluated on it (``twigcast.failures.FAILURES``)."""

    ids: pa.Array
    xml: pa.Array
    matches: pa.Array
    errors: pa.Array
    failures: pa.Array

    @property
    def rejected(self) -> Outcome | None:
        """The refused messages, None where there are none (the usual case, and free of charge)."""
        return self._where(self.errors)

    @property
    def failing(self) -> Outcome | None:
        """The messages that some subscription failed on, None where there are none."""
        return self._where(self.failures)

    def _where(self, column: pa.Array) -> Outcome | None:
        if column.null_count == len(column):
            return None
        given = column.is_valid()
        return Outcome(*(getattr(self, field.name).filter(given) for field in fields(self)))


def outcomes(
    batches: Iterable[pa.RecordBatch], engine: Engine, *, select: bool = False, at_once: int | None = None
) -> Iterator[Outcome]:
    """Ask the engine about batches of (id, xml) or (id, xml, error), where an error set by the source stands.

    With ``select``, ``matches`` are lists of structs as :meth:`Engine.select_batch` has them, else of numbers.

    Order is kept within the good and within the refused messages of a batch, not between the two.
    """
    for batch in batches:
        ids, xml = batch.column(0), as_bytes(batch.column(1))
        errors = batch.column(2) if batch.num_columns > 2 else pa.nulls(len(ids), ERROR)
        if xml.null_count:
            absent = pa.array([error_row("no-content", "the message is null")], ERROR)
            nowhere = pc.and_(xml.is_null(), errors.is_null())
            errors = _choose(nowhere, absent, errors)
        if errors.null_count < len(errors):
            bad, good = errors.is_valid(), errors.is_null()
            yield _refused(ids.filter(bad), xml.filter(bad), errors.filter(bad))
            ids, xml = ids.filter(good), xml.filter(good)
        if len(ids):
            yield from _guarded(engine, ids, xml, select, at_once or MATCHES_AT_ONCE)


def _guarded(engine: Engine, ids: pa.Array, xml: pa.Array, select: bool, at_once: int) -> Iterator[Outcome]:
    """Ask the engine. Should it fail as a whole, find the message at fault by halving, and refuse it.

    What a single subscription fails on is in ``failures``, and no error of the message.
    """
    # The engine needs a message's place, not its id, whose type is the caller's business.
    places = pa.array(range(len(ids)), pa.int64())
    done = 0
    try:
        batch = pa.RecordBatch.from_arrays([places, xml], ["id", "xml"])
        ask = engine.select_batches if select else engine.match_batches
        for answer in ask(batch, max_matches=at_once):
            rows = slice(done, done + answer.num_rows)
            done = rows.stop
            columns = [answer.column(name) for name in ("matches", "error", "failures")]
            yield Outcome(ids[rows], xml[rows], *columns)
    except FATAL:
        raise
    except BaseException as failure:  # a panic in the kernel is no Exception
        ids, xml = ids[done:], xml[done:]
        if len(ids) > 1:
            half = len(ids) // 2
            yield from _guarded(engine, ids[:half], xml[:half], select, at_once)
            yield from _guarded(engine, ids[half:], xml[half:], select, at_once)
        else:
            yield _refused(ids, xml, pa.array([error_row("internal", f"the engine failed: {failure}")], ERROR))


def as_bytes(xml: pa.Array) -> pa.Array:
    """A column of messages as bytes."""
    kind = xml.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.any(pc.match_substring_regex(xml, _DECLARED_ENCODING)).as_py():
            xml = pc.replace_substring_regex(xml, _DECLARED_ENCODING, r"\1")
        return xml.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    if pa.types.is_null(kind):
        return xml.cast(pa.binary())
    return xml


def _choose(mask: pa.Array, constant: pa.Array, otherwise: pa.Array) -> pa.Array:
    # if_else lacks a kernel for structs in older pyarrow; take does not.
    indices = pc.if_else(mask, 0, pc.add(pa.array(range(len(otherwise)), pa.int64()), 1))
    both = pa.concat_arrays([constant, otherwise])
    return both.take(indices)


def _refused(ids: pa.Array, xml: pa.Array, errors: pa.Array) -> Outcome:
    return Outcome(ids, xml, pa.array([[]] * len(ids), MATCHES), errors, pa.nulls(len(ids), FAILURES))
