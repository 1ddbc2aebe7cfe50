"""Which deliveries go to which sinks.

With ``[[routes]]`` in the configuration, a delivery goes to the sinks of every route that fits it, and a route without
patterns takes what no other route takes. Without routes, a delivery goes to every sink that needs no target of the
subscriber, and to those that the subscriber has a target for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.config import AnySink, Route
from twigcast.delivery.targets import Targets

_KEPT = 1 << 16


class Routing:
    """The routes of a pipeline, or the default where it has none."""

    def __init__(self, routes: Sequence[Route], sinks: Mapping[str, AnySink], targets: Targets) -> None:
        self._rules = [_Rule(route) for route in routes]
        self._need_targets = {name: sink.kind for name, sink in sinks.items() if sink.needs_target}
        self._targets = targets
        # Ids repeat from batch to batch, and patterns are slow to try.
        self._fits = lru_cache(_KEPT)(self._fitting)
        self._by_subscription = any(rule.subscriptions for rule in self._rules)

    def mask(self, sink: str, deliveries: pa.RecordBatch) -> pa.Array | None:
        """Return which of the deliveries are for a sink; None if all are."""
        if not self._rules and sink not in self._need_targets:
            return None
        subscribers = deliveries.column("subscriber").dictionary_encode(null_encoding="encode")
        if not self._rules:
            kind = self._need_targets[sink]
            chosen = [self._targets.of(name, kind) is not None for name in subscribers.dictionary.to_pylist()]
            return pa.array(chosen, pa.bool_()).take(subscribers.indices)
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

    def _fitting(self, subscriber: str | None, subscription: str) -> frozenset[str]:
        special = [rule for rule in self._rules if not rule.default and rule.fits(subscriber, subscription)]
        defaults = (rule for rule in self._rules if rule.default)
        return frozenset(sink for rule in special or defaults for sink in rule.sinks)


class _Rule:
    """A route with its patterns compiled."""

    def __init__(self, route: Route) -> None:
        self.sinks = route.sinks
        self.subscribers = _any(route.subscribers)
        self.subscriptions = _any(route.subscriptions)

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
