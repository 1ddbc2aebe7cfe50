"""What the engine said about some messages, in Arrow; and the guarded way of asking it.

This is the part of the match stage that knows nothing of DataFrames, so that a pipeline can put a source before it and
a sink behind it in one pass of one task.

The payload of a delivery is what a transform makes, or what the subscription selects. One fragment is the payload as it
is; several, or one that is no element, stand in ``<results>``, each in a ``<result>``; node ids stand in ``<nodes>``,
separated by spaces. ``complete="false"`` marks results that are not all, and ``reason`` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine import Engine, TextPath
from twigcast.engine.failures import FATAL
from twigcast.rows import ERROR, FAILURES, MATCHES, error_row
from twigcast.spark.sources.messages import as_bytes

MATCHES_AT_ONCE = 1 << 21
"""Matches held at one time, roughly: a message may have one per subscription."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows of: message id, its bytes, the subscription numbers it matches, or the error if it was refused, the
    subscriptions that could not be evaluated on it (``twigcast.rows.FAILURES``), and, where they are asked for, a text
    in it and what correlations see of it."""

    ids: pa.Array
    xml: pa.Array
    matches: pa.Array
    errors: pa.Array
    failures: pa.Array
    texts: pa.Array
    witnesses: pa.Array

    @property
    def rejected(self) -> Outcome | None:
        """The refused messages, None where there are none (the usual case, and free of charge)."""
        return self._where(self.errors)

    @property
    def failing(self) -> Outcome | None:
        """The messages that some subscription failed on, None where there are none."""
        return self._where(self.failures)

    def of_rows(self, errors: pa.Array) -> Outcome:
        """Return the same with its rows as ids and with further errors. Nothing fails on refused messages."""
        rows, failures = pa.array(range(len(self.ids)), pa.int32()), self.failures
        if errors.null_count > 0 and failures.null_count < len(failures):
            failures = _choose(errors.is_valid(), pa.nulls(1, failures.type), failures)
        return replace(self, ids=rows, errors=errors, failures=failures)

    def _where(self, column: pa.Array) -> Outcome | None:
        if column.null_count == len(column):
            return None
        given = column.is_valid()
        return Outcome(*(getattr(self, field.name).filter(given) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Asked:
    """What an engine is asked about each message, which it reads once."""

    engine: Engine
    select: bool = False
    """Ask what subscriptions get, too."""
    text: TextPath | None = None
    streams: Sequence[int] | None = None
    """Ask what correlations see of messages that come by these streams of the kernel."""
    at_once: int | None = None

    def of(self, ids: pa.Array, xml: pa.Array) -> Iterator[pa.RecordBatch]:
        """Yield the engine's answers to some messages."""
        batch = pa.RecordBatch.from_arrays([ids, xml], ["id", "xml"])
        yield from self.engine.process_batches(
            batch, select=self.select, max_matches=self.at_once or MATCHES_AT_ONCE, text=self.text, streams=self.streams
        )


def outcomes(batches: Iterable[pa.RecordBatch], asked: Asked) -> Iterator[Outcome]:
    """Ask the engine about batches of (id, xml) or (id, xml, error), where an error set by the source stands.

    With ``asked.select``, ``matches`` are lists of structs as :meth:`Engine.select_batch` has them, else of numbers.

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
            yield from _guarded(asked, ids, xml)


def _guarded(asked: Asked, ids: pa.Array, xml: pa.Array) -> Iterator[Outcome]:
    """Ask the engine. Should it fail as a whole, find the message at fault by halving, and refuse it.

    What a single subscription fails on is in ``failures``, and no error of the message.
    """
    # The engine needs a message's place, not its id, whose type is the caller's business.
    places = pa.array(range(len(ids)), pa.int64())
    done = 0
    try:
        for answer in asked.of(places, xml):
            rows = slice(done, done + answer.num_rows)
            done = rows.stop
            columns = [answer.column(name) for name in ("matches", "error", "failures")]
            more = [_column(answer, name) for name in ("text", "witness")]
            yield Outcome(ids[rows], xml[rows], *columns, *more)
    except FATAL:
        raise
    except BaseException as failure:  # a panic in the kernel is no Exception
        ids, xml = ids[done:], xml[done:]
        if len(ids) > 1:
            half = len(ids) // 2
            yield from _guarded(asked, ids[:half], xml[:half])
            yield from _guarded(asked, ids[half:], xml[half:])
        else:
            yield _refused(ids, xml, pa.array([error_row("internal", f"the engine failed: {failure}")], ERROR))


def _column(answer: pa.RecordBatch, name: str) -> pa.Array:
    return answer.column(name) if name in answer.schema.names else pa.nulls(len(answer), pa.binary())


def _choose(mask: pa.Array, constant: pa.Array, otherwise: pa.Array) -> pa.Array:
    # if_else lacks a kernel for structs in older pyarrow; take does not.
    indices = pc.if_else(mask, 0, pc.add(pa.array(range(len(otherwise)), pa.int64()), 1))
    both = pa.concat_arrays([constant, otherwise])
    return both.take(indices)


def _refused(ids: pa.Array, xml: pa.Array, errors: pa.Array) -> Outcome:
    nothing = pa.nulls(len(ids), pa.binary())
    return Outcome(ids, xml, pa.array([[]] * len(ids), MATCHES), errors, pa.nulls(len(ids), FAILURES), nothing, nothing)


def payloads(matches: pa.Array) -> pa.Array:
    """Return for each match of ``Engine.select_batch`` what to deliver, null for the message itself."""
    nodes, fragments, complete, made, reasons = map(
        matches.field, ("nodes", "fragments", "complete", "payload", "reason")
    )
    # what a limit cut off as a whole has no payload either, and is not the message itself
    asked = pc.or_(pc.or_(nodes.is_valid(), fragments.is_valid()), pc.invert(complete))
    if not pc.any(asked).as_py():
        return made
    values: list[bytes | None] = made.to_pylist()
    for place in pc.indices_nonzero(asked).to_pylist():
        whole, reason = complete[place].as_py(), reasons[place].as_py()
        if fragments[place].is_valid or not nodes[place].is_valid:
            values[place] = of_fragments(fragments[place].as_py() or (), whole, reason)
        else:
            values[place] = of_nodes(nodes[place].as_py(), whole, reason)
    return pa.array(values, pa.binary())


def of_fragments(fragments: Sequence[bytes], complete: bool = True, reason: str | None = None) -> bytes:
    """Return the payload of a subscription that selects nodes as XML."""
    if len(fragments) == 1 and complete and fragments[0].startswith(b"<") and fragments[0][1:2] not in b"!?":
        return fragments[0]
    results = b"".join(b"<result>" + fragment + b"</result>" for fragment in fragments)
    return b"<results" + _mark(complete, reason) + b">" + results + b"</results>"


def of_nodes(nodes: Sequence[int], complete: bool = True, reason: str | None = None) -> bytes:
    """Return the payload of a subscription that selects the ids of nodes."""
    return b"<nodes" + _mark(complete, reason) + b">" + b" ".join(b"%d" % node for node in nodes) + b"</nodes>"


def _mark(complete: bool, reason: str | None) -> bytes:
    why = b"" if reason is None else b' reason="%b"' % reason.encode()
    return b"" if complete else b' complete="false"' + why
