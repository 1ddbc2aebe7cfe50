"""The broker in one process: subscribe, publish, explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from twigcast.engine import Engine, SubscriptionId
from twigcast.errors import OptionError
from twigcast.explain import Explanation as Explanation
from twigcast.explain import explain
from twigcast.limits import Limits

if TYPE_CHECKING:
    from twigcast.relational.engine import RelationalEngine


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

    ``engine`` is ``automaton``, in memory, or ``relational``, in a ``database`` (docs/relational.md).

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
        engine: str = "automaton",
        database: str | None = None,
        plan: str | None = None,
    ) -> None:
        self.engine: Engine | RelationalEngine
        if engine == "relational":
            from twigcast.relational.engine import RelationalEngine

            self.engine = RelationalEngine(database, plan=plan, namespaces=namespaces, limits=limits)
        elif engine != "automaton":
            hint = "the engines are automaton and relational"
            raise OptionError("unknown-engine", f"there is no engine {engine!r}", hint=hint)
        elif database is not None or plan is not None:
            raise OptionError("bad-engine", "a database and a plan belong to the relational engine")
        else:
            self.engine = Engine(namespaces=namespaces, limits=limits, mode=mode, predicates=predicates)
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
            engine=self.engine if isinstance(self.engine, Engine) else None,
        )
