"""Schema plans only for messages that are valid (SEMANTICS 17): the others are rejected, or fall back to a plan that
knows of no schema. Only those who trust their publisher may skip the check, and with it the guarantee."""

from __future__ import annotations

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
        wrong = self._schema.validate(xml) if self._invalid != "trust" and plan.needs_schema else []
        if wrong:
            if self._invalid == "reject":
                first = wrong[0]
                column = first.column or 1
                raise MessageError(
                    "invalid", first.text, line=first.line, column=column, offset=_offset(xml, first.line, column)
                )
            plan = self._without
        return render(plan.transform, execute(plan, Message(xml)), deliver_empty=deliver_empty)


def _offset(xml: bytes, line: int, column: int) -> int:
    return sum(len(one) for one in xml.splitlines(keepends=True)[: line - 1]) + column - 1
