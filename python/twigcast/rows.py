"""Arrow rows of what engines answer: matches, failures of subscriptions, and errors of refused messages.

A batch of answers has a row per message with the columns ``matches`` (``MATCHES``, or lists of ``MATCH``), ``error``
(``ERROR``, null for a message that could be read) and ``failures`` (``FAILURES``).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from twigcast.common.arrow import pa
from twigcast.errors import MessageError

if TYPE_CHECKING:
    MATCHES: pa.DataType
    """The numbers of the subscriptions that a message matches."""
    MATCH: pa.DataType
    """A match with what the subscription gets, as ``Engine.select_batch`` has it."""
    MADE: pa.DataType
    """The new message that a transform makes, or the reason why there is none."""
    WORDS: pa.DataType
    """Texts that repeat, since a subscription tends to fail on many messages."""
    FAILURE: pa.DataType
    """A failure: the number of the subscription, a stable code, and a text for people."""
    FAILURES: pa.DataType
    """The failures on a message. A row is null where every subscription was evaluated."""
    ERROR: pa.DataType
    """Why a message was refused, and where. The place is null if the message as a whole is at fault."""
    REFUSED: dict[str, pa.DataType]
    """The columns of an error in tables of refused messages. Spark knows no unsigned numbers."""


@cache
def _types() -> dict[str, Any]:
    number, words = pa.field("subscription", pa.uint32(), nullable=False), pa.dictionary(pa.int32(), pa.string())
    match = [
        number,
        pa.field("nodes", pa.list_(pa.field("item", pa.uint32(), nullable=False))),
        pa.field("fragments", pa.list_(pa.field("item", pa.binary(), nullable=False))),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("reason", pa.string()),
    ]
    failure = pa.struct([number, pa.field("code", words, nullable=False), pa.field("text", words, nullable=False)])
    place = [("line", pa.uint32()), ("column", pa.uint32()), ("offset", pa.uint64())]
    signed = dict.fromkeys(("line", "column", "offset"), pa.int64())
    return {
        "MATCHES": pa.list_(pa.field("item", pa.uint32(), nullable=False)),
        "MATCH": pa.struct(match),
        "MADE": pa.struct([number, pa.field("payload", pa.binary()), pa.field("reason", pa.string())]),
        "WORDS": words,
        "FAILURE": failure,
        "FAILURES": pa.list_(pa.field("item", failure, nullable=False)),
        "ERROR": pa.struct([("code", pa.string()), *place, ("text", pa.string())]),
        "REFUSED": {"reason": pa.string(), **signed, "text": pa.string()},
    }


def __getattr__(name: str) -> Any:
    """Make the types when one of them is first used: only then is pyarrow imported."""
    if not name.isupper():
        raise AttributeError(f"module 'twigcast.rows' has no attribute {name!r}")
    globals().update(_types())
    try:
        return globals()[name]
    except KeyError:
        raise AttributeError(f"module 'twigcast.rows' has no attribute {name!r}") from None


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


def error_of_row(row: ErrorRow) -> MessageError:
    """Return the exception for a row of ``ERROR``."""
    return MessageError(**{**row, **{name: row[name] or 0 for name in ("line", "column", "offset")}})  # type: ignore[arg-type]


def refused_columns(errors: pa.StructArray) -> dict[str, pa.Array]:
    """Return an array of ``ERROR`` as the columns of ``REFUSED``."""
    types = _types()
    fields = zip(types["REFUSED"].items(), types["ERROR"], strict=True)
    return {name: errors.field(field.name).cast(kind) for (name, kind), field in fields}
