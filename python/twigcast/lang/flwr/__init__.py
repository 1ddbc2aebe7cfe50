"""FLWR: one XQuery expression inside a constant element -> a transform, or a QueryError with caret and hint."""

from __future__ import annotations

from collections.abc import Mapping

from twigcast.constructor import Transform
from twigcast.lang.flwr.clauses import Clauses
from twigcast.lang.flwr.printer import to_xquery
from twigcast.lang.lexer import check_text
from twigcast.lang.names import Scope


def parse_transform(
    source: str, namespaces: Mapping[str, str] | None = None, default_ns: str | None = None
) -> Transform:
    """``namespaces`` and ``default_ns`` are what the prolog could declare."""
    check_text(source)
    return Clauses(source, Scope(namespaces or {}, default_ns or "")).parse()


__all__ = ["parse_transform", "to_xquery"]
