"""Hints for misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Letters that differ in a misspelt word of more than four letters; in a shorter one, one letter.
_MOST = 2


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
