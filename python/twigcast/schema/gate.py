"""The one place that decides whether a message is valid: for the engine, for transforms and for the stages of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twigcast.errors import MessageError
from twigcast.limits import Limits
from twigcast.schema import libxml2

if TYPE_CHECKING:
    from twigcast.schema import Schema

INVALID = "invalid"
"""The code of the error for a message that the kernel can read and that its schema rejects."""


class Gate:
    """Lets messages through that are valid by at least one of the schemas. Any thread may ask."""

    def __init__(self, schemas: Sequence[Schema]) -> None:
        """Make a gate. Raises OptionError if a schema cannot be used."""
        self._schemas = tuple(schemas)
        for schema in self._schemas:
            schema.prepare()

    def error(self, xml: bytes, limits: Limits) -> MessageError | None:
        """Return why a message is refused, or None if it is valid.

        The kernel reads the message first. What the kernel refuses has the kernel's error; what only libxml2 cannot
        read is invalid.
        """
        try:
            plain = libxml2.plain(xml, limits)
            found = None
            for schema in self._schemas:
                error = schema.first_error(xml, plain, limits)
                if error is None:
                    return None
                found = found or error
        except MessageError as error:
            if error.code != libxml2.REFUSED:
                return error
            return MessageError(INVALID, error.text, line=error.line, column=error.column, offset=error.offset)
        if found is None:
            return None
        return MessageError(INVALID, found.text, line=found.line, column=found.column, offset=found.offset)
