"""Which deliveries go to which sinks: the ``[[routes]]`` of a configuration.

A delivery goes to the sinks of every route that fits it. A route without patterns takes what no other route takes.
Without routes everything goes to every sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.config import Route

_KEPT = 1 << 16


class Routing:
    def __init__(self, routes: Sequence[Route], sinks: Iterable[str]) -> None:
        self._rules = [_Rule(route) for route in routes]
        self._sinks = set(sinks)
        # Ids repeat from batch to batch, and patterns are slow to try.
        self._fits = lru_cache(_KEPT)(self._fitting)
        self._by_subscription = any(rule.subscriptions for rule in self._rules)

    def mask(self, sink: str, deliveries: pa.RecordBatch) -> pa.Array | None:
        """Which of the deliveries are for a sink; None if all are."""
        if not self._rules:
            return None
        subscribers = deliveries.column("subscriber").dictionary_encode(null_encoding="encode")
        if not self._by_subscription:
            chosen = [sink in self._fits(name, "") for name in subscribers.dictionary.to_pylist()]
            return pa.array(chosen, pa.bool_()).take(subscribers.indices)
        # Distinct pairs, so that Python looks at each once.
        subscriptions = deliveries.column("subscription").dictionary_encode()
        count = len(subscriptions.dictionary)
        pairs = pc.add(
            pc.multiply(subscribers.indices.cast(pa.int64()), count), subscriptions.indices.cast(pa.int64())
        ).dictionary_encode()
        names, ids = subscribers.dictionary.to_pylist(), subscriptions.dictionary.to_pylist()
        chosen = [sink in self._fits(names[pair // count], ids[pair % count]) for pair in pairs.dictionary.to_pylist()]
        return pa.array(chosen, pa.bool_()).take(pairs.indices)

    def sinks(self, subscriber: str | None, subscription: str) -> frozenset[str]:
        """Where one delivery goes."""
        return self._fits(subscriber, subscription) if self._rules else frozenset(self._sinks)

    def _fitting(self, subscriber: str | None, subscription: str) -> frozenset[str]:
        special = [rule for rule in self._rules if not rule.default and rule.fits(subscriber, subscription)]
        return frozenset(sink for rule in special or self._defaults for sink in rule.sinks)

    @property
    def _defaults(self) -> list[_Rule]:
        return [rule for rule in self._rules if rule.default]


@dataclass(slots=True)
class _Rule:
    route: Route
    sinks: list[str] = field(init=False)
    subscribers: re.Pattern[str] | None = field(init=False)
    subscriptions: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        self.sinks = self.route.sinks
        self.subscribers = _any(self.route.subscribers)
        self.subscriptions = _any(self.route.subscriptions)

    @property
    def default(self) -> bool:
        return self.subscribers is None and self.subscriptions is None

    def fits(self, subscriber: str | None, subscription: str) -> bool:
        """Where a route has both kinds of patterns, a delivery must fit one of each."""
        if self.subscribers is not None and (subscriber is None or not self.subscribers.match(subscriber)):
            return False
        return self.subscriptions is None or self.subscriptions.match(subscription) is not None


def _any(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns)) if patterns else None
