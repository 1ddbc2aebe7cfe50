"""FLWR: one XQuery expression inside a constant element -> a transform, or a QueryError with caret and hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twigcast.lang.lexer import check_text
from twigcast.lang.names import Scope

if TYPE_CHECKING:
    from twigcast.ir.transform import Transform
    from twigcast.lang.flwr.printer import to_xquery

# No XPath expression begins like this.
_TRANSFORM = re.compile(r"\s*(?:<|\(:|(?:declare|xquery)\s+\w|(?:for|let)\s+\$)")


def is_transform(source: str) -> bool:
    """Tell whether a query is meant to be a transform, and not a filter."""
    return source[:1] != "/" and _TRANSFORM.match(source) is not None


def parse_transform(
    source: str, namespaces: Mapping[str, str] | None = None, default_ns: str | None = None
) -> Transform:
    """Parse a transform. ``namespaces`` and ``default_ns`` are what the prolog could declare."""
    from twigcast.lang.flwr.clauses import Clauses  # only those who transform pay for it

    check_text(source)
    return Clauses(source, Scope(namespaces or {}, default_ns or "")).parse()


def __getattr__(name: str) -> Any:
    if name != "to_xquery":
        raise AttributeError(f"module 'twigcast.lang.flwr' has no attribute {name!r}")
    from twigcast.lang.flwr.printer import to_xquery

    return to_xquery


__all__ = ["is_transform", "parse_transform", "to_xquery"]
