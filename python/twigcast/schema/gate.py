"""Is a message valid? For messages as they come in: hostile ones too, and from any thread."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from lxml import etree

from twigcast import _kernel
from twigcast.errors import MessageError

if TYPE_CHECKING:
    from twigcast.schema import Schema


class Gate:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._lock = Lock()  # libxml2's validators keep a log
        schema.validate(b"<x/>")  # what is wrong with the schema is wrong from the start

    def error(self, xml: bytes) -> MessageError | None:
        """What is wrong with a message that the kernel has read, or None."""
        try:
            # With a DTD of its own a message could have libxml2 open files: the kernel has put in place all it may say.
            text = _kernel.plain(xml) if _has_dtd(xml) else xml
            with self._lock:
                found = self._schema.validate(text)
        except (etree.XMLSyntaxError, ValueError) as error:
            return MessageError("invalid", f"libxml2 cannot read it: {error}", line=1, column=1, offset=0)
        if not found:
            return None
        first = found[0]
        column = first.column or 1
        return MessageError(
            "invalid", first.text, line=first.line, column=column, offset=_offset(xml, first.line, column)
        )


def _has_dtd(xml: bytes) -> bool:
    return b"<!DOCTYPE" in xml or b"\0" in xml[:4] or xml[:2] in (b"\xfe\xff", b"\xff\xfe")


def _offset(xml: bytes, line: int, column: int) -> int:
    return sum(len(one) for one in xml.splitlines(keepends=True)[: line - 1]) + column - 1
