"""A subscription as it is given, before it is compiled, and what may go wrong with one alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twigcast.errors import MessageError
from twigcast.ids import SubscriptionId


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing query, as subscription files and stores hold it."""

    id: SubscriptionId
    query: str
    namespaces: Mapping[str, str] | None = None
    default_namespace: str | None = None
    dialect: str = "w3c"
    """``tian``: a leading / or // in a predicate is relative to the node it stands at (SEMANTICS 1)."""
    result: str = "match"
    """What ``select`` tells of a match: see ``twigcast.results``."""
    deliver_empty: bool = False
    """Of a transform: where nothing is bound, its outer element is delivered empty (SEMANTICS 15)."""
    stream: str | None = None
    """Only messages of this stream; an engine has but one, so that is for whoever has several."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A subscription that a message could not be tried with; the others were."""

    id: SubscriptionId
    error: MessageError
