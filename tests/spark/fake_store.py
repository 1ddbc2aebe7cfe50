"""A store in memory, for what needs the interface of one only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from twigcast.engine import Subscription


@dataclass(frozen=True)
class Record:
    id: str
    query: str
    subscriber: str | None = None
    max_delay: int | None = None
    stream: str | None = None
    result: str = "match"
    kind: str = "filter"
    namespaces: None = None
    default_namespace: None = None
    version: int = 0

    def to_subscription(self) -> Subscription:
        return Subscription(self.id, self.query, result=self.result)


@dataclass(frozen=True)
class Changes:
    version: int
    added: list[Record]
    removed: list[str]


@dataclass
class FakeStore:
    records: dict[str, Record] = field(default_factory=dict)
    history: list[tuple[str, Record | None]] = field(default_factory=list)
    broken: Exception | None = None
    paused: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> int:
        if self.broken is not None:
            raise self.broken
        return len(self.history)

    def put(self, id: str, query: str, **options: Any) -> None:
        self.records[id] = Record(id, query, **options)
        self.history.append((id, self.records[id]))

    def drop(self, id: str) -> None:
        del self.records[id]
        self.history.append((id, None))

    def changes(self, since: int) -> Changes:
        last = dict(self.history[since:])
        return Changes(len(self.history), [r for r in last.values() if r], [id for id, r in last.items() if r is None])

    def load(self) -> tuple[int, Iterable[Record]]:
        return self.version, iter(list(self.records.values()))

    def pause_failing(self, id: str, reason: str, since: int) -> bool:
        self.paused[id] = reason
        self.drop(id)
        return True
