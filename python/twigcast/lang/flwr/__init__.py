"""FLWR: one XQuery expression inside a constant element -> a transform, or a QueryError with caret and hint."""

from __future__ import annotations

import re
from collections.abc import Mapping

from twigcast.constructor import Transform
from twigcast.lang.flwr.clauses import Clauses
from twigcast.lang.flwr.printer import to_xquery
from twigcast.lang.lexer import check_text
from twigcast.lang.names import Scope

# No XPath expression begins like this.
_TRANSFORM = re.compile(r"\s*(?:<|\(:|(?:declare|xquery)\s+\w|(?:for|let)\s+\$)")


def is_transform(source: str) -> bool:
    """Whether a query is meant to be a transform, and not a filter."""
    return source[:1] != "/" and _TRANSFORM.match(source) is not None


def parse_transform(
    source: str, namespaces: Mapping[str, str] | None = None, default_ns: str | None = None
) -> Transform:
    """``namespaces`` and ``default_ns`` are what the prolog could declare."""
    check_text(source)
    return Clauses(source, Scope(namespaces or {}, default_ns or "")).parse()


__all__ = ["is_transform", "parse_transform", "to_xquery"]
