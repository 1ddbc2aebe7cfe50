"""How records and explanations read: the fields that say something, and headings with their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

SHOWN = 100
"""Characters of one field."""


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
