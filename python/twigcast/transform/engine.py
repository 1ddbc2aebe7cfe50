"""All transforms of an engine, matched and made at once: those that tree patterns decide in the kernel, the others by
libxml2, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.limits import Limits
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable
from twigcast.transform import reference
from twigcast.transform.encode import Encoded, encoded
from twigcast.transform.nodes import Message
from twigcast.transform.render import render

MATCHES = pa.list_(pa.field("item", pa.uint32(), nullable=False))
MADE = pa.struct([pa.field("subscription", pa.uint32(), nullable=False), pa.field("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class Made:
    """What a subscription gets of a message; None where that is longer than a limit allows."""

    number: int
    payload: bytes | None


class Transforms:
    """Subscriptions by their numbers."""

    def __init__(self) -> None:
        self.kernel = _kernel.Transforms()
        self.codes = StepCodes(self.kernel)
        self._slow: dict[int, Transform] = {}
        self._numbers: set[int] = set()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, number: int, transform: Transform) -> None:
        try:
            self.put(number, self.encoded(transform))
        except NotEncodable:
            self._slow[number] = transform
        self._numbers.add(number)

    def encoded(self, transform: Transform) -> Encoded:
        """As this kernel numbers names. Raises NotEncodable."""
        return encoded(transform, self.codes.__getitem__)

    def put(self, number: int, e: Encoded) -> None:
        self.kernel.add(number, e.program, e.constants, e.order, e.before, e.pieces, e.after)
        self._numbers.add(number)

    def numbers(self) -> list[int]:
        return list(self._numbers)

    def remove(self, number: int) -> None:
        self._numbers.remove(number)
        if self._slow.pop(number, None) is None:
            self.kernel.remove(number)

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], _kernel.Error | None]:
        """The subscriptions that get something of a message, or why it was refused."""
        numbers, error = self.kernel.match_one(xml, limits.of_kernel())
        if error is None and self._slow:
            numbers += [made.number for made in self._made_slowly(xml, limits)]
        return numbers, error

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], _kernel.Error | None]:
        """As ``match``, with what they get. Equal payloads are one object."""
        numbers, places, payloads, cut, error = self.kernel.transform_one(xml, limits.of_kernel())
        given: list[bytes | None] = list(payloads)
        for place in cut:
            given[place] = None
        made = [Made(number, given[place]) for number, place in zip(numbers, places, strict=True)]
        if error is None and self._slow:
            made += self._made_slowly(xml, limits)
        return made, error

    def match_column(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, pa.Array]:
        """Lists of numbers, ascending, and errors."""
        found = pa.array(self.kernel.match_column(column, limits.of_kernel()))
        matches, errors = found.field("matches"), found.field("error")
        if self._slow:
            more = [[made.number for made in row] for row in self._slow_rows(column, errors, limits)]
            matches = merged_numbers(matches, pa.array(more, MATCHES))
        return matches, errors

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, pa.Array, int]:
        """Lists of ``MADE`` from a row on until there are ``max_bytes``, errors, and the first row not done."""
        data, made, end = self.kernel.transform_column(column, start, max_bytes, limits.of_kernel())
        result = pa.array(data)
        matches, errors = result.field("matches"), result.field("error")
        payloads = pa.array(made)
        each = matches.flatten()
        # an empty payload is one that was cut: what is made has an outer element
        payloads = pc.if_else(pc.equal(pc.binary_length(payloads), 0), None, payloads)
        values = pa.StructArray.from_arrays(
            [each.field("subscription"), payloads.take(each.field("payload"))], fields=list(MADE)
        )
        lists = pa.ListArray.from_arrays(matches.offsets, values)
        if self._slow:
            rows = self._slow_rows(column.slice(start, end - start), errors, limits)
            more = [[{"subscription": made.number, "payload": made.payload} for made in row] for row in rows]
            lists = merged(lists, pa.array(more, pa.list_(MADE)))
        return lists, errors, end

    def _slow_rows(self, column: pa.Array, errors: pa.Array, limits: Limits) -> list[list[Made]]:
        texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        good = errors.is_null().to_pylist()
        return [
            self._made_slowly(xml.encode() if texts else xml, limits) if ok else []
            for xml, ok in zip(column.to_pylist(), good, strict=True)
        ]

    def _made_slowly(self, xml: bytes, limits: Limits) -> list[Made]:
        message = Message(_kernel.plain(xml))
        found = []
        for number, transform in self._slow.items():
            try:
                payload = render(transform, reference.groups(transform, message))
            except etree.XPathError:  # libxml2 gives up on a query that is too much for it: this one alone suffers
                found.append(Made(number, None))
                continue
            if payload is not None:
                found.append(Made(number, payload if len(payload) <= limits.max_result_bytes else None))
        return found


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
