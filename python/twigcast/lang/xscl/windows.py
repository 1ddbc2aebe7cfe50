"""Windows: how far apart messages may be. ``5 min``, ``P5D``, ``INF``, or a bare number in the unit of the time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from twigcast.correlation import SECOND
from twigcast.errors import QueryError, Span

_WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)")
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_ISO = re.compile(rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?")
_ISO_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_MONTHS = re.compile(r"P[0-9.]+[YM]")
# The paper leaves its windows open, T1 to T3: a name of that form is no bound unless it is given one.
_OPEN = re.compile(r"T[0-9]*")
_UNITS: dict[str, Fraction] = {"": Fraction(1)}
for _length, _names in (
    (Fraction(1, 1_000_000), "us microsecond microseconds"),
    (Fraction(1, 1_000), "ms millisecond milliseconds"),
    (Fraction(1), "s sec secs second seconds"),
    (Fraction(60), "m min mins minute minutes"),
    (Fraction(3_600), "h hour hours"),
    (Fraction(86_400), "d day days"),
    (Fraction(604_800), "w week weeks"),
):
    _UNITS |= dict.fromkeys(_names.split(), _length)
# Longer ones are not windows, and not numbers that Python would read.
_LONGEST = 100
# Differences of 64-bit times stay within this.
_MOST = (1 << 62) - 1


def window(source: str, span: Span, named: Mapping[str, str] | None = None) -> int | None:
    """The window at ``span``, in microseconds; None is no bound. ``named`` gives values to names."""
    text = source[span.start : span.end]
    if named and text in named:
        return window(named[text], Span(0, len(named[text])))
    if text.upper() in ("INF", "INFINITY") or text == "∞" or _OPEN.fullmatch(text):
        return None
    seconds: Fraction | None = None
    if len(text) > _LONGEST:
        text = text[:20] + "…"
    elif (written := _WRITTEN.fullmatch(text)) and (unit := _UNITS.get(written[2].lower())):
        seconds = Fraction("0" + written[1].rstrip(".")) * unit
    elif (iso := _ISO.fullmatch(text)) and any(iso.groups()) and not text.endswith("T"):
        seconds = sum(
            (Fraction(part) * length for part, length in zip(iso.groups(), _ISO_SECONDS, strict=True) if part),
            Fraction(0),
        )
    if seconds is None:
        hint = "such as 5 min, 12 h, P5D, PT30M, INF, or a number in the unit of the time"
        if _MONTHS.match(text):
            hint = "months and years differ in length: write days, such as P30D"
        raise QueryError("bad-window", f"{text!r} is not a window", hint=hint, source=source, span=span)
    micros = round(seconds * SECOND)
    if micros > _MOST:
        raise QueryError("bad-window", "this window is too long", hint="write INF", source=source, span=span)
    return micros


def window_text(micros: int | None) -> str:
    """What ``window`` reads back, in the largest unit that is exact."""
    if micros is None:
        return "INF"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if micros and micros % (length * SECOND) == 0:
            return f"{micros // (length * SECOND)} {unit}"
    if micros % SECOND == 0:
        return str(micros // SECOND)
    return f"{micros} us"
