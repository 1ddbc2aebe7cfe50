"""Transforms that tree patterns decide, all matched and made at once in the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twigcast import _kernel
from twigcast import rows as row_types
from twigcast.arrow import pa, pc
from twigcast.constructor import Transform
from twigcast.forking import refuse_if_forked_in_use
from twigcast.limits import Limits
from twigcast.plan.codes import StepCodes
from twigcast.transform.encode import Encoded, encoded


@dataclass(frozen=True, slots=True)
class Made:
    """The new message that a subscription gets of a message, or the reason why it does not get it."""

    number: int
    payload: bytes | None
    reason: str | None = None


class Transforms:
    """Transforms by number, evaluated by the kernel's shared engine."""

    def __init__(self) -> None:
        self.kernel = _kernel.Transforms()
        self.codes = StepCodes(self.kernel)
        refuse_if_forked_in_use(self, "kernel")
        self._numbers: set[int] = set()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, number: int, transform: Transform) -> None:
        """Add a transform. Raises NotEncodable where no tree pattern decides it, or the kernel has no code for it."""
        self.put(number, self.encoded(transform))

    def encoded(self, transform: Transform) -> Encoded:
        """Return what ``put`` takes, with names as this kernel numbers them. Raises NotEncodable."""
        return encoded(transform, self.codes.__getitem__)

    def put(self, number: int, e: Encoded) -> None:
        """Add an encoded transform."""
        self.kernel.add(number, e.program, e.constants, e.making)
        self._numbers.add(number)

    def numbers(self) -> list[int]:
        """Return the numbers of all transforms."""
        return list(self._numbers)

    def remove(self, number: int) -> None:
        """Remove a transform."""
        self._numbers.remove(number)
        self.kernel.remove(number)

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], _kernel.Error | None]:
        """Return the subscriptions that get something of a message, or why it was refused."""
        return self.kernel.match_one(xml, limits.of_kernel())

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], _kernel.Error | None]:
        """Do as ``match`` does, with what the subscriptions get. Equal payloads are one object."""
        return made_of(self.kernel.transform_one(xml, limits.of_kernel()))

    def match_column(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, pa.Array]:
        """Return lists of numbers, ascending, and errors."""
        found = pa.array(self.kernel.match_column(column, limits.of_kernel()))
        return found.field("matches"), found.field("error")

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, pa.Array, int]:
        """Return lists of ``MADE`` from a row on until there are ``max_bytes``, errors, and the first row not done."""
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
        values = pa.StructArray.from_arrays(columns, fields=list(row_types.MADE))
        return pa.ListArray.from_arrays(matches.offsets, values), errors, end


def made_of(
    answer: tuple[list[int], list[int], list[bytes], list[tuple[int, str]], _kernel.Error | None],
) -> tuple[list[Made], _kernel.Error | None]:
    """Return what ``transform_one`` of the kernel answered, by subscription."""
    numbers, places, payloads, cuts, error = answer
    given: list[tuple[bytes | None, str | None]] = [(payload, None) for payload in payloads]
    for place, reason in cuts:
        given[place] = None, reason
    return [Made(number, *given[place]) for number, place in zip(numbers, places, strict=True)], error


def row_of(made: Made) -> dict[str, object]:
    """Return a row of ``MADE``."""
    return {"subscription": made.number, "payload": made.payload, "reason": made.reason}


def messages_of(column: pa.Array) -> Iterator[bytes]:
    """Yield the messages of a column as bytes, empty where there is none."""
    for xml in column.to_pylist():
        yield xml.encode() if isinstance(xml, str) else xml or b""


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
