"""Subscriptions as users write them down: files of one query per line, or of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Subscription:
    """A query, the id its owner knows it by, and the namespace prefixes it is written with."""

    query: str
    id: str | int | None = None
    namespaces: Mapping[str, str] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
