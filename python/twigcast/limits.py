"""Bounds on what one message may cost; crossing one is a rejection (``limit-…``), unless it says otherwise."""

from __future__ import annotations

from dataclasses import InitVar, asdict, dataclass, fields, replace
from typing import Any

from twigcast.common.removed import REPLACED, replaced_by
from twigcast.common.text import shown
from twigcast.errors import OptionError

# Columns of results have offsets of 31 bits.
_HIGHEST = {
    "max_message_results": 2**28,
    "max_message_result_bytes": 2**30,
    "max_query_steps": 2**63 - 1,
    "max_query_bytes": 2**63 - 1,
}

ON_INVALID = ("fallback", "reject", "trust")
"""What becomes of a message that its schema does not allow: it is answered as if there were no schema, or rejected; or
nobody looks."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits whose defaults are safe for untrusted messages."""

    max_bytes: int = 64 << 20
    """Bytes of a message."""
    max_depth: int = 1024
    """Elements open at one time."""
    max_attributes: int = 1024
    """Attributes of one element."""
    max_name: int = 8192
    """Bytes of one name."""
    max_expansion: int = 8 << 20
    """Bytes that entities and attribute defaults may add."""
    max_amplification: int = 100
    """How many times its own size a message may expand to."""
    max_entity_depth: int = 20
    """Entities open inside each other."""
    max_result_nodes: int = 10_000
    """Results that one subscription may get of a message: the nodes that it selects, or the results of a correlation.
    The rest is left out and the result marked as incomplete (``limit-result-nodes``), which is no rejection."""
    max_result_bytes: int = 16 << 20
    """Bytes of the results that one subscription may get of a message: fragments, or new messages. Likewise
    (``limit-result-bytes``); what a new message is made of, such as sort keys, takes no more either."""
    max_message_results: int = 200_000
    """Results that all subscriptions together may get of a message. Beyond it those with the most results are cut first
    (``budget-results``): who wants no more than an equal share gets all. Matches without results do not count."""
    max_message_result_bytes: int = 64 << 20
    """Bytes of the results that all subscriptions together may get of a message; likewise (``budget-bytes``). A result
    that several subscriptions get counts for each of them."""

    max_query_steps: int = 20_000_000
    """Steps that one query beyond tree patterns may take on a message: nodes visited and functions called.
    One that takes more fails on that message (``query-too-costly``); all others have their answer."""
    max_query_bytes: int = 64 << 20
    """Bytes of strings that such a query may make and compare, and of the sets that it keeps; likewise."""
    max_residual_cost: InitVar[int | None] = None
    """No limit any more."""

    __repr__ = shown

    def __post_init__(self, max_residual_cost: int | None) -> None:
        if max_residual_cost is not None:
            text, hint = "there is no limit max_residual_cost any more", replaced_by("max_residual_cost")
            raise OptionError("moved-option", text, hint=hint)
        for field in fields(self):
            value = getattr(self, field.name)
            top = _HIGHEST.get(field.name, 2**32 - 1)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= top:
                raise OptionError("bad-limit", f"{field.name} must be a whole number from 1 to {top}, not {value!r}")

    @classmethod
    def of_saved(cls, values: dict[str, Any]) -> Limits:
        """Return limits that ``as_dict`` gave, in this version or an earlier one."""
        return cls(**{name: value for name, value in values.items() if name not in REPLACED})

    def with_all_results(self) -> Limits:
        """Return the same limits with as many results as columns can hold, for subscriptions of our own."""
        names = ("max_result_nodes", "max_result_bytes", "max_message_results", "max_message_result_bytes")
        return replace(self, **{name: _HIGHEST.get(name, 2**32 - 1) for name in names})

    def as_dict(self) -> dict[str, int]:
        """Return all limits by name, as the kernel and snapshots take them."""
        return asdict(self)


_MOST = 2**32 - 1
READ_BEFORE = Limits(max_bytes=_MOST, max_depth=_MOST, max_attributes=_MOST, max_name=_MOST)
"""For messages that have been read before, under the limits in force then: only what entities may add is bounded."""
