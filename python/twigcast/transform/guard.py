"""Schema plans only for messages that are valid (SEMANTICS 17): the others are rejected, or fall back to a plan that
knows of no schema. Only those who trust their publisher may skip the check, and with it the guarantee."""

from __future__ import annotations

from lxml import etree

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.errors import MessageError, OptionError
from twigcast.schema import Schema
from twigcast.transform.nodes import Message
from twigcast.transform.plan import Planner, execute
from twigcast.transform.render import render

INVALID = ("reject", "fall-back", "trust")


class Guarded:
    """One transform on the messages of one publisher."""

    def __init__(self, transform: Transform, schema: Schema, *, sharing: str = "FWR", invalid: str = "reject") -> None:
        if invalid not in INVALID:
            raise OptionError("bad-invalid", f"invalid cannot be {invalid!r}", hint="one of: " + ", ".join(INVALID))
        self._schema = schema
        self._invalid = invalid
        self._with = Planner(sharing, "query+schema", schema).plan(transform)
        self._without = Planner(sharing, "query").plan(transform)

    def transformed(self, xml: bytes, *, deliver_empty: bool = False) -> bytes | None:
        """The new message, or None; a MessageError for an invalid message that is to be rejected."""
        plan = self._with
        if self._invalid != "trust" and plan.needs_schema:
            if self._invalid == "reject":
                reject_invalid(self._schema, xml)
            elif self._schema.validate(xml):
                plan = self._without
        return render(plan.transform, execute(plan, Message(xml)), deliver_empty=deliver_empty)


def reject_invalid(schema: Schema, xml: bytes) -> None:
    """Raises a MessageError for the first rule of the schema that a message breaks."""
    try:
        # With a DTD of its own a message could have libxml2 open files: ours has put in place all that it may say.
        wrong = schema.validate(_kernel.plain(xml) if b"<!DOCTYPE" in xml or b"\0" in xml[:4] else xml)
    except (etree.XMLSyntaxError, ValueError):
        return  # not well-formed, which the engine says better
    if wrong:
        first = wrong[0]
        column = first.column or 1
        offset = _offset(xml, first.line, column)
        raise MessageError("invalid", first.text, line=first.line, column=column, offset=offset)


def _offset(xml: bytes, line: int, column: int) -> int:
    return sum(len(one) for one in xml.splitlines(keepends=True)[: line - 1]) + column - 1
