"""Durations as people write them: ``500 ms``, ``10s``, ``5 minutes``, ``3 days``."""

from __future__ import annotations

import re
from typing import Any

WORDS = 'a duration such as "500 ms", "10 s", "5 minutes" or "3 days"'
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
# A hundred years: no one means more, and milliseconds stay far within 64 bits.
_MOST = 100 * 366 * 86400


def seconds(value: Any) -> float:
    """A bare number is seconds. Raises ValueError."""
    result: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        result = float(value)
    elif isinstance(value, str):
        parts = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([a-z]*)", value.strip())
        unit = _UNITS.get(parts[2] or "s") if parts else None
        if parts and unit:
            result = float(parts[1]) * _SECONDS[unit]
    if result is None or not 0 <= result <= _MOST:
        raise ValueError(f"must be {WORDS}")
    return result


def milliseconds(value: Any) -> int:
    return round(seconds(value) * 1000)


def duration_text(milliseconds: int) -> str:
    """What ``seconds`` reads back, in the largest unit that is exact."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"
