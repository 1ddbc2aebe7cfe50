"""Correlations in one process: queries in, messages in event time in, results out.

What a strategy finds gets its ids and its payload here, and what is published goes in again as a message of its own
stream, right after the message that completed it (SEMANTICS 18-25). Results come by the message that completes them,
then in the order in which the subscriptions came, then by the order of arrival of their messages, then by nodes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from twigcast import _kernel
from twigcast.common.forking import refuse_if_forked_in_use
from twigcast.correlate.default import (
    MAX_BYTES,
    Cut,
    Default,
    Found,
    Prepared,
    Seen,
    results_of,
    warn_of_eviction,
)
from twigcast.correlate.encode import condition
from twigcast.correlate.making import Correlated as Correlated
from twigcast.correlate.making import Derived as Derived
from twigcast.correlate.making import MessageId, Results, id_of, label_of, written
from twigcast.correlate.streams import check_streams
from twigcast.engine.failures import MAX_TEXT, Failure
from twigcast.engine.shares import Result
from twigcast.errors import MessageError, OptionError, SubscriptionError, TwigcastError, excerpt
from twigcast.ir.correlation import Correlation
from twigcast.lang.shape import Scope, scope_of
from twigcast.lang.xscl import Judged, parse_correlation, parse_judged
from twigcast.limits import Limits
from twigcast.subscription import SubscriptionId
from twigcast.transform.templates import Templates

if TYPE_CHECKING:
    from twigcast.engine import Engine

PUBLISHED = "published-unreadable"
"""The code of the failure of a correlation that publishes a message which cannot be read."""
AT_ONCE = 1024
"""Messages that go to the kernel together."""


class Backend(Protocol):
    """What the strategies have in common. ``push`` takes a message in and returns whether it was in time, what it
    completes, and the subscriptions that do not get all of that."""

    def add(self, number: int, correlation: Correlation) -> None: ...
    def remove(self, number: int) -> None: ...
    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes, seen: Seen | None = None
    ) -> tuple[bool, list[Found], list[Cut]]: ...
    def too_much(self) -> tuple[int, int] | None: ...
    def stats(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a message. ``late``: it was older than messages may be, and joins with nothing."""

    results: list[Correlated]
    derived: list[Derived]
    late: bool = False
    failures: list[Failure] = field(default_factory=list)
    """Correlations that could not be evaluated; the others were."""


Joined = tuple[SubscriptionId, bytes, tuple[MessageId, ...]]
"""A result: the subscription, its payload, and the messages that were joined."""


PublishedRow = tuple[
    int, list[int], dict[int, Result], list[tuple[int, str]], list[Joined] | Outcome, MessageError | None
]
"""What came of one of many messages that were published: its row; what ``Engine.finish`` takes; what it completed, as
mere results where there is nothing to say of them; and why correlations cannot be tried with it."""


class Correlations:
    """All correlations of a broker. Times are whole microseconds.

    ``lateness`` is how much older than the newest message one may be; by default as much as the longest window.
    ``max_bytes`` bounds what is kept of messages: beyond it the oldest go before their time, with a warning.
    With an ``engine``, its kernel reads the messages for correlations, too: see ``asked_of``. With ``portable``,
    messages may come with what another process has seen of them.
    """

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        lateness: int | None = None,
        max_bytes: int = MAX_BYTES,
        limits: Limits | None = None,
        engine: Engine | None = None,
        portable: bool = False,
    ) -> None:
        if lateness is not None and lateness < 0:
            raise OptionError("bad-lateness", "lateness must not be negative")
        if not isinstance(max_bytes, int) or not 0 < max_bytes < 1 << 63:
            raise OptionError(
                "bad-state", f"the bytes of state are a whole number above 0, not {str(max_bytes)[:100]!r}"
            )
        self.namespaces = dict(namespaces or {})
        self.limits = limits or Limits()
        self.max_bytes = max_bytes
        self._engine = engine
        self._portable = portable
        self.backend = self._make_backend(lateness)
        self.on_eviction: Callable[[int, SubscriptionId | None, int], None] = warn_of_eviction
        """Called with how many messages were forgotten, who has the longest window, and ``max_bytes``."""
        self._of: dict[SubscriptionId, Correlation] = {}
        self._numbers: dict[SubscriptionId, int] = {}
        self._ids: dict[int, SubscriptionId] = {}
        self._next = 0
        self._published: Counter[str] = Counter()
        self._read: Counter[str] = Counter()
        # the stream of messages that name none, once somebody has asked for it
        self._only: str | None = None
        self._lock = RLock()
        refuse_if_forked_in_use(self, "_lock")

    def _make_backend(self, lateness: int | None) -> Backend:
        options: dict[str, Any] = {"engine": self._engine, "portable": self._portable}
        return Default(lateness=lateness, max_bytes=self.max_bytes, limits=self.limits, **options)

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._of

    @property
    def ids(self) -> list[SubscriptionId]:
        return list(self._of)

    def prepare(
        self, query: str, namespaces: Mapping[str, str] | None = None, default_namespace: str | None = None
    ) -> Prepared | Correlation:
        """Return a correlation as ``add`` takes it. One of a known shape is not parsed again."""
        namespaces = {**self.namespaces, **namespaces} if namespaces else self.namespaces
        if not isinstance(self.backend, Default):
            return parse_correlation(query, namespaces, default_namespace)
        with self._lock:
            return self._templates.prepare(query, scope_of(namespaces, default_namespace))

    @cached_property
    def _templates(self) -> Templates[Judged, Prepared]:
        """The shapes of correlations, for the default backend."""
        assert isinstance(self.backend, Default)
        prepare = self.backend.prepare

        def parse(query: str, scope: Scope) -> Judged:
            namespaces, default, _ = scope
            return parse_judged(query, dict(namespaces), default)

        return Templates(parse, lambda judged: prepare(*judged), lambda judged: condition(judged.correlation))

    def add(self, id: SubscriptionId, one: Prepared | Correlation, source: str | None = None) -> None:
        """Raises QueryError if it would read what it publishes. It sees the messages from now on (SEMANTICS 24)."""
        correlation = one.shape.sample if isinstance(one, Prepared) else one
        with self._lock:
            if id in self._of:
                raise OptionError("duplicate-id", f"there is a subscription {id!r} already")
            if correlation.publish is not None or self._published:
                check_streams({**self._of, id: correlation}, source)
            number = self._next
            if isinstance(one, Prepared) and isinstance(self.backend, Default):
                self.backend.enter(number, one)
            else:
                self.backend.add(number, correlation)
            self._next += 1
            self._of[id], self._numbers[id], self._ids[number] = correlation, number, id
            if correlation.publish is not None:
                self._published[correlation.publish] += 1
            for stream in correlation.streams:
                self._read[stream] += 1
            self._only = None

    def remove(self, id: SubscriptionId) -> None:
        with self._lock:
            correlation = self._of.pop(id)
            number = self._numbers.pop(id)
            self.backend.remove(number)
            del self._ids[number]
            if correlation.publish is not None:
                self._published -= Counter([correlation.publish])
            for stream in correlation.streams:
                self._read[stream] -= 1
                if not self._read[stream]:
                    del self._read[stream]
            self._only = None

    def asked_of(self, stream: str) -> tuple[int, list[int]]:
        """Return what ``Engine.process`` is to look for in a message on a stream: the version of the blocks and the
        numbers of the streams that they read."""
        with self._lock:
            if not isinstance(self.backend, Default):
                return 0, []
            blocks = self.backend.blocks
            return blocks.version, blocks.streams(self._stream(stream), False)

    def publish(self, xml: bytes, *, id: MessageId, time: int, stream: str = "", seen: Seen | None = None) -> Outcome:
        """Takes a message in. Raises MessageError if it cannot be read. Without a stream it is on the one that
        correlations read, if they name but one; else it is for those blocks that name none. ``seen`` is what
        ``Engine.process`` found in it, if it has been read."""
        if stream in self._published:
            self._refuse(stream)
        with self._lock:
            taken, found, cuts = self.backend.push(self._stream(stream), False, time, label_of(id, time), xml, seen)
            outcome = self._outcome(id, found, cuts, late=not taken)
            self._warn()
        return outcome

    def _outcome(self, id: MessageId, found: list[Found], cuts: list[Cut], *, late: bool = False) -> Outcome:
        """Return what comes of a message that completed this; take in what is published of it."""
        results = Results(id, self.limits)
        derived: list[Derived] = []
        failures: list[Failure] = []
        pending = deque(results.add(found, cuts, self._ids, self._of))
        while pending:
            one = pending.popleft()
            derived.append(one)
            try:
                label = label_of(one.id, one.time)
                _, found, cuts = self.backend.push(one.stream, True, one.time, label, one.xml)
            except MessageError as error:  # it is a level deeper than what it is made of, and may be beyond a limit
                failures.append(Failure(one.subscription, published_error(one, error)))
                continue
            pending += results.add(found, cuts, self._ids, self._of)
        return Outcome(results.finish(), derived, late, failures + results.failures)

    def publish_all(
        self,
        messages: Sequence[tuple[bytes | None, MessageId, int, str]],
        witnesses: Sequence[bytes | None] | None = None,
    ) -> Iterator[tuple[int, Outcome | TwigcastError]]:
        """As ``publish`` for (XML, id, time, stream) one after another: what came of those of which something did, by
        their places. Quicker, unless correlations read what others publish. ``witnesses`` are what a portable
        ``Engine.process_batches`` has found in them; where that is nothing, there need be no XML."""
        if self._published or not isinstance(self.backend, Default):
            for place, (xml, id, time, stream) in enumerate(messages):
                seen = None if witnesses is None else self._seen(witnesses[place])
                try:
                    outcome = self.publish(xml or b"", id=id, time=time, stream=stream, seen=seen)
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
            labels = [label_of(id, time) for _, id, time, _ in some]
            times, texts = [time for _, _, time, _ in some], [xml for xml, _, _, _ in some]
            own = None if witnesses is None else witnesses[start : start + AT_ONCE]
            pushed = self.backend.push_many(streams, times, labels, texts, own)
            while True:
                # what has been made is handed on, so that no more is held than one message may have
                with self._lock:
                    one = next(pushed, None)
                    if one is None:
                        self._warn()
                        break
                    place, taken, found, cuts, refusal = one
                    outcome = self._outcome(some[place][1], found, cuts, late=not taken)
                yield start + place, refusal or outcome

    def _seen(self, witness: bytes | None) -> Seen | None:
        """Return what another process has seen of a message; None if it has to be read again."""
        if not isinstance(self.backend, Default):
            return None
        blocks = self.backend.blocks
        found = _kernel.Witness() if witness is None else blocks.kernel.read_witness(witness)
        return None if found is None else Seen(blocks.version, found)

    @property
    def is_in_kernel(self) -> bool:
        """Whether ``publish_many`` can take messages."""
        return isinstance(self.backend, Default)

    @property
    def derives(self) -> bool:
        """Whether some correlation publishes what it makes; then ``publish_many`` takes one message at a time."""
        return bool(self._published)

    def publish_many(
        self, xml: list[bytes], stream: str, id: MessageId, clock: Callable[[int], int], selecting: bool
    ) -> tuple[int, list[PublishedRow], MessageError | None]:
        """Publish messages in the engine and here, with ids from ``id`` on, and times from what ``clock`` returns for
        their number. Return how many were taken, the rows of which something came, and why the next cannot be read."""
        if stream in self._published:
            self._refuse(stream)
        with self._lock:
            assert isinstance(self.backend, Default)
            # with the lock, for what is published later has to be later
            time = clock(len(xml))
            first = id if isinstance(id, int) else written(id)
            taken, told, names, error = self.backend.publish(self._stream(stream), xml, time, first, selecting)
            labels, payloads = names
            messages = list(map(id_of, labels))
            rows: list[PublishedRow] = []
            for row, numbers, results, exceeded, found, cuts, refusal in told:
                outcome: list[Joined] | Outcome = []
                if cuts or (found and self._published):
                    message = id + row if isinstance(id, int) else id
                    outcome = self._outcome(message, results_of(found, names), cuts)
                elif found:
                    outcome = self._joined(found, messages, payloads)
                refused = None if refusal is None else MessageError.of_kernel(refusal)
                rows.append((row, numbers, results, exceeded, outcome, refused))
            self._warn()
        return taken, rows, None if error is None else MessageError.of_kernel(error)

    def _joined(
        self, found: Sequence[_kernel.Joined], messages: Sequence[MessageId], payloads: Sequence[bytes]
    ) -> list[Joined]:
        """Return the results of one message. All subscriptions get all of theirs."""
        joined = [
            (number, payloads[payload], of)
            for places, _, numbers, made in found
            for of in (tuple([messages[place] for place in places]),)
            for number, payload in zip(numbers, made, strict=True)
            if payload is not None
        ]
        joined.sort(key=itemgetter(0))  # stable: the rest of the order is that of the strategy
        return [(self._ids[number], payload, of) for number, payload, of in joined]

    def _refuse(self, stream: str) -> None:
        hint = f"name the stream otherwise; the published ones are {', '.join(sorted(self._published))}"
        raise OptionError("derived-stream", f"the stream {stream!r} is what a correlation publishes", hint=hint)

    def _stream(self, name: str) -> str:
        """What a message is on that names no stream: the one that correlations read, if they name but one."""
        if name:
            return name
        if self._only is None:
            named = [one for one in self._read if one and one not in self._published]
            self._only = named[0] if len(named) == 1 else ""
        return self._only

    def _warn(self) -> None:
        forgotten = self.backend.too_much()
        if forgotten is not None:
            count, number = forgotten
            self.on_eviction(count, self._ids.get(number), self.max_bytes)

    def stats(self) -> dict[str, Any]:
        """Counts: messages, late, stored, bytes, expired, evicted, …"""
        with self._lock:
            return self.backend.stats()


def published_error(made: Derived, error: MessageError) -> SubscriptionError:
    """Return the failure of a correlation whose published message cannot be read."""
    text = f"{made.id}, which it published on {made.stream!r}, cannot be read: {error.code}: {error.text}"
    return SubscriptionError(PUBLISHED, excerpt(text, MAX_TEXT))


def check_correlation(result: str, stream: str | None) -> None:
    """What a correlation has no use for."""
    if result != "match":
        hint = 'leave "result" out: a correlation always gives the message it makes'
        raise OptionError("bad-result", f"a correlation has no {result}", hint=hint)
    if stream is not None:
        hint = 'leave "stream" out: the query names its streams, as in S//a'
        raise OptionError("bad-stream", "a correlation reads the streams that its blocks name", hint=hint)
