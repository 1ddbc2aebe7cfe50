"""Correlations in one process: queries in, messages in event time in, results out.

What a strategy finds gets its ids and its payload here, and what is published goes in again as a message of its own
stream, right after the message that completed it (SEMANTICS 18-25). Results come by the message that completes them,
then in the order in which the subscriptions came, then by the order of arrival of their messages, then by nodes.
"""

from __future__ import annotations

import builtins
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Protocol

from twigcast import _kernel
from twigcast.columns import raise_if
from twigcast.correlate.default import MAX_BYTES, Default, Found, warn_of_eviction
from twigcast.correlate.output import pieces, render
from twigcast.correlate.reference import derived_id
from twigcast.correlate.streams import check_streams
from twigcast.correlation import Correlation, Ref
from twigcast.errors import MessageError, OptionError, SubscriptionError, TwigcastError
from twigcast.failures import FATAL, MAX_TEXT, Failed, Failure, shortened
from twigcast.ids import SubscriptionId
from twigcast.lang.xscl import parse_correlation
from twigcast.limits import Limits
from twigcast.transform.nodes import Message

STRATEGIES = ("default", "mmqjp", "mmqjp-materialized", "sequential")
PUBLISHED = "published-unreadable"
"""The code of the failure of a correlation that publishes a message which cannot be read."""
MessageId = str | int
AT_ONCE = 1024
"""Messages that go to the kernel together."""
Copies = dict[tuple[int, int], bytes | None]
"""Elements by message and node, as long as these messages are at hand; None for what is no element."""


class Backend(Protocol):
    """What the strategies have in common. ``push`` answers whether the message was in time, and what it completes."""

    def add(self, number: int, correlation: Correlation) -> None: ...
    def remove(self, number: int) -> None: ...
    def push(self, stream: str, derived: bool, time: int, label: bytes, xml: bytes) -> tuple[bool, list[Found]]: ...
    def too_much(self) -> tuple[int, int] | None: ...
    def stats(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Correlated:
    """A result: ``messages`` are the ids of what was joined, in the order of the blocks."""

    subscription: SubscriptionId
    messages: tuple[MessageId, ...]
    payload: bytes | None
    """None if it is longer than a limit allows."""
    nodes: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Derived:
    """A message that a correlation published."""

    id: str
    stream: str
    time: int
    xml: bytes
    subscription: SubscriptionId
    """The correlation that published it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a message. ``late``: it was older than messages may be, and joins with nothing."""

    results: list[Correlated]
    derived: list[Derived]
    late: bool = False
    failures: list[Failure] = field(default_factory=list)
    """Correlations that could not be evaluated; the others were."""


class Correlations:
    """All correlations of a broker. Times are whole microseconds.

    ``lateness`` is how much older than the newest message one may be; by default as much as the longest window.
    ``max_bytes`` bounds what is kept of messages: beyond it the oldest go before their time, with a warning.
    """

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        strategy: str = STRATEGIES[0],
        lateness: int | None = None,
        max_bytes: int = MAX_BYTES,
        limits: Limits | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            hint = f"the strategies are {', '.join(STRATEGIES)}"
            raise OptionError("unknown-strategy", f"there is no strategy {strategy!r}", hint=hint)
        if lateness is not None and lateness < 0:
            raise OptionError("bad-lateness", "lateness is how much older than the newest a message may be: 0 or more")
        if not isinstance(max_bytes, int) or not 0 < max_bytes < 1 << 63:
            raise OptionError(
                "bad-state", f"the bytes of state are a whole number above 0, not {str(max_bytes)[:100]!r}"
            )
        self.namespaces = dict(namespaces or {})
        self.limits = limits or Limits()
        self.max_bytes = max_bytes
        self.backend = _backend(strategy, lateness, max_bytes, self.limits)
        self.on_eviction: Callable[[int, SubscriptionId | None, int], None] = warn_of_eviction
        """Called with how many messages were forgotten, who has the longest window, and ``max_bytes``."""
        self._of: dict[SubscriptionId, Correlation] = {}
        self._numbers: dict[SubscriptionId, int] = {}
        self._ids: dict[int, SubscriptionId] = {}
        self._pieces: dict[int, tuple[bytes | Ref, ...] | None] = {}
        self._next = 0
        self._published: Counter[str] = Counter()
        self._read: Counter[str] = Counter()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._of

    @property
    def ids(self) -> list[SubscriptionId]:
        return list(self._of)

    def get(self, id: SubscriptionId) -> Correlation | None:
        """Return a correlation; None if there is none with this id."""
        return self._of.get(id)

    def parse(
        self, query: str, namespaces: Mapping[str, str] | None = None, default_namespace: str | None = None
    ) -> Correlation:
        return parse_correlation(query, {**self.namespaces, **(namespaces or {})}, default_namespace)

    def add(self, id: SubscriptionId, correlation: Correlation, source: str | None = None) -> None:
        """Raises QueryError if it would read what it publishes. It sees the messages from now on (SEMANTICS 24)."""
        with self._lock:
            if id in self._of:
                raise OptionError("duplicate-id", f"there is a subscription {id!r} already")
            if correlation.publish is not None or self._published:
                check_streams({**self._of, id: correlation}, source)
            number = self._next
            self.backend.add(number, correlation)
            self._next += 1
            self._of[id], self._numbers[id], self._ids[number] = correlation, number, id
            if correlation.publish is not None:
                self._published[correlation.publish] += 1
            self._read.update(correlation.streams)

    def remove(self, id: SubscriptionId) -> None:
        with self._lock:
            correlation = self._of.pop(id)
            number = self._numbers.pop(id)
            self.backend.remove(number)
            del self._ids[number]
            self._pieces.pop(number, None)
            if correlation.publish is not None:
                self._published -= Counter([correlation.publish])
            self._read -= Counter(correlation.streams)

    def publish(self, xml: bytes, *, id: MessageId, time: int, stream: str = "") -> Outcome:
        """Takes a message in. Raises MessageError if it cannot be read. Without a stream it is on the one that
        correlations read, if they name but one; else it is for those blocks that name none."""
        if stream in self._published:
            hint = f"name the stream otherwise; the published ones are {', '.join(sorted(self._published))}"
            raise OptionError("derived-stream", f"the stream {stream!r} is what a correlation publishes", hint=hint)
        with self._lock:
            taken, found = self.backend.push(self._stream(stream), False, time, _label(id, time), xml)
            outcome = Outcome([], [], not taken)
            pending = deque(self._made(found, outcome))
            while pending:
                one = pending.popleft()
                outcome.derived.append(one)
                try:
                    _, found = self.backend.push(one.stream, True, one.time, _label(one.id, one.time), one.xml)
                except MessageError as error:  # it is a level deeper than what it is made of, and may be beyond a limit
                    outcome.failures.append(Failure(one.subscription, published_error(one, error)))
                    continue
                pending += self._made(found, outcome)
            self._warn()
        return outcome

    def publish_all(
        self, messages: Sequence[tuple[bytes, MessageId, int, str]]
    ) -> Iterator[tuple[int, Outcome | TwigcastError]]:
        """As ``publish`` for (XML, id, time, stream) one after another: what came of those of which something did, by
        their places. Quicker, unless correlations read what others publish."""
        if self._published or not isinstance(self.backend, Default):
            for place, (xml, id, time, stream) in enumerate(messages):
                try:
                    outcome = self.publish(xml, id=id, time=time, stream=stream)
                except TwigcastError as error:
                    yield place, error
                    continue
                if outcome.results or outcome.derived or outcome.late or outcome.failures:
                    yield place, outcome
            return
        for start in range(0, len(messages), AT_ONCE):
            some = messages[start : start + AT_ONCE]
            with self._lock:
                streams = [self._stream(stream) for _, _, _, stream in some]
                labels = [_label(id, time) for _, id, time, _ in some]
                times, texts = [time for _, _, time, _ in some], [xml for xml, _, _, _ in some]
                told: list[tuple[int, Outcome | TwigcastError]] = []
                copies: Copies = {}
                for place, taken, found, refusal in self.backend.push_many(streams, times, labels, texts):
                    outcome = Outcome([], [], not taken)
                    self._made(found, outcome, copies)
                    told.append((start + place, refusal or outcome))
                self._warn()
            yield from told

    def _stream(self, name: str) -> str:
        """What a message is on that names no stream: the one that correlations read, if they name but one."""
        if name:
            return name
        named = [one for one in self._read if one and one not in self._published]
        return named[0] if len(named) == 1 else ""

    def _made(self, found: list[Found], outcome: Outcome, copies: Copies | None = None) -> list[Derived]:
        """Append results and failures to the outcome. Return what is published of the results."""
        if not found:
            return []
        copies = {} if copies is None else copies
        found.sort(key=lambda one: one.number)  # stable: the rest of the order is that of the strategy
        derived: list[Derived] = []
        trees: dict[int, Message] = {}
        payloads: dict[Any, bytes] = {}
        count: Counter[tuple[int, tuple[bytes, ...]]] = Counter()
        failed: set[int] = set()
        for one in found:
            id = self._ids[one.number]
            correlation = self._of[id]
            labels = tuple(kept.label for kept in one.messages)
            # those who ask for the same get the same
            key = (tuple(map(builtins.id, one.messages)), one.nodes, correlation.select, correlation.shown)
            payload = payloads.get(key)
            if payload is None:
                try:
                    payload = self._joined(correlation, one, copies)
                    if payload is None:
                        payload = _payload(correlation, one, trees, self.limits)
                except FATAL:
                    raise
                except BaseException as error:
                    if one.number not in failed:  # one report, however many results it would have had
                        failed.add(one.number)
                        why = Failed.of(one.number, error, "correlation-failed").error
                        outcome.failures.append(Failure(id, why))
                    continue
                payloads[key] = payload
            named = [_named(label) for label in labels]
            messages = tuple(name for name, _ in named)
            fitting = len(payload) <= self.limits.max_result_bytes
            outcome.results.append(Correlated(id, messages, payload if fitting else None, one.nodes))
            if correlation.publish is not None and fitting:
                count[one.number, labels] += 1
                name = derived_id(correlation.publish, messages, count[one.number, labels])
                derived.append(Derived(name, correlation.publish, max(time for _, time in named), payload, id))
        return derived

    def _joined(self, correlation: Correlation, found: Found, copies: Copies) -> bytes | None:
        """A payload of whole elements, without a tree of their messages; None if more is asked for."""
        if found.number not in self._pieces:
            self._pieces[found.number] = pieces(correlation.template)
        parts = self._pieces[found.number]
        if parts is None:
            return None
        of = dict(zip(correlation.shown, found.nodes, strict=True))
        text: list[bytes] = []
        for part in parts:
            if isinstance(part, bytes):
                text.append(part)
                continue
            kept, node = found.messages[part.block], of[part]
            copied = copies.get((id(kept), node), b"")
            if copied == b"":
                found_elements, error = _kernel.elements(kept.xml, [node], self.limits.of_kernel())
                raise_if(error)
                copied = copies[id(kept), node] = found_elements[0]
            if copied is None:
                return None
            text.append(copied)
        return b"".join(text)

    def _warn(self) -> None:
        forgotten = self.backend.too_much()
        if forgotten is not None:
            count, number = forgotten
            self.on_eviction(count, self._ids.get(number), self.max_bytes)

    def stats(self) -> dict[str, Any]:
        """Counts: messages, late, stored, bytes, expired, evicted, …"""
        with self._lock:
            return self.backend.stats()


def _payload(correlation: Correlation, found: Found, trees: dict[int, Message], limits: Limits) -> bytes:
    parts: list[tuple[Message, dict[int, int]]] = []
    for kept in found.messages:
        if id(kept) not in trees:
            trees[id(kept)] = Message(kept.xml, limits)
        parts.append((trees[id(kept)], {}))
    for ref, node in zip(correlation.shown, found.nodes, strict=True):
        parts[ref.block][1][ref.variable] = node
    return render(correlation, parts)


def published_error(made: Derived, error: MessageError) -> SubscriptionError:
    """Return the failure of a correlation whose published message cannot be read."""
    text = f"{made.id}, which it published on {made.stream!r}, cannot be read: {error.code}: {error.text}"
    return SubscriptionError(PUBLISHED, shortened(text, MAX_TEXT))


def _label(id: MessageId, time: int) -> bytes:
    """What is kept with a message: its time, for what is derived of it, and its id, with its type."""
    return f"{time} {'i' if isinstance(id, int) else 's'}{id}".encode(errors="surrogatepass")


def _named(label: bytes) -> tuple[MessageId, int]:
    time, _, id = label.decode(errors="surrogatepass").partition(" ")
    return int(id[1:]) if id[0] == "i" else id[1:], int(time)


def _backend(strategy: str, lateness: int | None, max_bytes: int, limits: Limits) -> Backend:
    if strategy == "default":
        return Default(lateness=lateness, max_bytes=max_bytes, limits=limits)
    from twigcast.correlate.others import Other

    return Other(strategy, lateness=lateness, limits=limits)


def check_correlation(result: str, stream: str | None) -> None:
    """What a correlation has no use for."""
    if result != "match":
        hint = 'leave "result" out: a correlation always gives the message it makes'
        raise OptionError("bad-result", f"a correlation has no {result}", hint=hint)
    if stream is not None:
        hint = 'leave "stream" out: the query names its streams, as in S//a'
        raise OptionError("bad-stream", "a correlation reads the streams that its blocks name", hint=hint)
