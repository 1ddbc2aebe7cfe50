"""What a subscription may ask to be told beyond that it matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import Any, overload

from twigcast.common.text import shown
from twigcast.engine.shares import Result, measure, within_budget
from twigcast.errors import OptionError, QueryError, Span
from twigcast.limits import Limits
from twigcast.plan.planner import Plan
from twigcast.subscription import RESULTS, SubscriptionId

RESULT_FIELDS = ("nodes", "fragments", "complete", "payload", "reason")
"""The fields of ``MATCH`` that are a ``twigcast.engine.shares.Result``."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A matched subscription, and what it selects if it asked for that."""

    id: str | int
    nodes: list[int] | None = None
    fragments: list[bytes] | None = None
    complete: bool = True
    """False if a limit or the message's budget cut the list, or all of the payload, off; or if the list is of that part
    of a large document that could be read."""
    payload: bytes | None = None
    """The new message that a transform made."""
    reason: str | None = None
    """Why results are missing: one of ``twigcast.engine.shares.REASONS``."""

    __repr__ = shown


@dataclass(frozen=True, slots=True)
class Match:
    """A message satisfies a subscription."""

    message: str | int
    subscription: SubscriptionId
    subscriber: str | None = None
    nodes: list[int] | None = field(default=None, hash=False)
    """The ids of the selected nodes, where the subscription asked for them (see ``twigcast.engine.results``)."""
    fragments: list[bytes] | None = field(default=None, hash=False)
    """The selected nodes as XML, likewise."""
    complete: bool = True
    """False if results are missing: nodes, fragments, the payload, or further results of a correlation."""
    payload: bytes | None = None
    """The new message, where the subscription is a transform or a correlation."""
    messages: tuple[str | int, ...] | None = field(default=None, repr=False)
    """What was joined, in the order of the query's blocks, where the subscription is a correlation."""
    reason: str | None = field(default=None, repr=False)
    """Why results are missing: a limit of the subscription or the message's budget (see ``twigcast.engine.shares``)."""

    __repr__ = shown


Details = tuple[str | int, Result, tuple[str | int, ...] | None]
"""What a match has beyond the subscription: its message, its results, and what was joined if it is a correlation's."""

NOTHING: Result = (None, None, True, None, None)
"""The result of a subscription that asks for the match only."""


class Matches(Sequence[Match]):
    """The matches of one message: a sequence that equals the list of them.

    They are kept as columns, and a :class:`Match` is made when it is asked for. Whoever needs to know only which
    subscriptions matched takes ``subscriptions``, which costs next to nothing.

    >>> from twigcast import Broker
    >>> broker = Broker()
    >>> _ = broker.subscribe("/news", id="s1")
    >>> found = broker.publish(b"<news/>", id="m1")
    >>> found, found.subscriptions
    ([Match(message='m1', subscription='s1')], ['s1'])
    """

    __slots__ = ("_details", "_subscribers", "_subscriptions", "message")

    def __init__(
        self,
        message: str | int,
        subscriptions: list[SubscriptionId],
        subscribers: Sequence[str | None] | None = None,
        details: Mapping[int, Details] | None = None,
    ) -> None:
        """Take columns: the subscribers are None if no match has one, the details are by place where there are any."""
        self.message = message
        """The id of the message that was published."""
        self._subscriptions = subscriptions
        self._subscribers = subscribers
        self._details = details

    @property
    def subscriptions(self) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that matched, in the order of the matches, as a list of your own."""
        return self._subscriptions.copy()

    def __len__(self) -> int:
        return len(self._subscriptions)

    @overload
    def __getitem__(self, place: int) -> Match: ...
    @overload
    def __getitem__(self, place: slice) -> list[Match]: ...
    def __getitem__(self, place: int | slice) -> Match | list[Match]:
        places = range(len(self._subscriptions))[place]
        return self._match(places) if isinstance(places, int) else list(map(self._match, places))

    def __iter__(self) -> Iterator[Match]:
        return map(self._match, range(len(self._subscriptions)))

    def _match(self, place: int) -> Match:
        subscription = self._subscriptions[place]
        subscriber = None if self._subscribers is None else self._subscribers[place]
        details = self._details and self._details.get(place)
        if not details:
            return Match(self.message, subscription, subscriber)
        message, (nodes, fragments, complete, payload, reason), messages = details
        return Match(message, subscription, subscriber, nodes, fragments, complete, payload, messages, reason)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Matches, list)):
            return len(self) == len(other) and all(map(eq, self, other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> list[Match]:
        return [*self, *other] if isinstance(other, (Matches, list)) else NotImplemented

    def __radd__(self, other: Any) -> list[Match]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


class Parts:
    """The matches of one message, and of what is derived from it, part by part and within the message's budget.

    Filters, transforms and correlations keep to the budget each for themselves. Together they may have more for a
    moment, and are cut where that is a quarter more.
    """

    def __init__(self, message: str | int, limits: Limits) -> None:
        self.ids: list[SubscriptionId] = []
        self.details: dict[int, Details] = {}
        self._message = message
        self._limits = limits
        self._results = self._size = 0
        self._parts = 0

    def add(self, message: str | int, ids: list[SubscriptionId], results: Mapping[int, Result]) -> None:
        """Add what an engine found for a message: the subscriptions, and the results by place."""
        if message != self._message:  # else only matches with results have details
            results = {place: results.get(place, NOTHING) for place in range(len(ids))}
        self._add(ids, ((place, (message, result, None)) for place, result in results.items()))

    def add_joined(self, found: Iterable[tuple[SubscriptionId, tuple[str | int, ...], Result]]) -> None:
        """Add the results of correlations, each with the ids of the messages that it joins."""
        found = list(found)
        details = ((self._message, result, messages) for _, messages, result in found)
        self._add([id for id, _, _ in found], enumerate(details))

    def _add(self, ids: list[SubscriptionId], details: Iterable[tuple[int, Details]]) -> None:
        if not ids:
            return
        start = len(self.ids)
        self.ids += ids
        self._parts += 1
        for place, one in details:
            self.details[start + place] = one
            self._count(one[1])
        limits = self._limits
        if self._results > limits.max_message_results * 5 // 4 or self._size > limits.max_message_result_bytes * 5 // 4:
            self._cut()

    def _count(self, result: Result) -> None:
        count, size = measure(result)
        self._results += count
        self._size += size

    def finish(self) -> None:
        """Keep to the budget."""
        if self._parts > 1:
            self._cut()

    def _cut(self) -> None:
        before = [(self.ids[place], result) for place, (_, result, _) in self.details.items()]
        after = within_budget(before, self._limits)
        if after is before:
            return
        cut = {place: result for place, (_, result) in zip(self.details, after, strict=True)}
        ids, details = self.ids, self.details
        self.ids, self.details = [], {}
        self._results = self._size = 0
        marked: set[SubscriptionId] = set()
        for place, id in enumerate(ids):
            if place in cut:
                (message, _, messages), result = details[place], cut[place]
                if messages is not None and result[3] is None:
                    # the first result of a correlation that is missing stands for all that are
                    if id in marked:
                        continue
                    marked.add(id)
                    messages = (message,)
                self.details[len(self.ids)] = message, result, messages
                self._count(result)
            self.ids.append(id)


def check_result(result: object) -> None:
    if result not in RESULTS:
        hint = f"the results are {', '.join(RESULTS)}"
        raise OptionError("unknown-result", f"there is no result {result!r}", hint=hint)


def check_deliver_empty(value: object, *, is_transform: bool) -> None:
    if not isinstance(value, bool):
        raise OptionError("bad-deliver-empty", f'"deliver_empty" is true or false, not {value!r}')
    if value and not is_transform:
        hint = "it is for transforms: a filter makes nothing that could be empty"
        raise OptionError("bad-deliver-empty", 'a filter has no "deliver_empty"', hint=hint)


def check_selects(query: str, result: str, plan: Plan) -> None:
    """Refuses a query that selects nothing, for a result that is what it selects."""
    if plan.is_node_set:
        return
    text = f"the query is true or false of a message and selects no {result}"
    hint = 'ask for the result "match", or write a path to the nodes that you want'
    raise QueryError("not-a-node-set", text, hint=hint, source=query, span=Span(0, len(query)))
