"""Times, durations and sizes as people and messages write them.

There is one rule for all of them, which the command line, the configuration, `Broker`, Spark and messages share:

time
    A date and time as XML Schema or RSS write them, in UTC if they name no zone; or a number, which counts the seconds
    since 1970, or from 100,000,000,000 on the milliseconds. A time lies in the years 1 to 9999.
duration
    A number with a unit (``500 ms``, ``10s``, ``5 minutes``, ``1.5 h``), an ISO 8601 duration of weeks or less
    (``P5D``, ``PT30M``), or a number alone, which counts seconds.
size
    A whole number, or one with K, M or G for powers of 1024: ``64K``, ``16 M``.

Times and durations are whole microseconds, as they are in Spark.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

from twigcast.errors import OptionError

TIME = 'a number, or a date and time such as "2026-05-01T12:30:00Z"'
DURATION = 'a duration such as "500 ms", "10 s", "5 minutes" or "3 days"'
SIZE = 'a whole number, or one with a unit such as "64K" or "16M"'

SECOND = 1_000_000
DAY = 86_400 * SECOND
CENTURY = 100 * 366 * DAY
"""The longest duration of a setting: nobody means more, and timers cannot wait longer than three centuries."""
ENDLESS = (1 << 62) - 1
"""The longest duration at all: differences of 64-bit times stay within it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The first and the last time of the calendar."""
_MILLISECONDS = 10**11
"""A number from here on counts milliseconds: as seconds it would be in the year 5138."""

_NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})", re.ASCII)
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
# Tue, 10 Jun 2003 04:00:00 GMT: the dates of RSS
_MAIL = re.compile(
    r"(?:[A-Za-z]{3},\s*)?\d{1,2}\s+[A-Za-z]{3}\s+\d{4}\s+\d\d:\d\d(?::\d\d)?\s+(?:[+-]\d{4}|[A-Za-z]{1,5})", re.ASCII
)
_LENGTH = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-zµ]*)")
_PART = r"([0-9]+(?:\.[0-9]+)?)"
_ISO = re.compile(rf"P(?:{_PART}W)?(?:{_PART}D)?(?:T(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}S)?)?")
_ISO_LENGTHS = (7 * DAY, DAY, 3_600 * SECOND, 60 * SECOND, SECOND)
_UNITS = {"": SECOND}
for _length, _names in (
    (1, "us µs microsecond microseconds"),
    (1_000, "ms millisecond milliseconds"),
    (SECOND, "s sec secs second seconds"),
    (60 * SECOND, "m min mins minute minutes"),
    (3_600 * SECOND, "h hour hours"),
    (DAY, "d day days"),
    (7 * DAY, "w week weeks"),
):
    _UNITS |= dict.fromkeys(_names.split(), _length)
# A longer text is not a duration, and perhaps not a number that Python would read.
_LONGEST_TEXT = 100
_SIZE = re.compile(r"([0-9]{1,18}) *([KMG]?)", re.IGNORECASE)
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_time(value: object) -> int | None:
    """Return a time in microseconds since 1970, or None if the value, a text, number or datetime, is not a time."""
    if isinstance(value, str):
        text = value.strip()
        value = Decimal(text) if _NUMBER.fullmatch(text) else _parse_date(text)
    if isinstance(value, datetime):
        time = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        found = time // _MICROSECOND
    elif isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    else:
        number = Decimal(str(value))
        if not number.is_finite() or abs(number) > LATEST:
            return None
        found = round(number * (SECOND if abs(number) < _MILLISECONDS else 1_000))
    return found if EARLIEST <= found <= LATEST else None


def _parse_date(text: str) -> datetime | None:
    """Return a date and time as XML Schema or RSS write them."""
    try:
        if _MAIL.fullmatch(text):
            from email.utils import parsedate_to_datetime  # takes a while to import

            return parsedate_to_datetime(text)
        parts = _DATE_TIME.fullmatch(text)
        if not parts:
            return None
        year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
        micro = int((parts[7] or "0")[:6].ljust(6, "0"))
        # 24:00:00 is the end of a day in XML Schema.
        midnight = (hour, minute, second, micro) == (24, 0, 0, 0)
        time = datetime(year, month, day, 0 if midnight else hour, minute, second, micro, _zone(parts[8]))
        return time + timedelta(days=1) if midnight else time
    except (ValueError, OverflowError, TypeError):
        return None


def _zone(text: str | None) -> timezone:
    if not text or text in "Zz":
        return UTC
    shift = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-shift if text[0] == "-" else shift)


def to_datetime(time: int) -> datetime:
    """Return a time, given in microseconds since 1970, as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=time)


def format_time(seconds: float, timespec: str = "seconds") -> str:
    """Return a time, given in seconds since 1970, as ISO 8601 with its zone: ``2026-05-01T12:30:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_duration(value: object, longest: int | None = CENTURY) -> int:
    """Return a duration, a text or a number of seconds, in microseconds.

    Raises
    ------
    ValueError
        If the value is not a duration, or more than ``longest`` microseconds.
    """
    length: Fraction | None = None
    if isinstance(value, str):
        length = _parse_length(value.strip())
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and Decimal(value).is_finite():
        length = Fraction(str(value)) * SECOND
    if length is None or length < 0:
        raise ValueError(f"must be {DURATION}")
    if longest is not None and length > longest:
        raise ValueError(f"must be at most {longest // (366 * DAY):,} years")
    return round(length)


def _parse_length(text: str) -> Fraction | None:
    if len(text) > _LONGEST_TEXT:
        return None
    if (written := _LENGTH.fullmatch(text)) and (unit := _UNITS.get(written[2].lower())):
        return Fraction("0" + written[1].rstrip(".")) * unit
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()) and not text.endswith("T"):
        parts = zip(iso.groups(), _ISO_LENGTHS, strict=True)
        return sum((Fraction(part) * length for part, length in parts if part), Fraction(0))
    return None


def format_duration(length: int) -> str:
    """Return a duration, given in microseconds, in the largest unit that is exact."""
    for unit in ("d", "h", "min", "s", "ms"):
        if length and length % _UNITS[unit] == 0:
            return f"{length // _UNITS[unit]} {unit}"
    return f"{length} us" if length else "0 s"


def parse_size(value: object) -> int:
    """Return a size, a text or a whole number, in bytes, or raise a ValueError."""
    if isinstance(value, str) and (parts := _SIZE.fullmatch(value.strip())):
        return int(parts[1]) * _BYTES[parts[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be {SIZE}")
    return value


# -- the same for arguments of the API: an OptionError names the argument


def time_option(value: object) -> int:
    """Return a time in microseconds since 1970, or raise an OptionError."""
    found = parse_time(value)
    if found is None:
        raise OptionError("bad-time", f"{str(value)[:100]!r} is not a time", hint=f"a time is {TIME}")
    return found


def duration_option(name: str, value: object, longest: int = CENTURY) -> int:
    """Return a duration in microseconds, or raise an OptionError."""
    try:
        return parse_duration(value, longest)
    except ValueError as error:
        raise _wrong(name, error, value) from None


def size_option(name: str, value: object) -> int:
    """Return a size in bytes, or raise an OptionError."""
    try:
        return parse_size(value)
    except ValueError as error:
        raise _wrong(name, error, value) from None


def _wrong(name: str, error: ValueError, value: object) -> OptionError:
    return OptionError(f"bad-{name.replace('_', '-')}", f"{name} {error}, not {str(value)[:100]!r}")
