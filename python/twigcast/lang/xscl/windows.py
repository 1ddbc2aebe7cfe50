"""Windows: how far apart messages may be. ``5 min``, ``P5D``, ``INF``, or a number in the unit of the time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from twigcast.errors import QueryError, Span
from twigcast.units import ENDLESS, format_duration, parse_duration

_MONTHS = re.compile(r"P[0-9.]+[YM]")
# The paper leaves its windows open, T1 to T3: a name of that form is no bound unless it is given one.
_OPEN = re.compile(r"T[0-9]*")


def window(source: str, span: Span, named: Mapping[str, str] | None = None) -> int | None:
    """Return the window at ``span`` in microseconds, or None if it has no bound. ``named`` gives values to names."""
    text = source[span.start : span.end]
    if named and text in named:
        return window(named[text], Span(0, len(named[text])))
    if text.upper() in ("INF", "INFINITY") or text == "∞" or _OPEN.fullmatch(text):
        return None
    try:
        found = parse_duration(text, longest=None)
    except ValueError:
        hint = "such as 5 min, 12 h, P5D, PT30M, INF, or a number in the unit of the time"
        if _MONTHS.match(text):
            hint = "months and years differ in length: write days, such as P30D"
        shown = text if len(text) <= 100 else text[:20] + "…"
        raise QueryError("bad-window", f"{shown!r} is not a window", hint=hint, source=source, span=span) from None
    if found > ENDLESS:
        raise QueryError("bad-window", "this window is too long", hint="write INF", source=source, span=span)
    return found


def window_text(micros: int | None) -> str:
    """Return the text of a window, in the largest unit that is exact; a number alone counts seconds."""
    return "INF" if micros is None else format_duration(micros).removesuffix(" s")
