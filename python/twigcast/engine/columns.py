"""The columns of a batch: messages that come in, and errors that go out with their matches."""

from __future__ import annotations

from typing import Any

from twigcast import _kernel
from twigcast.common.arrow import pa, pc
from twigcast.errors import MessageError, OptionError
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
        raise error_of(error)


def error_of(error: _kernel.Error) -> MessageError:
    code, text, line, column, offset = error
    return MessageError(code, text, line=line, column=column, offset=offset)


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
