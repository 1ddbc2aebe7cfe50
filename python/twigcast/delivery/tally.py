"""Counters that several threads add to."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Tally(Generic[K]):
    """How often things have happened in this process. It only grows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[K] = Counter()

    def add(self, counts: Mapping[K, int]) -> None:
        """Add to the counters."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> dict[K, int]:
        """Return a copy of the counters as they are now."""
        with self._lock:
            return dict(self._counts)
