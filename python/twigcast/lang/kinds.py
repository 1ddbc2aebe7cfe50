"""The kinds of subscriptions, and how the language of a text is recognised.

The text alone decides, in this order (docs/filters.md, docs/correlations.md):

1. It starts with an element, a comment ``(:``, a prolog, ``for $`` or ``let $``: a transform (FLWR).
2. It starts with SELECT or FROM, or has ``JOIN {``, ``FOLLOWED BY {``, ``->`` or ``AS $`` outside of strings: a
   correlation (XSCL).
3. Anything else is a filter (XPath). So ``S/blog//title`` is the path from a document element ``S``; the XSCL query of
   one block is ``FROM S/blog//title``.
"""

from __future__ import annotations

from twigcast.errors import OptionError
from twigcast.lang.flwr import is_transform
from twigcast.lang.lexer import NCNAME, NameRegex
from twigcast.lang.xpath import DIALECTS, check_dialect
from twigcast.lang.xscl import is_correlation

LANGUAGES = {"filter": "XPath", "transform": "FLWR", "correlate": "XSCL"}
"""The kinds of subscriptions, and the language of each."""

# S/blog//title, or S alone: a relative path, or a stream and what to take of it.
_BLOCK = NameRegex(rf"\s*({NCNAME})\s*(?:/|$)")
_HINTS = {
    "filter": "a filter is an XPath expression, such as //order[total > 100]",
    "transform": "a transform is an element around a FLWR expression: <r>{ for $x in //a return $x }</r>",
    "correlate": "a correlation starts with FROM or SELECT, or ties blocks: S//a->x FOLLOWED BY{x = y, 5 min} S//b->y",
}

_NO_DIALECT = {
    "transform": "leave it out, and write [.//b] for a path that starts at the node of its predicate",
    "correlate": "leave it out: a path in a condition of XSCL starts at the node of the condition",
}


def kind_of(query: str) -> str:
    """Return the kind of subscription that a text is taken for: ``filter``, ``transform`` or ``correlate``."""
    if is_transform(query):
        return "transform"
    return "correlate" if is_correlation(query) else "filter"


def check_kind(kind: str, query: str) -> None:
    """Raise OptionError if ``kind`` is unknown, or not what the text is taken for."""
    if kind not in LANGUAGES:
        raise OptionError("unknown-kind", f"there is no kind {kind!r}", hint=f"use one of {', '.join(LANGUAGES)}")
    taken = kind_of(query)
    if taken == kind:
        return
    hint = _HINTS[kind]
    if kind == "correlate" and taken == "filter" and query[:1] not in ("/", "("):
        hint = f"an XSCL query of one block starts with FROM: FROM {query.strip()[:80]}"
    text = f"this text is read as {LANGUAGES[taken]}, a {_noun(taken)}, not as a {_noun(kind)}"
    raise OptionError("wrong-kind", text, hint=hint)


def check_dialect_of(query: str, dialect: object) -> None:
    """Raise OptionError if there is no such dialect, or if the text is no filter: only XPath has dialects."""
    check_dialect(dialect)
    if dialect == DIALECTS[0]:
        return
    kind = kind_of(query)
    if kind != "filter":
        text = f"a {_noun(kind)} ({LANGUAGES[kind]}) has no dialects, and the dialect {dialect!r} is given"
        raise OptionError("bad-dialect", text, hint=_NO_DIALECT[kind])


def described(query: str) -> str:
    """Return what a text is taken for, in words."""
    kind = kind_of(query)
    return f"a {_noun(kind)} ({LANGUAGES[kind]})"


def ambiguity(query: str) -> str | None:
    """Return a note for a filter that also reads like an XSCL block on a stream; None for any other text."""
    found = _BLOCK.match(query)
    if found is None or kind_of(query) != "filter":
        return None
    return (
        f"the path starts at a document element {found[1]!r}; for a correlation on the stream {found[1]!r}"
        f" write FROM {query.strip()[:80]}"
    )


def _noun(kind: str) -> str:
    return "correlation" if kind == "correlate" else kind
