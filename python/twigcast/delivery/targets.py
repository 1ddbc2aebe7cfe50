"""Where subscribers want their deliveries, as the store has it; remembered for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Protocol

from twigcast.errors import OptionError

KEPT = 10.0
"""Seconds for which a target is believed without asking the store again."""

Settings = Mapping[str, Mapping[str, str]]


class HasTargets(Protocol):
    @property
    def targets(self) -> Settings: ...


class Subscribers(Protocol):
    """The part of :class:`twigcast.store.Store` that sinks need."""

    def subscriber(self, id: str) -> HasTargets: ...


class Targets:
    def __init__(self, subscribers: Subscribers | None = None) -> None:
        self._subscribers = subscribers
        self._known: dict[str, tuple[float, Settings]] = {}
        self._lock = threading.Lock()

    def of(self, subscriber: str | None, kind: str) -> Mapping[str, str] | None:
        """Return the target that a subscriber has for a kind of sink; None if it has none, or is not known."""
        if subscriber is None or self._subscribers is None:
            return None
        now = time.monotonic()
        with self._lock:
            known = self._known.get(subscriber)
            if known is None or now - known[0] > KEPT:
                try:
                    known = now, self._subscribers.subscriber(subscriber).targets
                except OptionError:  # no longer there; an unreachable store is another error, and the caller's
                    known = now, {}
                self._known[subscriber] = known
        return known[1].get(kind)
