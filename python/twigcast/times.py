"""Event times as messages and people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from typing import Any

from twigcast.errors import OptionError

WORDS = 'a number, or a date and time such as "2026-05-01T12:30:00Z"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})", re.ASCII)
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
# Tue, 10 Jun 2003 04:00:00 GMT: the dates of RSS
_MAIL = re.compile(
    r"(?:[A-Za-z]{3},\s*)?\d{1,2}\s+[A-Za-z]{3}\s+\d{4}\s+\d\d:\d\d(?::\d\d)?\s+(?:[+-]\d{4}|[A-Za-z]{1,5})"
)
# Differences of such times fit into 64 bits.
_MOST = 1 << 62


def date_time(text: str) -> datetime | None:
    """A date and time as XML Schema or RSS write them, UTC if no zone is given."""
    text = text.strip()
    try:
        if _MAIL.fullmatch(text):
            found = parsedate_to_datetime(text)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
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


def microseconds(value: Any) -> int | None:
    """A time in whole microseconds: of a number so many millionths, of a date and time those since 1970. None if it is
    neither, or out of range."""
    if isinstance(value, str):
        text = value.strip()
        value = Decimal(text) if _NUMBER.fullmatch(text) else date_time(text)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        since: timedelta = value - _EPOCH
        return since // timedelta(microseconds=1)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        micros = round(Decimal(str(value)) * 1_000_000)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return micros if abs(micros) < _MOST else None


def iso(seconds: float, timespec: str = "seconds") -> str:
    """Return a time, given in seconds since 1970, as ISO 8601 with its zone: ``2026-05-01T12:30:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def event_time(value: Any) -> int:
    """As ``microseconds``; raises OptionError."""
    found = microseconds(value)
    if found is None:
        raise OptionError("bad-time", f"{str(value)[:100]!r} is not a time", hint=f"a time is {WORDS}")
    return found


def _zone(text: str | None) -> timezone:
    if not text or text in "Zz":
        return UTC
    shift = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-shift if text[0] == "-" else shift)
