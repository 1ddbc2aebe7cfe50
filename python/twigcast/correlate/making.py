"""The results of one message while they are made: payloads, counted against the limits and the message's budget.

A message has one :class:`Results`, for itself and for what is derived of it. Payloads of text and whole elements come
from the kernel. The others are rendered here: the trees of the joined messages are kept for as long as they are few, in
a :class:`Sources`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twigcast.correlate.default import Cut, Found, Kept
from twigcast.correlate.output import render
from twigcast.engine.failures import FATAL, Failed, Failure
from twigcast.engine.shares import BUDGET_BYTES, BUDGET_RESULTS, RESULT_BYTES, RESULT_NODES, share
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.subscription import SubscriptionId
from twigcast.transform.nodes import Message
from twigcast.transform.render import TooLong

MessageId = str | int

# Nodes of trees that are kept for other results with the same messages.
_NODES = 200_000


@dataclass(frozen=True, slots=True)
class Correlated:
    """A result: ``messages`` are the ids of what was joined, in the order of the blocks.

    Where a subscription does not get all results of a message, the last one has no payload but a ``reason``, and
    ``messages`` has the id of that message alone.
    """

    subscription: SubscriptionId
    messages: tuple[MessageId, ...]
    payload: bytes | None
    nodes: tuple[int, ...] = field(default=(), repr=False)
    reason: str | None = None
    """Why results are missing: one of ``twigcast.engine.shares.REASONS``, or ``too-much-to-correlate`` if there were
    more combinations than could be tried."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A message that a correlation published."""

    id: str
    stream: str
    time: int
    xml: bytes
    subscription: SubscriptionId
    """The correlation that published it."""


@dataclass(slots=True)
class _Share:
    """What a subscription has so far, and why it gets no more."""

    results: int = 0
    size: int = 0
    reason: str | None = None
    failed: bool = False


class Sources:
    """Trees of joined messages, each made once as long as there is room to keep it, and payloads made of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # with the messages themselves, so that their identities stay theirs
        self._trees: dict[int, tuple[Kept, Message]] = {}
        self._nodes = 0

    def payload(self, correlation: Correlation, found: Found, most: int) -> bytes:
        """Return the payload of a result; raise TooLong if it has more than ``most`` bytes."""
        if found.payload is not None:
            return found.payload
        parts: list[tuple[Message, dict[int, int]]] = [(self.tree(kept), {}) for kept in found.messages]
        for ref, node in zip(correlation.shown, found.nodes, strict=True):
            parts[ref.block][1][ref.variable] = node
        return render(correlation, parts, most)

    def tree(self, kept: Kept) -> Message:
        """Return the nodes of a message."""
        known = self._trees.get(id(kept))
        if known is not None:
            return known[1]
        tree = Message(kept.xml, self._limits)
        if self._nodes > _NODES:
            self._trees.clear()
            self._nodes = 0
        self._trees[id(kept)] = kept, tree
        self._nodes += len(tree.nodes)
        return tree


class Results:
    """The results of one message, within the limits of each subscription and the message's budget."""

    def __init__(self, message: MessageId, limits: Limits, sources: Sources | None = None) -> None:
        self._message = message
        self._limits = limits
        self._sources = sources or Sources(limits)
        self.failures: list[Failure] = []
        """Correlations whose results could not be made; the others were."""
        self._results: list[Correlated] = []
        self._shares: dict[SubscriptionId, _Share] = {}
        self._most_results = min(limits.max_result_nodes, limits.max_message_results)
        self._most_bytes = limits.max_message_result_bytes
        self._count = self._size = 0

    def add(
        self,
        found: list[Found],
        cuts: Iterable[Cut],
        ids: Mapping[int, SubscriptionId],
        of: Mapping[SubscriptionId, Correlation],
    ) -> list[Derived]:
        """Add what was found, and empty the list; return what is published of it."""
        found.sort(key=lambda one: one.number)  # stable: the rest of the order is that of the strategy
        found.reverse()
        derived: list[Derived] = []
        same: dict[Any, bytes] = {}
        count: Counter[tuple[int, tuple[bytes, ...]]] = Counter()
        while found:
            one = found.pop()  # so that payloads which nobody gets are freed
            id = ids.get(one.number)
            if id is None:  # removed meanwhile
                continue
            correlation = of[id]
            payload = self._payload(id, correlation, one, same)
            if payload is None:
                continue
            labels = tuple(kept.label for kept in one.messages)
            named = [named_by(label) for label in labels]
            messages = tuple(name for name, _ in named)
            self._results.append(Correlated(id, messages, payload, one.nodes))
            if correlation.publish is not None:
                count[one.number, labels] += 1
                name = derived_id(correlation.publish, messages, count[one.number, labels])
                derived.append(Derived(name, correlation.publish, max(time for _, time in named), payload, id))
            if self._count > self._slack(self._limits.max_message_results) or self._size > self._slack(
                self._limits.max_message_result_bytes
            ):
                self._divide()
                same.clear()
        for number, reason in cuts:
            id = ids.get(number)
            if id is not None:
                mine = self._shares.setdefault(id, _Share())
                mine.reason = mine.reason or reason
        return derived

    def _payload(
        self, id: SubscriptionId, correlation: Correlation, one: Found, same: dict[Any, bytes]
    ) -> bytes | None:
        """Return the payload of a result; None if the subscription gets no more."""
        mine = self._shares.setdefault(id, _Share())
        if mine.reason is not None:
            return None
        if mine.results >= self._most_results:
            own = self._limits.max_result_nodes
            mine.reason = RESULT_NODES if self._most_results == own else BUDGET_RESULTS
            return None
        own = self._limits.max_result_bytes
        most = min(own, self._most_bytes) - mine.size
        try:
            if one.payload is not None:
                payload = self._sources.payload(correlation, one, most)
            else:
                # those who ask for the same get the same
                key = (tuple(map(builtin_id, one.messages)), one.nodes, correlation.select, correlation.shown)
                payload = same.get(key) or same.setdefault(key, self._sources.payload(correlation, one, most))
            if len(payload) > most:
                raise TooLong
        except TooLong:
            mine.reason = RESULT_BYTES if own <= self._most_bytes else BUDGET_BYTES
            return None
        except FATAL:
            raise
        except BaseException as error:
            if not mine.failed:  # one report, however many results it would have had
                mine.failed = True
                self.failures.append(Failure(id, Failed.of(one.number, error, "correlation-failed").error))
            return None
        mine.results += 1
        mine.size += len(payload)
        self._count += 1
        self._size += len(payload)
        return payload

    @staticmethod
    def _slack(budget: int) -> int:
        return budget + budget // 4

    def _divide(self) -> None:
        """Divide the budget between the subscriptions, and take from those that have more than their share."""
        shares = self._shares.values()
        if self._count > self._limits.max_message_results:
            wanted = [one.results + (one.reason == BUDGET_RESULTS) for one in shares]
            level = share(wanted, self._limits.max_message_results)
            self._most_results = self._most_results if level is None else min(level, self._most_results)
        if self._size > self._limits.max_message_result_bytes:
            wanted = [self._most_bytes + 1 if one.reason == BUDGET_BYTES else one.size for one in shares]
            level = share(wanted, self._limits.max_message_result_bytes)
            self._most_bytes = self._most_bytes if level is None else min(level, self._most_bytes)
        kept: list[Correlated] = []
        had = {id: _Share(reason=one.reason, failed=one.failed) for id, one in self._shares.items()}
        full: set[SubscriptionId] = set()
        for one in self._results:
            mine, size = had[one.subscription], len(one.payload or b"")
            if one.subscription in full:
                continue
            if mine.results >= self._most_results or mine.size + size > self._most_bytes:
                mine.reason = BUDGET_RESULTS if mine.results >= self._most_results else BUDGET_BYTES
                full.add(one.subscription)
                continue
            mine.results += 1
            mine.size += size
            kept.append(one)
        self._results, self._shares = kept, had
        self._count, self._size = len(kept), sum(one.size for one in had.values())

    def finish(self) -> list[Correlated]:
        """Return the results, and last a mark for each subscription that does not get all of its own."""
        if self._count > self._limits.max_message_results or self._size > self._limits.max_message_result_bytes:
            self._divide()
        marks = [
            Correlated(id, (self._message,), None, reason=one.reason)
            for id, one in self._shares.items()
            if one.reason is not None
        ]
        return self._results + marks


builtin_id = id


def label_of(id: MessageId, time: int) -> bytes:
    """Return what is kept with a message: its time, for what is derived of it, and its id, with its type."""
    return f"{time} {'i' if isinstance(id, int) else 's'}{id}".encode(errors="surrogatepass")


def named_by(label: bytes) -> tuple[MessageId, int]:
    """Return the id and the time of a message."""
    return id_of(label), int(label.partition(b" ")[0])


def id_of(label: bytes) -> MessageId:
    """Return the id of a message."""
    id = label.partition(b" ")[2]
    return int(id[1:]) if id.startswith(b"i") else id[1:].decode(errors="surrogatepass")


def derived_id(stream: str, messages: Sequence[str | int], nth: int) -> str:
    """Return the id of a message that a correlation publishes: the same on every run."""
    return f"{stream}({','.join(map(str, messages))})" + (f"#{nth}" if nth > 1 else "")
