"""XSCL: tree patterns over streams, tied by JOIN and FOLLOWED BY -> a correlation, or a QueryError with caret and hint.

SELECT <pair>{ $b }{ $t }</pair>
FROM S//book->b[author->a] FOLLOWED BY{$a = $w, 5 min} S//blog[author->w]/title->t
PUBLISH pairs
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from twigcast.lang.flwr import is_transform
from twigcast.lang.lexer import check_text
from twigcast.lang.names import Scope
from twigcast.lang.xscl.windows import window_text

if TYPE_CHECKING:
    from twigcast.ir.correlation import Correlation

# No XPath expression and no transform has one of these outside a string.
_CLAUSES = re.compile(r"\s*(?:SELECT|FROM)\s+[^\s=!<>|+*/,)\]-]|\s*SELECT\s*[*<$]", re.IGNORECASE)
_LINK = re.compile(r"\b(?:JOIN|FOLLOWED\s+BY)\s*\{|->|[→⟶]|\bAS\s+\$", re.IGNORECASE)
# One of these is in every link and mark; looking for them is quicker than for the whole.
_SIGNS = ("{", "->", "$", "→", "⟶")
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")


def is_correlation(source: str) -> bool:
    """Tell whether a text is a correlation, and not a filter or transform (the rule: ``twigcast.lang.kinds``)."""
    if _CLAUSES.match(source):
        return True
    if source[:1] == "/" and "{" not in source and not any(sign in source for sign in _SIGNS):
        return False  # as most filters are; for the others the scanner is imported
    # A name such as {uri}x may hold the word, and so may a string; primes of variables are no strings.
    without_strings = _STRING.sub("''", source)
    is_linked = _LINK.search(without_strings) or _LINK.search(source.split("'", 1)[0])
    if is_linked and not is_transform(source):
        return True
    from twigcast.lang.xscl.scanner import misspelt_clause, misspelt_link

    if source[:1] not in ("/", "<") and misspelt_clause(source):
        return True
    return "{" in source and not is_transform(source) and misspelt_link(without_strings)


def parse_correlation(
    source: str,
    namespaces: Mapping[str, str] | None = None,
    default_ns: str | None = None,
    *,
    windows: Mapping[str, str] | None = None,
) -> Correlation:
    """Parse a correlation. ``windows`` gives lengths to windows that the text only names."""
    return parse_judged(source, namespaces, default_ns, windows=windows).correlation


class Judged(NamedTuple):
    """A correlation, and whether messages can match it whatever its constants are."""

    correlation: Correlation
    possible: bool


def parse_judged(
    source: str,
    namespaces: Mapping[str, str] | None = None,
    default_ns: str | None = None,
    *,
    windows: Mapping[str, str] | None = None,
) -> Judged:
    """Parse a correlation as ``parse_correlation`` does, and judge it."""
    scope = Scope(namespaces or {}, default_ns or "")
    return _parsed(source, tuple(scope.namespaces.items()), scope.default, tuple((windows or {}).items()))


# Subscribers ask for the same again and again; a correlation is immutable.
@lru_cache(10_000)
def _parsed(
    source: str, namespaces: tuple[tuple[str, str], ...], default_ns: str, windows: tuple[tuple[str, str], ...]
) -> Judged:
    from twigcast.lang.xscl.parser import XsclParser  # only those who correlate pay for it

    check_text(source)
    parser = XsclParser(source, Scope(dict(namespaces), default_ns), dict(windows))
    return Judged(parser.parse(), not parser.never and not parser.depends_on_constants)


__all__ = ["Judged", "is_correlation", "parse_correlation", "parse_judged", "window_text"]
