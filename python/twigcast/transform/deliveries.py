"""What the transforms of an engine deliver: all that the kernel makes, and what it leaves to others.

- Transforms that no tree pattern decides are evaluated by libxml2, one by one, each within a bound.
- A message that the kernel's transforms refuse (nested beyond what their bit sets hold, or with too many matches) is
  evaluated node by node, for those transforms whose binding path and condition hold for it: a set of filters knows.
- ``deliver_empty``: who asked for that gets the empty outer element where nothing is bound (SEMANTICS 15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock
from typing import Any, Protocol

import pyarrow as pa
from lxml import etree

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.errors import MessageError
from twigcast.limits import Limits
from twigcast.plan.encode import NotEncodable
from twigcast.transform import reference
from twigcast.transform.budget import Budget, TooCostly
from twigcast.transform.engine import MADE, MATCHES, Made, Transforms, merged, merged_numbers
from twigcast.transform.nodes import Message
from twigcast.transform.options import PlanOptions
from twigcast.transform.render import TooLong, render
from twigcast.transform.saved import Kept, Opening, saved
from twigcast.transform.templates import Prepared

# What the kernel's transforms say of messages that filters have no trouble with.
REFUSED = ("too-deep-to-transform", "too-much-to-transform")
# All transforms of a message together may take so many times what one may.
_TOGETHER = 4


class Filters(Protocol):
    """An engine of filters."""

    def add(self, query: str, *, id: int) -> Any: ...

    def remove(self, id: int) -> None: ...

    def match(self, xml: bytes) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """A subscription that a message could not be tried with."""

    number: int
    code: str
    text: str

    def error(self, named: Callable[[int], str], more: str = "") -> MessageError:
        text = f"the transform {named(self.number)}{more}: {self.text}"
        return MessageError(self.code, text, line=1, column=1, offset=0)


@dataclass(slots=True)
class Row:
    """What is made of one message beside the kernel."""

    made: list[Made]
    failed: list[Failed]


class Deliveries:
    """Subscriptions by their numbers. ``transform_of`` parses one again; ``filters`` makes a set of filters."""

    def __init__(
        self, options: PlanOptions, transform_of: Callable[[int], Transform], filters: Callable[[], Filters]
    ) -> None:
        self.fast = Transforms(options)
        self._transform_of = transform_of
        self._make_filters = filters
        self._filters: Filters | None = None
        self._slow: dict[int, Transform | None] = {}
        self._kept: dict[int, Kept] = {}
        self._empty: dict[int, bytes] = {}
        self._lock = RLock()  # held while the filters are made or changed
        # parsing costs far more than evaluation on a small message
        self._parsed = lru_cache(1024)(self._transform_of)

    def __len__(self) -> int:
        return len(self.fast) + len(self._slow)

    def add(self, number: int, prepared: Prepared, *, deliver_empty: bool = False) -> None:
        transform = prepared.transform
        with self._lock:
            if not self._add(number, prepared):
                self._slow[number] = transform
            elif self._filters is not None:
                self._filters.add(as_filter(transform or self._transform_of(number)), id=number)
        if deliver_empty:
            self._empty[number] = _empty(prepared) or _empty(Prepared(None, self._transform_of(number)))

    def _add(self, number: int, prepared: Prepared) -> bool:
        """Whether the kernel has taken it."""
        if prepared.encoded is not None:
            self.fast.put(number, prepared.encoded)
            self._kept[number] = Kept(prepared)
            return True
        if self.fast.options.own or prepared.transform is None:
            return False
        try:
            self.fast.add(number, prepared.transform)
        except NotEncodable:
            return False
        return True

    def remove(self, number: int) -> None:
        self._empty.pop(number, None)
        self._parsed.cache_clear()  # the number may come to mean another
        if number in self._slow:
            del self._slow[number]
            return
        with self._lock:
            self.fast.remove(number)
            self._kept.pop(number, None)
            if self._filters is not None:
                self._filters.remove(number)

    def saved(self) -> dict[int, dict[str, Any] | None]:
        """For a snapshot, what each is made of; None for those that the kernel did not take. Plans are made anew."""
        with self._lock:
            kept = {**dict.fromkeys(self._slow), **self._kept}
            return dict(saved(kept.items(), self.fast.codes))

    def opening(self) -> Opening:
        return Opening(self.fast.codes)

    # -- one message

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], list[Failed], _kernel.Error | None]:
        """The subscriptions that get something of a message, those that could not be tried, or why it was refused."""
        numbers, error = self.fast.match(xml, limits)
        refused = error is not None and error[0] in REFUSED
        if error is not None and not refused:
            return [], [], error
        row = self._beside(xml, limits, everything=refused)
        numbers += [made.number for made in row.made]
        return sorted({*numbers, *self._empty} - {one.number for one in row.failed}), row.failed, None

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], list[Failed], _kernel.Error | None]:
        """As ``match``, with what they get. Equal payloads are one object."""
        made, error = self.fast.make(xml, limits)
        refused = error is not None and error[0] in REFUSED
        if error is not None and not refused:
            return [], [], error
        row = self._beside(xml, limits, everything=refused)
        made += row.made
        made += self._empties([one.number for one in made], row)
        return made, row.failed, None

    def _empties(self, served: Iterable[int], row: Row) -> list[Made]:
        """For those who want them and were served nothing else."""
        if not self._empty:
            return []
        left = self._empty.keys() - served - {made.number for made in row.made} - {one.number for one in row.failed}
        return [Made(number, self._empty[number]) for number in sorted(left)]

    # -- columns

    def match_column(self, column: pa.Array, limits: Limits, named: Callable[[int], str]) -> tuple[pa.Array, pa.Array]:
        """Lists of numbers, ascending, and errors, which say ``named`` what suffers."""
        matches, errors = self.fast.match_column(column, limits)
        if not self._has_more(errors):
            return matches, errors
        more, errors = self._rows(column, matches, errors, limits, named)
        numbers = [[made.number for made in row] for row in more]
        return merged_numbers(matches, pa.array(numbers, MATCHES)), errors

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits, named: Callable[[int], str]
    ) -> tuple[pa.Array, pa.Array, int]:
        """Lists of ``MADE`` from a row on until there are ``max_bytes``, errors, and the first row not done."""
        lists, errors, end = self.fast.make_column(column, start, max_bytes, limits)
        if not self._has_more(errors):
            return lists, errors, end
        numbers = pa.ListArray.from_arrays(lists.offsets, lists.flatten().field("subscription"))
        more, errors = self._rows(column.slice(start, end - start), numbers, errors, limits, named)
        rows = [[{"subscription": made.number, "payload": made.payload} for made in row] for row in more]
        return merged(lists, pa.array(rows, pa.list_(MADE))), errors, end

    def _has_more(self, errors: pa.Array) -> bool:
        return bool(self._slow or self._empty) or errors.null_count < len(errors)

    def _rows(
        self, column: pa.Array, matches: pa.Array, errors: pa.Array, limits: Limits, named: Callable[[int], str]
    ) -> tuple[list[list[Made]], pa.Array]:
        """What is made beside the kernel, which found ``matches``, and the errors that are left."""
        texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        known = errors.to_pylist()
        served = matches.to_pylist() if self._empty else [[]] * len(known)
        found: list[list[Made]] = []
        for at, (xml, error) in enumerate(zip(column.to_pylist(), known, strict=True)):
            refused = error is not None and error["code"] in REFUSED
            if error is not None and not refused:
                found.append([])
                continue
            row = self._beside(xml.encode() if texts else xml, limits, everything=refused)
            known[at] = _error(row.failed, named)
            found.append(row.made + self._empties(served[at], row))
        return found, pa.array(known, errors.type)

    # -- what the kernel does not do

    def _beside(self, xml: bytes, limits: Limits, *, everything: bool) -> Row:
        """Of the transforms beyond the kernel; ``everything``: of all, for a message that the kernel refused."""
        row = Row([], [])
        if not self._slow and not everything:
            return row
        numbers = [*(self._gate().match(xml) if everything else ()), *self._slow]
        if not numbers:
            return row
        try:
            message = Message(_kernel.plain(xml))
        except etree.XMLSyntaxError as error:  # our reader takes more, such as nesting that is allowed by a setting
            row.failed += [Failed(n, "transform-refused", f"libxml2 cannot read the message: {error}") for n in numbers]
            return row
        together = float(_TOGETHER * limits.max_residual_cost)
        for number in numbers:
            budget = Budget(min(limits.max_residual_cost, together))
            before = budget.left
            self._try(number, message, limits, budget, row)
            together -= before - max(budget.left, 0)
        return row

    def _try(self, number: int, message: Message, limits: Limits, budget: Budget, row: Row) -> None:
        try:
            transform = self._slow.get(number)
            if transform is None:
                transform = self._parsed(number)
                if number in self._slow:
                    self._slow[number] = transform
            groups = reference.groups(transform, message, budget=budget)
            payload = render(transform, groups, most=limits.max_result_bytes, spend=budget.spend)
        except TooLong:
            row.made.append(Made(number, None))
        except TooCostly:
            row.failed.append(Failed(number, "transform-too-costly", "it may take too long with this message"))
        except etree.XPathError as error:  # libxml2 gives up on a query that is too much for it
            row.failed.append(Failed(number, "transform-refused", f"libxml2 cannot evaluate it: {error}"))
        except KeyError:
            return  # removed meanwhile
        else:
            if payload is not None:
                row.made.append(Made(number, payload))

    def _gate(self) -> Filters:
        """The kernel's transforms as filters, made once a message needs it."""
        with self._lock:
            if self._filters is None:
                made = self._make_filters()
                for number in self.fast.numbers():
                    made.add(as_filter(self._transform_of(number)), id=number)
                self._filters = made
            return self._filters


def _error(failed: Sequence[Failed], named: Callable[[int], str]) -> dict[str, Any] | None:
    """Several subscriptions may suffer; a row has room for one error."""
    if not failed:
        return None
    error = failed[0].error(named, f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
    return {"code": error.code, "text": error.text, "line": 1, "column": 1, "offset": 0}


def as_filter(transform: Transform) -> str:
    """The filter that holds for the messages that the transform makes something of."""
    where = "" if transform.where is None else f"[{transform.where.text}]"
    return transform.binding.text + where


def _empty(prepared: Prepared) -> bytes:
    """What is made where nothing is bound."""
    if prepared.encoded is None:
        return b"" if prepared.transform is None else render(prepared.transform, [], deliver_empty=True) or b""
    _, before, _, after = prepared.encoded.making
    alone = before.count(b"<") == after.count(b"<") == 1 and before.endswith(b">") and after.startswith(b"</")
    return before[:-1] + b"/>" if alone else before + after
