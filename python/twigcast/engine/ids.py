"""Which subscription has which number.

A million ids as Python objects take longer to make than everything else in a snapshot together, so those of an opened
set stay an Arrow array, mapped from the file, until somebody adds, removes or asks for one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, cast

from twigcast.common.arrow import pa, pc
from twigcast.errors import TwigcastError
from twigcast.subscription import SubscriptionId, is_id

# Looking up a few ids in an array costs as much as making this many objects.
_LOOKUP = 64


def are_ids(ids: Sequence[Any]) -> bool:
    """Whether each is one; many of the same kind are looked at together."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return is_id(min(ids)) and is_id(max(ids))
    return (kinds == {str} and all(map(str.isascii, ids))) or all(map(is_id, ids))


class Ids:
    def __init__(self, by_number: pa.Array | None = None, whole: pa.Array | None = None) -> None:
        """Empty, or the ids by number (null: free) and, where some are numbers and some strings, which are numbers."""
        self._array: Any = by_number
        self._whole = whole
        self._list: list[SubscriptionId | None] | None = [] if by_number is None else None
        self._numbers: dict[SubscriptionId, int] | None = {} if by_number is None else None
        self._lookups = 0

    def __len__(self) -> int:
        if self._numbers is not None:
            return len(self._numbers)
        return int(len(self._array) - self._array.null_count)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._by_id()

    def are_new(self, ids: Sequence[SubscriptionId]) -> bool:
        """None of them is there, and none is there twice."""
        return len(set(ids)) == len(ids) and self._by_id().keys().isdisjoint(ids)

    @property
    def bound(self) -> int:
        """One past the highest number."""
        return len(self._array if self._list is None else self._list)

    def at(self, numbers: Sequence[int]) -> list[SubscriptionId]:
        """Return the ids of those numbers that have one."""
        by_number = self._list
        if by_number is None:
            self._lookups += 1
            if self._lookups * _LOOKUP < len(self._array):
                # not pa.array: the first that is made from a list imports pandas
                some = pa.Array.from_buffers(pa.uint32(), len(numbers), [None, pa.py_buffer(array("I", numbers))])
                whole = None if self._whole is None else self._whole.take(some)
                return [id for id in _objects(self._array.take(some), whole) if id is not None]
            by_number = self._by_number()
        found = list(map(by_number.__getitem__, numbers))
        if self._numbers is not None and len(self._numbers) == len(by_number):
            return cast("list[SubscriptionId]", found)  # no number is free
        return [id for id in found if id is not None]

    def numbers(self, ids: Sequence[SubscriptionId]) -> list[int]:
        """The numbers of ids that are there."""
        return list(map(self._by_id().__getitem__, ids))

    def enter(self, ids: Sequence[SubscriptionId], numbers: Sequence[int]) -> None:
        by_id, by_number = self._by_id(), self._by_number()
        bound = len(by_number)
        if numbers == list(range(bound, bound + len(ids))):
            by_number.extend(ids)
        else:
            by_number.extend([None] * (max(numbers, default=-1) + 1 - bound))
            for id, number in zip(ids, numbers, strict=True):
                by_number[number] = id
        by_id.update(zip(ids, numbers, strict=True))
        self._array = self._whole = None

    def pop(self, id: SubscriptionId) -> int:
        number = self._by_id().pop(id)
        self._by_number()[number] = None
        self._array = self._whole = None
        return number

    @property
    def array(self) -> pa.Array:
        """By number: int64 if all are numbers, else strings; null where a number is free."""
        if self._array is None:
            ids = self._by_number()
            if all(isinstance(i, int) or i is None for i in ids):
                self._array = pa.array(ids, pa.int64())
            else:
                self._array = pa.array([None if i is None else str(i) for i in ids], pa.string())
                whole = [isinstance(i, int) for i in ids]
                self._whole = pa.array(whole, pa.bool_()) if any(whole) else None
        return self._array

    @property
    def whole(self) -> pa.Array | None:
        """Which of the strings in ``array`` stand for numbers, if some do."""
        return self._whole if self.array is not None else None

    def _by_number(self) -> list[SubscriptionId | None]:
        if self._list is None:
            self._list = _objects(self._array, self._whole)
        return self._list

    def _by_id(self) -> dict[SubscriptionId, int]:
        if self._numbers is None:
            ids = self._by_number()
            every = dict(zip(ids, range(len(ids)), strict=True))
            every.pop(None, None)
            numbers = cast("dict[SubscriptionId, int]", every)
            if len(numbers) != len(self):
                raise TwigcastError("snapshot-damaged", "two subscriptions of the snapshot have the same id")
            self._numbers = numbers
        return self._numbers


def _objects(some: pa.Array, whole: pa.Array | None) -> list[SubscriptionId | None]:
    ids: list[SubscriptionId | None] = some.to_pylist()
    if whole is not None:
        for i in pc.indices_nonzero(whole).to_pylist():
            ids[i] = int(ids[i] or 0)
    return ids
