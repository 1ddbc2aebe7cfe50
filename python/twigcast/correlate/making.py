"""The results of one message while they are put together, counted against the limits and the message's budget.

A message has one :class:`Results`, for itself and for what is derived of it. The kernel keeps to the limits for each of
these messages by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twigcast.correlate.default import Cut, Found
from twigcast.engine.failures import TOO_COSTLY, Failure
from twigcast.engine.shares import BUDGET_BYTES, BUDGET_RESULTS, RESULT_BYTES, RESULT_NODES, share
from twigcast.errors import SubscriptionError
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.subscription import SubscriptionId

MessageId = str | int


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


class Results:
    """The results of one message, within the limits of each subscription and the message's budget."""

    def __init__(self, message: MessageId, limits: Limits) -> None:
        self._message = message
        self._limits = limits
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
        count: Counter[tuple[int, tuple[bytes, ...]]] = Counter()
        while found:
            one = found.pop()  # so that payloads which nobody gets are freed
            id, payload = ids.get(one.number), one.payload
            if id is None or payload is None or not self._takes(id, len(payload)):  # it may be removed meanwhile
                continue
            correlation = of[id]
            named = [named_by(label) for label in one.messages]
            messages = tuple(name for name, _ in named)
            self._results.append(Correlated(id, messages, payload, one.nodes))
            if correlation.publish is not None:
                count[one.number, one.messages] += 1
                name = derived_id(correlation.publish, messages, count[one.number, one.messages])
                derived.append(Derived(name, correlation.publish, max(time for _, time in named), payload, id))
            if self._count > self._slack(self._limits.max_message_results) or self._size > self._slack(
                self._limits.max_message_result_bytes
            ):
                self._divide()
        for number, reason in cuts:
            id = ids.get(number)
            if id is not None:
                self._cut(id, reason)
        return derived

    def _cut(self, id: SubscriptionId, reason: str) -> None:
        """Note why a subscription gets no more."""
        mine = self._shares.setdefault(id, _Share())
        if reason != TOO_COSTLY:
            mine.reason = mine.reason or reason
        elif not mine.failed:  # one report, however many results it would have had
            mine.failed = True
            text = "what is shown took more than max_query_steps or max_query_bytes to find; simplify SELECT"
            self.failures.append(Failure(id, SubscriptionError(TOO_COSTLY, text)))

    def _takes(self, id: SubscriptionId, size: int) -> bool:
        """Count a result of so many bytes; return False if the subscription gets no more."""
        mine = self._shares.setdefault(id, _Share())
        if mine.reason is not None:
            return False
        if mine.results >= self._most_results:
            own = self._limits.max_result_nodes
            mine.reason = RESULT_NODES if self._most_results == own else BUDGET_RESULTS
            return False
        own = self._limits.max_result_bytes
        if mine.size + size > min(own, self._most_bytes):
            mine.reason = RESULT_BYTES if own <= self._most_bytes else BUDGET_BYTES
            return False
        mine.results += 1
        mine.size += size
        self._count += 1
        self._size += size
        return True

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


def label_of(id: MessageId, time: int) -> bytes:
    """Return what is kept with a message: its time, for what is derived of it, and its id."""
    return b"%d %b" % (time, written(id))


def written(id: MessageId) -> bytes:
    """Return an id with its type, as labels have it."""
    return f"{'i' if isinstance(id, int) else 's'}{id}".encode(errors="surrogatepass")


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
