"""How texts for people read: hints for misspelt words, records, and headings with their lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

# Letters that differ in a misspelt word of more than four letters; in a shorter one, one letter.
_MOST = 2
SHOWN = 100
"""Characters of one field."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint for a mistyped word: the nearest known one, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"


def misspelt(word: str, keywords: Iterable[str]) -> str | None:
    """Return the keyword that a word is a misspelling of, whatever the case; None if it is like none of them."""
    best: tuple[int, str] | None = None
    for keyword in keywords:
        most = _MOST if min(len(word), len(keyword)) > 4 else 1
        if len(word) < 2 or abs(len(word) - len(keyword)) > most:
            continue
        apart = _distance(word.lower(), keyword.lower())
        if apart <= most and (best is None or apart < best[0]):
            best = apart, keyword
    return best[1] if best else None


def _distance(a: str, b: str) -> int:
    """Return how many letters to insert, delete, change or swap with the next one to get from ``a`` to ``b``."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def shown(record: Any) -> str:
    """Return the ``repr`` of a dataclass without the fields that have their defaults, long values cut."""
    parts = []
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != default:
            parts.append(f"{field.name}={_cut(value)}")
    return f"{type(record).__name__}({', '.join(parts)})"


def _cut(value: Any) -> str:
    if isinstance(value, (bytes, str)) and len(value) > SHOWN:
        unit = "bytes" if isinstance(value, bytes) else "characters"
        return f"{value[:SHOWN]!r}… ({len(value):,} {unit})"
    text = repr(value)
    if len(text) <= SHOWN:
        return text
    count = f" ({len(value):,} items)" if hasattr(value, "__len__") else ""
    return f"{text[:SHOWN]}…{count}"


def in_columns(sections: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield the lines of sections, each heading to the left of the first line of its section."""
    for heading, lines in sections:
        for i, line in enumerate(lines):
            yield f"{heading if i == 0 else '':<12}{line}".rstrip()
