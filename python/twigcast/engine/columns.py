"""The columns of a batch: messages that come in; matches, errors and failures that go out."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from twigcast import _kernel
from twigcast import rows as row_types
from twigcast.common.arrow import pa, pc
from twigcast.engine.failures import FailedRows, failures_column
from twigcast.engine.results import RESULT_FIELDS
from twigcast.engine.shares import Result, within_budget
from twigcast.errors import MessageError, OptionError
from twigcast.limits import Limits
from twigcast.rows import row_of_error

Rejected = dict[int, MessageError]
"""Messages that a schema rejects, by row."""


def _texts() -> tuple[Any, ...]:
    types = pa.types
    return types.is_binary, types.is_string, types.is_large_binary, types.is_large_string


def message_of(xml: Any) -> bytes:
    if type(xml) is bytes:
        return xml
    if isinstance(xml, (bytes, bytearray, memoryview)):
        return bytes(xml)
    raise OptionError("bad-message", f"a message is bytes, not {type(xml).__name__}", hint="encode it")


def columns_of(batch: Any) -> tuple[pa.Array, pa.Array]:
    """The ids and the messages of a batch, these as a type that the kernel reads in place."""
    if not isinstance(batch, pa.RecordBatch):
        hint = "a table has to_batches()" if isinstance(batch, pa.Table) else None
        raise OptionError("bad-batch", f"a pyarrow.RecordBatch is needed, not {type(batch).__name__}", hint=hint)
    for name in ("id", "xml"):
        if batch.schema.names.count(name) != 1:
            found = ", ".join(batch.schema.names) or "none"
            raise OptionError("bad-batch", f"the batch needs one column {name!r}; its columns are {found}")
    xml = batch.column("xml")
    if pa.types.is_null(xml.type):
        xml = xml.cast(pa.binary())
    if not any(is_of(xml.type) for is_of in _texts()):
        text = f"the column 'xml' must be binary or string, not {xml.type}"
        raise OptionError("bad-batch", text, hint="cast it: column.cast(pyarrow.binary())")
    return batch.column("id"), xml


def raise_if(error: _kernel.Error | None) -> None:
    if error is not None:
        raise MessageError.of_kernel(error)


def reject(column: pa.StructArray, rejected: Rejected) -> pa.StructArray:
    """Return the kernel's answers in which rejected messages have an error and nothing else."""
    if not rejected:
        return column
    errors = column.field("error").to_pylist()
    for row, error in rejected.items():
        errors[row] = row_of_error(error)
    keep = pa.array([row not in rejected for row in range(len(column))])
    columns: dict[str, pa.Array] = {}
    for field in column.type:
        own = column.field(field.name)
        if field.name == "error":
            columns["error"] = pa.array(errors, own.type)
        elif field.name == "matches":
            of_row = keep.take(pc.list_parent_indices(own))
            lengths = pc.if_else(keep, pc.list_value_length(own), 0)
            columns["matches"] = pa.ListArray.from_arrays(offsets_of(lengths), own.flatten().filter(of_row))
        else:
            columns[field.name] = pc.if_else(keep, own, None)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def offsets_of(lengths: pa.Array) -> pa.Array:
    """Return the offsets of lists of these lengths."""
    ends: Any = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


# -- answers


def as_matches(lists: pa.ListArray) -> pa.ListArray:
    """Return lists of structs with some fields of ``MATCH``, ``reason`` among them, as lists with all of them."""
    values = lists.flatten()
    have = {field.name: values.field(field.name) for field in values.type}
    fill = {"complete": have["reason"].is_null()}
    columns = [have.get(f.name, fill.get(f.name)) for f in row_types.MATCH]
    columns = [pa.nulls(len(values), f.type) if c is None else c for c, f in zip(columns, row_types.MATCH, strict=True)]
    offsets = lists.offsets
    if len(offsets) and offsets[0].as_py():
        offsets = pc.subtract(offsets, offsets[0])
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(row_types.MATCH)))


def match_of(number: int, result: Result) -> dict[str, object]:
    """Return a row of ``MATCH``."""
    return {"subscription": number, **dict(zip(RESULT_FIELDS, result, strict=True))}


def exceeds(matches: pa.Array, results: int, size: int) -> bool:
    """Return whether an array of ``MATCH`` has more results, or more bytes of them, than that."""
    fragments, payload = matches.field("fragments").flatten(), matches.field("payload")
    count = len(matches.field("nodes").flatten()) + len(fragments) + len(payload) - payload.null_count
    if count > results:
        return True
    total = sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in (fragments, payload))
    return bool(total > size)


def cut_lists(lists: pa.ListArray, limits: Limits) -> pa.ListArray:
    """Return lists of ``MATCH`` in which each message keeps to its budget over all kinds of subscriptions."""
    most = limits.max_message_results, limits.max_message_result_bytes
    if not exceeds(lists.flatten(), *most):
        return lists
    rows: list[pa.Array] = []
    for at in range(len(lists)):
        row = lists[at].values
        if exceeds(row, *most):
            results = [(one["subscription"], tuple(one[name] for name in RESULT_FIELDS)) for one in row.to_pylist()]
            cut = within_budget(results, limits)
            row = pa.array([match_of(number, result) for number, result in cut], row_types.MATCH)
        rows.append(row)
    offsets = accumulate(map(len, rows), initial=0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(rows))


def results_of(
    ids: pa.Array, matches: pa.Array, error: pa.Array, failed: FailedRows, more: dict[str, pa.Array]
) -> pa.RecordBatch:
    """Return what is answered to a batch."""
    # A message that cannot be read fails no subscription.
    failed = {row: of_row for row, of_row in failed.items() if not error[row].is_valid}
    columns = {"id": ids, "matches": matches, "error": error, "failures": failures_column(len(ids), failed), **more}
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
