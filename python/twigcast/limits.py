"""Bounds on what one message may cost; crossing one is a rejection with a ``limit-…`` code, if nothing else is said."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from twigcast.errors import OptionError
from twigcast.shown import shown


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults are safe for untrusted messages."""

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
    """Nodes that one subscription may select from a message; the rest is left out, which is no rejection."""
    max_result_bytes: int = 16 << 20
    """Bytes of the fragments that one subscription may select from a message; likewise."""

    max_residual_cost: int = 500_000_000
    """Nodes that libxml2 may have to visit to check one subscription which is beyond tree patterns; where it may be
    more, that subscription is not checked against the message, which is reported as ``residual-too-costly``."""

    __repr__ = shown

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            top = 2**63 - 1 if field.name == "max_residual_cost" else 2**32 - 1
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= top:
                raise OptionError("bad-limit", f"{field.name} must be a whole number from 1 to {top}, not {value!r}")

    def of_kernel(self) -> dict[str, int]:
        """Those that the kernel keeps."""
        return {name: value for name, value in asdict(self).items() if name != "max_residual_cost"}

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


_MOST = 2**32 - 1
READ_BEFORE = Limits(max_bytes=_MOST, max_depth=_MOST, max_attributes=_MOST, max_name=_MOST)
"""For messages that have been read before, under the limits in force then: only what entities may add is bounded."""
