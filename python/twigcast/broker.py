"""The broker in one process: subscribe, publish, explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock

from twigcast.engine import Engine, SubscriptionId
from twigcast.explain import Explanation as Explanation
from twigcast.explain import explain
from twigcast.limits import Limits
from twigcast.schema import Schema


@dataclass(frozen=True, slots=True)
class Match:
    """A message satisfies a subscription."""

    message: str | int
    subscription: SubscriptionId
    subscriber: str | None = None
    nodes: list[int] | None = field(default=None, hash=False)
    """The ids of the selected nodes, where the subscription asked for them (see ``twigcast.results``)."""
    fragments: list[bytes] | None = field(default=None, hash=False)
    """The selected nodes as XML, likewise."""
    complete: bool = True
    """False if a limit cut these, or the payload, off."""
    payload: bytes | None = None
    """The new message, where the subscription is a transform."""


class Broker:
    """Standing queries on one side, messages on the other.

    >>> broker = Broker()
    >>> broker.subscribe("/news//sport", id="s1", subscriber="ann")
    's1'
    >>> broker.publish(b"<news><uk><sport/></uk></news>", id="m1")
    [Match(message='m1', subscription='s1', subscriber='ann', nodes=None, fragments=None, complete=True, payload=None)]
    """

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        mode: str = "trie",
        predicates: str = "shared",
        sharing: str = "FWR",
        optimize: str = "schema",
        share_plans: bool = True,
        schema: Schema | str | Path | None = None,
        on_invalid: str = "fallback",
    ) -> None:
        """The options are those of ``Engine``."""
        self.engine = Engine(
            namespaces=namespaces,
            limits=limits,
            mode=mode,
            predicates=predicates,
            sharing=sharing,
            optimize=optimize,
            share_plans=share_plans,
            schema=schema,
            on_invalid=on_invalid,
        )
        self._subscribers: dict[SubscriptionId, str] = {}
        self._published = count(1)
        self._lock = Lock()  # whoever sees a subscription sees its subscriber

    def subscribe(
        self,
        query: str,
        *,
        id: SubscriptionId | None = None,
        subscriber: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        result: str = "match",
    ) -> SubscriptionId:
        """Leaves a standing query; raises QueryError, with the place, if it cannot be accepted."""
        with self._lock:
            id = self.engine.add(
                query, id=id, namespaces=namespaces, default_namespace=default_namespace, result=result
            )
            if subscriber is not None:
                self._subscribers[id] = subscriber
        return id

    def unsubscribe(self, id: SubscriptionId) -> None:
        with self._lock:
            self.engine.remove(id)
            self._subscribers.pop(id, None)

    def publish(self, xml: bytes, *, id: str | int | None = None) -> list[Match]:
        """Matches one message; raises MessageError, with the place, if it cannot be read.

        The message's id, where none is given, is the count of messages published so far.
        """
        number = next(self._published)
        message = number if id is None else id
        found = self.engine.select(xml)
        with self._lock:
            of = self._subscribers.get
            return [Match(message, s.id, of(s.id), s.nodes, s.fragments, s.complete, s.payload) for s in found]

    def explain(
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
    ) -> Explanation:
        """How the query would be evaluated; for one that is a mere path, also how many subscriptions are just that."""
        return explain(
            query,
            namespaces={**self.engine.namespaces, **(namespaces or {})},
            default_namespace=default_namespace,
            dialect=dialect,
            engine=self.engine,
        )
