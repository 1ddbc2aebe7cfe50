"""Transforms that tree patterns decide, matched and made at once in the kernel: by its own shared engine, or as plans
of the broker paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.forking import refuse_if_forked_in_use
from twigcast.limits import Limits
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable
from twigcast.schema.gate import INVALID, Gate
from twigcast.transform.encode import Encoded, encoded
from twigcast.transform.options import PlanOptions
from twigcast.transform.plan.encode import encoded_plan
from twigcast.transform.plan.operators import Nothing

MATCHES = pa.list_(pa.field("item", pa.uint32(), nullable=False))
ERROR = pa.struct(
    [
        ("code", pa.string()),
        ("line", pa.uint32()),
        ("column", pa.uint32()),
        ("offset", pa.uint64()),
        ("text", pa.string()),
    ]
)
MADE = pa.struct(
    [
        pa.field("subscription", pa.uint32(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Made:
    """The new message that a subscription gets of a message, or the reason why it does not get it."""

    number: int
    payload: bytes | None
    reason: str | None = None


class Transforms:
    """Subscriptions by their numbers. Messages are valid where ``options`` say that invalid ones are rejected: that is
    up to whoever asks."""

    def __init__(self, options: PlanOptions | None = None) -> None:
        self.options = options or PlanOptions()
        self.kernel = _kernel.Transforms()
        self.codes = StepCodes(self.kernel)
        self._planner = None if self.options.own else self.options.planner()
        self._never: set[int] = set()
        refuse_if_forked_in_use(self, "kernel")
        self._numbers: set[int] = set()
        # invalid messages, answered as if there were no schema
        self._fallback: Transforms | None = None
        self._gate: Gate | None = None
        if self.options.relies_on_schema and self.options.on_invalid == "fallback":
            assert self.options.schema is not None
            self._fallback = Transforms(replace(self.options, optimize="query", schema=None))
            self._gate = Gate([self.options.schema])

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, number: int, transform: Transform) -> None:
        """Raises NotEncodable where no tree pattern decides, or asks for what the kernel has no word for."""
        if self._fallback is not None:
            self._fallback.add(number, transform)
        try:
            self._add(number, transform)
        except NotEncodable:
            if self._fallback is not None:
                self._fallback.remove(number)
            raise
        self._numbers.add(number)

    def _add(self, number: int, transform: Transform) -> None:
        if self._planner is None:
            self.put(number, self.encoded(transform))
            return
        plan = self._planner.plan(transform)
        if isinstance(plan.root, Nothing):
            self._never.add(number)
            return
        p = encoded_plan(plan, self.codes.__getitem__)
        self.kernel.add_plan(number, p.codes, p.program, p.constants, p.making, self.options.share_plans)

    def encoded(self, transform: Transform) -> Encoded:
        """For the kernel's own engine, with names as this kernel numbers them. Raises NotEncodable."""
        return encoded(transform, self.codes.__getitem__)

    def put(self, number: int, e: Encoded) -> None:
        """Where no other way was asked for (``PlanOptions.own``)."""
        self.kernel.add(number, e.program, e.constants, e.making)
        self._numbers.add(number)

    def numbers(self) -> list[int]:
        return list(self._numbers)

    def remove(self, number: int) -> None:
        self._numbers.remove(number)
        if number in self._never:
            self._never.remove(number)
        else:
            self.kernel.remove(number)
        if self._fallback is not None:
            self._fallback.remove(number)

    def _for(self, xml: bytes, limits: Limits) -> Transforms:
        """Those whose plans are right for a message."""
        if self._fallback is None or self._gate is None:
            return self
        error = self._gate.error(xml, limits)
        return self._fallback if error is not None and error.code == INVALID else self

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], _kernel.Error | None]:
        """The subscriptions that get something of a message, or why it was refused."""
        plans = self._for(xml, limits)
        if plans is not self:
            return plans.match(xml, limits)
        return self.kernel.match_one(xml, limits.of_kernel())

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], _kernel.Error | None]:
        """As ``match``, with what they get. Equal payloads are one object."""
        plans = self._for(xml, limits)
        if plans is not self:
            return plans.make(xml, limits)
        numbers, places, payloads, cuts, error = self.kernel.transform_one(xml, limits.of_kernel())
        given: list[tuple[bytes | None, str | None]] = [(payload, None) for payload in payloads]
        for place, reason in cuts:
            given[place] = None, reason
        return [Made(number, *given[place]) for number, place in zip(numbers, places, strict=True)], error

    def match_column(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, pa.Array]:
        """Lists of numbers, ascending, and errors."""
        if self._fallback is not None:
            rows = [self.match(xml, limits) for xml in messages_of(column)]
            lists = pa.array([sorted(numbers) for numbers, _ in rows], MATCHES)
            return lists, pa.array([_error(error) for _, error in rows], ERROR)
        found = pa.array(self.kernel.match_column(column, limits.of_kernel()))
        return found.field("matches"), found.field("error")

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, pa.Array, int]:
        """Lists of ``MADE`` from a row on until there are ``max_bytes``, errors, and the first row not done."""
        if self._fallback is not None:
            return self._make_rows(column, start, max_bytes, limits)
        data, made, cuts, end = self.kernel.transform_column(column, start, max_bytes, limits.of_kernel())
        result = pa.array(data)
        matches, errors = result.field("matches"), result.field("error")
        payloads = pa.array(made)
        each = matches.flatten()
        reasons = pa.nulls(len(each), pa.string())
        if cuts:
            why = dict(cuts)
            payloads = pc.if_else(pa.array([place not in why for place in range(len(payloads))]), payloads, None)
            reasons = pa.array(list(map(why.get, range(len(payloads)))), pa.string()).take(each.field("payload"))
        columns = [each.field("subscription"), payloads.take(each.field("payload")), reasons]
        values = pa.StructArray.from_arrays(columns, fields=list(MADE))
        return pa.ListArray.from_arrays(matches.offsets, values), errors, end

    def _make_rows(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, pa.Array, int]:
        """As ``make_column``, message by message: each may need other plans than the last."""
        rows, errors, size = [], [], 0
        for xml in messages_of(column.slice(start)):
            made, error = self.make(xml, limits)
            made.sort(key=lambda one: one.number)
            rows.append([row_of(one) for one in made])
            errors.append(_error(error))
            size += sum(8 + len(one.payload or b"") for one in made)
            if size >= max_bytes:
                break
        return pa.array(rows, pa.list_(MADE)), pa.array(errors, ERROR), start + len(rows)


def row_of(made: Made) -> dict[str, object]:
    """Return a row of ``MADE``."""
    return {"subscription": made.number, "payload": made.payload, "reason": made.reason}


def messages_of(column: pa.Array) -> Iterator[bytes]:
    """Yield the messages of a column as bytes, empty where there is none."""
    for xml in column.to_pylist():
        yield xml.encode() if isinstance(xml, str) else xml or b""


def _error(error: _kernel.Error | None) -> dict[str, object] | None:
    if error is None:
        return None
    code, text, line, column, offset = error
    return {"code": code, "line": line, "column": column, "offset": offset, "text": text}


def merged(left: pa.ListArray, right: pa.ListArray, key: str | None = "subscription") -> pa.ListArray:
    """Two columns of lists as one, each list in ascending order of the numbers."""
    values = pa.concat_arrays([left.flatten(), right.flatten()])
    rows = pa.concat_arrays([pc.list_parent_indices(left), pc.list_parent_indices(right)])
    numbers = values if key is None else values.field(key)
    order = pc.sort_indices(
        pa.table([rows, numbers], ["row", "number"]), sort_keys=[("row", "ascending"), ("number", "ascending")]
    )
    lengths = pc.add(pc.list_value_length(left), pc.list_value_length(right))
    ends: Any = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values.take(order))


def merged_numbers(left: pa.ListArray, right: pa.ListArray) -> pa.ListArray:
    return merged(left, right, None)
