"""Texts of queries, split at their literals: how a known shape is recognised without parsing (DESIGN.md, idea 1)."""

from __future__ import annotations

import re

# A number is a literal where no name can go on: digits, dots and dashes are name characters too.
_FREE = r"(?:(?<![\w.\-].)|(?<=[\s(=<>,+*|[]-.))"
_DIGITS = rf"(?<=[0-9]){_FREE}[0-9]*\.?[0-9]*"
_POINT = rf"(?<=\.){_FREE}[0-9]+"
# A string with a character that XML has not is no literal. So its quotes are part of the rest, as in no known shape,
# and the text is read again, which says what is wrong.
_NOT_XML = r"\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"
_STRING = rf"""(?:(?<=")[^"{_NOT_XML}]*"|(?<=')[^'{_NOT_XML}]*')"""
# The expressions begin with a set of characters, which the regex engine skips to; the look-behinds then tell which one
# it was.
LITERAL = re.compile(rf"""(["'0-9.](?:{_DIGITS}|{_STRING}|{_POINT}))""")
_AND_QUOTE = re.compile(rf"""(["'0-9.](?:{_DIGITS}|(?<=(["'])){_STRING}|{_POINT}))""")

Rest = tuple[str | None, ...]
"""What a text is but for its literals: between any two pieces of it stands the quote of the literal there, or None for
a number. So texts with the same rest have literals of the same kinds."""


def taken_apart(text: str) -> tuple[Rest, list[str]]:
    """The rest of a text, and its literals."""
    parts = _AND_QUOTE.split(text)
    literals = parts[1::3]
    del parts[1::3]
    return tuple(parts), literals


def sentinel(i: int, *, number: bool) -> str:
    """A literal that stands for the i-th one and is found again in what it is compiled to."""
    return f"{7_000_000_000 + i}.5" if number else f"'\ufffc{i}\ufffd'"


def literal_of(value: str | float) -> tuple[int, int] | None:
    """Which literal a sentinel stands for, and its sign."""
    if isinstance(value, str):
        found = re.fullmatch("\ufffc([0-9]+)\ufffd", value)
        return (int(found[1]), 0) if found else None
    i = abs(value) - 0.5 - 7_000_000_000
    return (int(i), 1 if value > 0 else -1) if 0 <= i < 1_000_000 and i == int(i) else None


def with_sentinels(parts: list[str], indexes: list[int]) -> str:
    """A split text, with sentinels at some of its literals."""
    changed = list(parts)
    for i in indexes:
        changed[2 * i + 1] = sentinel(i, number=parts[2 * i + 1][0] not in "\"'")
    return "".join(changed)


def all_sentinels(rest: Rest) -> str:
    """Return a text with sentinels at all of its literals."""
    return "".join(
        [sentinel(at // 2, number=part is None) if at % 2 else part for at, part in enumerate(rest)]  # type: ignore[misc]
    )


_SENTINEL = re.compile(r"""(["']\ufffc[0-9]+\ufffd["']|\b7000[0-9]{6}\.5\b)""")


def split_at_sentinels(text: str) -> tuple[tuple[str, ...], tuple[int, ...], tuple[bool, ...]]:
    """Return the pieces of a text between its sentinels, which literals these stand for, and which are strings."""
    parts = _SENTINEL.split(text)
    strings = tuple([one[0] in "\"'" for one in parts[1::2]])
    found = [
        literal_of(one[1:-1] if is_string else float(one)) for one, is_string in zip(parts[1::2], strings, strict=True)
    ]
    return tuple(parts[::2]), tuple([one[0] for one in found if one is not None]), strings


def is_sentinel(literal: str) -> bool:
    """Return whether a literal is a placeholder that :func:`sentinel` made."""
    return _SENTINEL.fullmatch(literal) is not None
