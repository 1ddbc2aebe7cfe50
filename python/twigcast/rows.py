"""Arrow rows of what engines answer: matches, failures of subscriptions, and errors of refused messages.

A batch of answers has a row per message with the columns ``matches`` (``MATCHES``, or lists of ``MATCH``), ``error``
(``ERROR``, null for a message that could be read) and ``failures`` (``FAILURES``).
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from twigcast.errors import MessageError

MATCHES = pa.list_(pa.field("item", pa.uint32(), nullable=False))
"""The numbers of the subscriptions that a message matches."""
MATCH = pa.struct(
    [
        pa.field("subscription", pa.uint32(), nullable=False),
        pa.field("nodes", pa.list_(pa.field("item", pa.uint32(), nullable=False))),
        pa.field("fragments", pa.list_(pa.field("item", pa.binary(), nullable=False))),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
"""A match with what the subscription gets, as ``Engine.select_batch`` has it."""

WORDS = pa.dictionary(pa.int32(), pa.string())
FAILURE = pa.struct(
    [
        pa.field("subscription", pa.uint32(), nullable=False),
        pa.field("code", WORDS, nullable=False),
        pa.field("text", WORDS, nullable=False),
    ]
)
"""A failure: the number of the subscription, a stable code, and a text for people.

Texts repeat, since a subscription tends to fail on many messages; hence the dictionaries.
"""
FAILURES = pa.list_(pa.field("item", FAILURE, nullable=False))
"""The failures on a message. A row is null where every subscription was evaluated."""

ERROR = pa.struct(
    [
        ("code", pa.string()),
        ("line", pa.uint32()),
        ("column", pa.uint32()),
        ("offset", pa.uint64()),
        ("text", pa.string()),
    ]
)
"""Why a message was refused, and where. The place is null if the message as a whole is at fault."""
REFUSED = {"reason": pa.string(), "line": pa.int64(), "column": pa.int64(), "offset": pa.int64(), "text": pa.string()}
"""The columns of an error in tables of refused messages. Spark knows no unsigned numbers."""

ErrorRow: TypeAlias = dict[str, str | int | None]


def error_row(
    code: str, text: str, line: int | None = None, column: int | None = None, offset: int | None = None
) -> ErrorRow:
    """Return a row of ``ERROR``. The arguments have the order of the kernel's errors."""
    return {"code": code, "line": line, "column": column, "offset": offset, "text": text}


def row_of_error(error: MessageError) -> ErrorRow:
    """Return the row of ``ERROR`` for an exception."""
    if not error.line:  # the message as a whole is at fault
        return error_row(error.code, error.text)
    return error_row(error.code, error.text, error.line, error.column, error.offset)


def refused_columns(errors: pa.StructArray) -> dict[str, pa.Array]:
    """Return an array of ``ERROR`` as the columns of ``REFUSED``."""
    fields = zip(REFUSED.items(), ERROR, strict=True)
    return {name: errors.field(field.name).cast(kind) for (name, kind), field in fields}
