"""The broker in one process: subscribe, publish, explain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from twigcast.common.forking import refuse_if_forked_in_use
from twigcast.common.removed import refuse_removed
from twigcast.correlate.default import MAX_BYTES, TOO_MUCH, Prepared, Seen
from twigcast.correlate.engine import (
    Correlated,
    Correlations,
    Derived,
    Outcome,
    PublishedRow,
    check_correlation,
    published_error,
)
from twigcast.correlate.explain import CorrelationExplanation, explain_correlation
from twigcast.correlate.making import MessageId
from twigcast.engine import Engine, Subscription, SubscriptionId, TextPath
from twigcast.engine import Failure as Failure
from twigcast.engine.columns import message_of
from twigcast.engine.failures import AFTER, UNCOUNTED, WITHIN, PauseRule, Streak, pause_reason
from twigcast.engine.results import Details, Matches, Parts
from twigcast.engine.shares import Result
from twigcast.errors import MessageError, OptionError, SubscriptionError
from twigcast.explain import Explanation as Explanation
from twigcast.explain import explain
from twigcast.ir.correlation import Correlation
from twigcast.lang.flwr import is_transform
from twigcast.lang.kinds import check_dialect_of
from twigcast.lang.names import check_namespaces
from twigcast.lang.unsatisfiable import NeverMatches
from twigcast.lang.xscl import is_correlation
from twigcast.limits import Limits
from twigcast.schema import Schema
from twigcast.schema.check import check
from twigcast.subscription import check_query, is_id
from twigcast.transform.explanation import TransformExplanation
from twigcast.units import ENDLESS, duration_option, size_option, time_option

if TYPE_CHECKING:
    from twigcast.relational.engine import RelationalEngine

_LOG = logging.getLogger(__name__)

AT_ONCE = 256
"""Messages that ``publish_many`` gives to the kernel together."""

_NONE: list[SubscriptionId] = []


class Read(NamedTuple):
    """What ``Broker.read`` finds in a message."""

    ids: list[SubscriptionId]
    results: dict[int, Result]
    seen: Seen | None
    text: bytes | None
    failed: list[Failure]


@dataclass(frozen=True, slots=True)
class _Paused:
    """A paused subscription, as it is added again, and why it was paused."""

    source: Subscription
    reason: str


class Broker:
    """Standing queries on one side, messages on the other.

    ``engine`` is ``automaton``, in memory, or ``relational``, in a ``database`` (docs/relational.md).

    >>> broker = Broker()
    >>> broker.subscribe("/news//sport", id="s1", subscriber="ann")
    's1'
    >>> broker.publish(b"<news><uk><sport/></uk></news>", id="m1")
    [Match(message='m1', subscription='s1', subscriber='ann')]
    >>> len(broker), "s1" in broker
    (1, True)
    """

    # ``twigcast.papers.Broker`` has others.
    _make_engine: Callable[..., Engine] = Engine
    _make_correlations: Callable[..., Correlations] = Correlations

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        lateness: float | str | None = None,
        max_state_bytes: int | str = MAX_BYTES,
        max_ahead: float | str | None = None,
        engine: str = "automaton",
        database: str | None = None,
        pause_after: int = AFTER,
        pause_within: int = WITHIN,
        schema: Schema | str | Path | None = None,
        on_invalid: str = "fallback",
        **removed: Any,
    ) -> None:
        """Make a broker without subscriptions.

        ``lateness`` and ``max_state_bytes`` are for correlations: see ``twigcast.correlate.engine``. Where messages
        come from others who set their times, ``max_ahead`` bounds how far a time may be ahead of the clock: one message
        from the far future would make all later ones late. Without it there is no bound, since times need not be those
        of the clock. Durations are numbers of seconds or texts such as ``"5 min"``, sizes are numbers or texts such as
        ``"64M"``: see ``twigcast.units``.

        ``schema`` and ``on_invalid`` are options of ``Engine``. With a schema, a query that no valid message can match
        is refused.

        With ``engine="relational"`` filters are tables of ``database``, and matching is a join: see
        ``twigcast.relational``.

        A subscription that fails on ``pause_after`` of ``pause_within`` messages in succession is paused: see
        ``paused``. With ``pause_after=0`` none is.
        """
        refuse_removed("Broker", removed)
        self._engine_of = partial(self._make_engine, namespaces=namespaces, limits=limits)
        self.engine: Engine | RelationalEngine
        if engine == "relational":
            from twigcast.relational.engine import RelationalEngine

            if schema is not None:
                raise OptionError("bad-engine", "the relational engine has no option schema")
            self.engine = RelationalEngine(database, namespaces=namespaces, limits=limits)
        elif engine != "automaton":
            hint = "the engines are automaton and relational"
            raise OptionError("unknown-engine", f"there is no engine {engine!r}", hint=hint)
        elif database is not None:
            raise OptionError("bad-engine", "a database belongs to the relational engine")
        else:
            self.engine = self._engine_of(schema=schema, on_invalid=on_invalid)
        self.correlations = self._make_correlations(
            namespaces=namespaces,
            lateness=None if lateness is None else duration_option("lateness", lateness, ENDLESS),
            max_bytes=size_option("max_state_bytes", max_state_bytes),
            limits=limits,
            engine=self.engine if isinstance(self.engine, Engine) else None,
        )
        self._max_ahead = None if max_ahead is None else duration_option("max_ahead", max_ahead)
        # filters and transforms that read one stream only
        self._streams: dict[str, Engine] = {}
        self._subscribers: dict[SubscriptionId, str] = {}
        self._never = NeverMatches()
        # a relational engine has its filters itself
        self._subscriptions: dict[SubscriptionId, Subscription] = {}
        self._next_id = 1
        self._published = 0
        self._newest = 0
        # subscriptions that can fail by themselves: they are added again when they are resumed
        self._failing: dict[SubscriptionId, Subscription] = {}
        self._paused: dict[SubscriptionId, _Paused] = {}
        self._pausing = PauseRule(pause_after, pause_within)
        self._streaks: dict[SubscriptionId, Streak] = {}
        self._lock = RLock()
        self._counting = Lock()
        refuse_if_forked_in_use(self, "_lock", "_counting")

    def subscribe(
        self,
        query: str,
        *,
        id: SubscriptionId | None = None,
        subscriber: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
        result: str = "match",
        deliver_empty: bool = False,
        stream: str | None = None,
        allow_never: bool = False,
    ) -> SubscriptionId:
        """Add a subscription and return its id; raise QueryError, with the place, if the query cannot be accepted.

        A query that no message can match is refused (``never-matches``) unless ``allow_never``. ``dialect`` says how a
        filter is read: ``w3c``, or ``tian``, where a leading / or // in a predicate is relative.

        A filter or transform reads every message that is published here, or only those of ``stream``, which may be one
        that a correlation makes (PUBLISH). A correlation names its streams itself. ``deliver_empty``: a transform makes
        its empty outer element where a message binds nothing.
        """
        check_query(query)
        check_namespaces(namespaces, default_namespace)
        check_dialect_of(query, dialect)
        _check_text("a subscriber", subscriber)
        _check_text("a stream", stream)
        prepared: Prepared | Correlation | None = None
        if is_correlation(query):
            prepared = self.correlations.prepare(query, namespaces, default_namespace)
        scope = {**self.engine.namespaces, **namespaces} if namespaces else self.engine.namespaces
        is_possible = isinstance(prepared, Prepared) and prepared.shape.possible
        # what is compared with reference data may be anything
        is_possible |= "$" in query and not isinstance(self.engine, Engine)
        if not allow_never and not is_possible:
            error = self._never(query, scope, default_namespace, dialect=dialect, deliver_empty=deliver_empty is True)
            if error is not None:
                raise error
        schema = self.engine.schema if isinstance(self.engine, Engine) else None
        if schema is not None and prepared is None and stream is None:
            self.engine.check(Subscription("", query, namespaces, default_namespace, dialect))
            check(schema, query, namespaces=scope, default_namespace=default_namespace, dialect=dialect)
        with self._lock:
            if id is None:
                while self._has(self._next_id):
                    self._next_id += 1
                id = self._next_id
            elif self._has(id):
                hint = "choose another id, or unsubscribe that one first"
                raise OptionError("duplicate-id", f"there is a subscription {id!r} already", hint=hint)
            elif not is_id(id):
                raise OptionError("bad-id", f"a subscription's id is a string or a whole number of 64 bits, not {id!r}")
            given = Subscription(id, query, namespaces, default_namespace, dialect, result, deliver_empty, stream)
            if subscriber is not None:
                self._subscribers[id] = subscriber  # before it can match: ``publish`` does not wait for the lock
            try:
                self._enter(given, prepared)
            except BaseException:
                self._subscribers.pop(id, None)
                raise
            if isinstance(self.engine, Engine) or id not in self.engine:
                self._subscriptions[id] = given
        return id

    def _enter(self, given: Subscription, prepared: Prepared | Correlation | None) -> None:
        """Add a subscription to its engine, or ``prepared``, a parsed correlation, to the correlations."""
        if prepared is not None:
            check_correlation(given.result, given.stream)
            self.correlations.add(given.id, prepared, given.query)
            return
        own = None if given.stream is None else self._streams.get(given.stream) or self._engine_of()
        engine = self.engine if own is None else own
        engine.add_many([given])
        if given.stream is not None and own is not None:
            self._streams[given.stream] = own
        if isinstance(engine, Engine) and engine.may_fail(given.id):
            self._failing[given.id] = given

    def subscriptions(self) -> Iterator[Subscription]:
        """Return the subscriptions, as they were given. Those added or removed meanwhile may be among them or not."""
        if not isinstance(self.engine, Engine):
            yield from self.engine.subscriptions()
        with self._lock:
            own = list(self._subscriptions.values())
        yield from own

    def __iter__(self) -> Iterator[Subscription]:
        return self.subscriptions()

    def __len__(self) -> int:
        with self._lock:
            return len(self._subscriptions) + (0 if isinstance(self.engine, Engine) else len(self.engine))

    def __contains__(self, subscription: object) -> bool:
        """Return whether there is a subscription with this id; a Subscription stands for its id."""
        id = subscription.id if isinstance(subscription, Subscription) else subscription
        with self._lock:
            return is_id(id) and self._has(id)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True  # a broker without subscriptions is a broker

    def __repr__(self) -> str:
        kind = "automaton" if isinstance(self.engine, Engine) else "relational"
        return f"<Broker: {len(self):,} subscriptions, engine {kind}>"

    def _has(self, id: SubscriptionId) -> bool:
        engines = (self.engine, *self._streams.values())
        return is_id(id) and (id in self._paused or id in self.correlations or any(id in e for e in engines))

    def unsubscribe(self, id: SubscriptionId) -> None:
        """Remove a subscription, be it active or paused. Messages published after this call no longer match it."""
        with self._lock:
            if is_id(id) and id in self._paused:
                del self._paused[id]
            else:
                self._take_out(id)
            self._failing.pop(id, None)
            self._streaks.pop(id, None)
            self._subscribers.pop(id, None)
            self._subscriptions.pop(id, None)

    def _take_out(self, id: SubscriptionId) -> None:
        """Remove a subscription from what matches it."""
        if is_id(id) and id in self.correlations:
            self.correlations.remove(id)
        else:
            own = [engine for engine in self._streams.values() if is_id(id) and id in engine]
            (own[0] if own else self.engine).remove(id)

    @property
    def paused(self) -> dict[SubscriptionId, str]:
        """The subscriptions that were paused because they kept failing, each with the reason.

        They match nothing until :meth:`resume` makes them active again.
        """
        with self._lock:
            return {id: one.reason for id, one in self._paused.items()}

    def resume(self, id: SubscriptionId) -> None:
        """Make a paused subscription active again, with its count of failures at zero.

        A correlation sees the messages that are published from now on.

        Raises
        ------
        OptionError
            If no paused subscription has this id.
        """
        with self._lock:
            one = self._paused.pop(id, None) if is_id(id) else None
            if one is None:
                text = f"there is no paused subscription {id!r}"
                raise OptionError("not-paused", text, hint="broker.paused has the paused ones")
            try:
                if is_correlation(one.source.query):
                    prepared = self.correlations.prepare(
                        one.source.query, one.source.namespaces, one.source.default_namespace
                    )
                    self.correlations.add(id, prepared)
                else:
                    self._engine(one.source.stream).add_many([one.source])
            except BaseException:
                self._paused[id] = one
                raise

    def _engine(self, stream: str | None) -> Engine:
        engine = self.engine if stream is None else self._streams[stream]
        assert isinstance(engine, Engine)  # the relational engine has no subscriptions that fail
        return engine

    def _count(self, failures: list[Failure], number: int) -> None:
        """Count the failures on a message, and pause the subscriptions that keep failing."""
        with self._lock:
            for failure in failures:
                id, error = failure.id, failure.error
                source = self._failing.get(id) or (self._subscriptions.get(id) if id in self.correlations else None)
                if source is None or id in self._paused or error.code in UNCOUNTED:
                    continue
                streak = self._streaks[id] = self._pausing.count(self._streaks.get(id), 1, number - 1)
                if self._pausing.pauses(streak, number):
                    reason = pause_reason(streak, number, error.code, error.text)
                    self._take_out(id)
                    del self._streaks[id]
                    self._paused[id] = _Paused(source, reason)
                    _LOG.warning("the subscription %r is paused: %s", id, reason)

    def publish(
        self,
        xml: bytes,
        *,
        id: str | int | None = None,
        time: Any = None,
        stream: str | None = None,
        failures: list[Failure] | None = None,
        read: Read | None = None,
    ) -> Matches:
        """Match one message; raises MessageError, with the place, if it cannot be read.

        The message's id, where none is given, is the count of messages published so far. ``time`` is when it happened,
        for correlations: a datetime, or a number or text as ``twigcast.units`` reads it; now if it is not given. What
        correlations publish is matched too, as a message of its own. Subscriptions that cannot be evaluated on the
        message are appended to ``failures`` (or logged): the others get their matches. One that keeps failing is paused
        (see ``paused``). ``read`` is what ``read`` found in the message, if it has been called.

        The result is a sequence of :class:`Match` that equals the list of them; ``subscriptions`` are their ids alone.
        """
        if type(xml) is not bytes:
            xml = message_of(xml)
        if stream is not None:
            _check_text("a stream", stream)
        if failures is not None and not isinstance(failures, list):
            raise OptionError("bad-failures", f"failures is a list, not {type(failures).__name__}")
        if id is not None and not is_id(id):
            raise OptionError("bad-id", f"a message's id is a string or a whole number of 64 bits, not {id!r}")
        at = None if time is None else self._checked(time_option(time))
        with self._counting:
            number = self._published = self._published + 1
        message = number if id is None else id
        if read is None and self._is_together(stream):
            return self._publish_alone(xml, message, number, stream, at, failures)
        failed: list[Failure] = []
        seen: Seen | None = None
        if read is not None:
            ids, results, seen, _, failed = read
        elif self.correlations and isinstance(self.engine, Engine):
            version, streams = self.correlations.asked_of(stream or "")
            ids, results, witness, _ = self.engine.process(xml, failed, streams)
            seen = Seen(version, witness) if witness is not None else None
        else:
            ids, results = self.engine.find(xml, failed)
        details: Mapping[int, Details] | None = None
        if stream in self._streams or self.correlations:
            parts = Parts(message, self.engine.limits)
            parts.add(message, ids, results)
            self._add_streams(parts, xml, message, at, stream, failed, seen)
            ids, details = parts.ids, parts.details
        elif results:
            details = {place: (message, result, None) for place, result in results.items()}
        if failed:
            self._fail(failed, number, message, failures)
        subscribers = list(map(self._subscribers.get, ids)) if self._subscribers else None
        return Matches(message, ids, subscribers, details)

    def _is_together(self, stream: str | None) -> bool:
        """Whether one call of the kernel finds all that matches a message."""
        engine, correlations = self.engine, self.correlations
        return (
            len(correlations) > 0
            and correlations.is_in_kernel
            and stream not in self._streams
            and isinstance(engine, Engine)
            and engine.reads_alone
        )

    def _publish_alone(
        self,
        xml: bytes,
        message: MessageId,
        number: int,
        stream: str | None,
        at: int | None,
        failures: list[Failure] | None,
    ) -> Matches:
        """Publish a message in one call of the kernel."""
        engine = self.engine
        assert isinstance(engine, Engine)
        began, clock = engine.reuses, self._times if at is None else lambda _: at
        _, rows, error = self.correlations.publish_many([xml], stream or "", message, clock, engine.selects)
        if error is not None:
            raise error
        if not rows:
            return Matches(message, _NONE)
        found, failed = self._matches_of(engine, message, rows[0], began)
        if failed:
            self._fail(failed, number, message, failures)
        return found

    def read(self, xml: bytes, stream: str | None, text: TextPath) -> Read:
        """Read a message for ``publish``, and the text at a path in it. Subscriptions must not change in between."""
        assert isinstance(self.engine, Engine), "the relational engine reads no streams"
        failed: list[Failure] = []
        version, streams = self.correlations.asked_of(stream or "")
        ids, results, witness, found = self.engine.process(xml, failed, streams, text)
        seen = None if witness is None else Seen(version, witness)
        return Read(ids, results, seen, found, failed)

    def _fail(self, failed: list[Failure], number: int, message: MessageId, failures: list[Failure] | None) -> None:
        """Tell the caller of failures, or the log."""
        self._count(failed, number)
        if failures is not None:
            failures += failed
            return
        for failure in failed:
            _LOG.warning("the subscription %r failed on %r: %s", failure.id, message, failure.error)

    def _add_streams(
        self,
        parts: Parts,
        xml: bytes,
        message: MessageId,
        at: int | None,
        stream: str | None,
        failed: list[Failure],
        seen: Seen | None,
    ) -> None:
        """Add the matches of subscriptions that read streams, those that correlations make included."""
        if stream is not None and stream in self._streams:
            parts.add(message, *self._streams[stream].find(xml, failed))
        if self.correlations:
            outcome = self._correlate(xml, message, self._times() if at is None else at, stream or "", failed, seen)
            self._add_outcome(parts, outcome, failed)
        parts.finish()

    def _add_outcome(self, parts: Parts, outcome: Outcome, failed: list[Failure]) -> None:
        """Add the results of correlations, and the matches of what they publish."""
        parts.add_joined(_joined(outcome.results))
        for made in outcome.derived:
            if made.stream in self._streams:
                parts.add(made.id, *self._find(made, failed))

    def publish_many(
        self, messages: Iterable[bytes], *, stream: str | None = None, failures: list[Failure] | None = None
    ) -> Iterator[Matches]:
        """Publish messages one after the other; yield the matches of each as ``publish`` returns them.

        Messages of a list or tuple are published in batches of up to 256 where there are correlations, which is
        quicker: those of a batch are published when the matches of its first one are asked for, and a subscription that
        a message pauses may still be tried on the rest of the batch. Messages of any other iterable are published when
        their own matches are asked for.

        Raises MessageError at the first message that cannot be read; those before it have been published, and none
        after it.
        """
        if isinstance(messages, (bytes, bytearray, memoryview, str)) or not isinstance(messages, Iterable):
            text = f"messages are an iterable of bytes, not {type(messages).__name__}"
            raise OptionError("bad-message", text, hint="publish takes a single message")
        if not isinstance(messages, (list, tuple)):
            return (self.publish(xml, stream=stream, failures=failures) for xml in messages)
        if stream is not None:
            _check_text("a stream", stream)
        if failures is not None and not isinstance(failures, list):
            raise OptionError("bad-failures", f"failures is a list, not {type(failures).__name__}")
        return self._publish_lists(messages, stream, failures)

    def _publish_lists(
        self, messages: Sequence[bytes], stream: str | None, failures: list[Failure] | None
    ) -> Iterator[Matches]:
        for start in range(0, len(messages), AT_ONCE):
            some = messages[start : start + AT_ONCE]
            if self._is_together(stream) and not self.correlations.derives and isinstance(self.engine, Engine):
                good = [xml for xml in some if type(xml) is bytes]
                if len(good) == len(some):
                    yield from self._publish_together(self.engine, good, stream, failures)
                    continue
            for xml in some:
                yield self.publish(xml, stream=stream, failures=failures)

    def _publish_together(
        self, engine: Engine, messages: list[bytes], stream: str | None, failures: list[Failure] | None
    ) -> Iterator[Matches]:
        """Publish messages in calls of the kernel that end where the results of a call are large."""
        with self._counting:
            first, last = self._published + 1, self._published + len(messages)
            self._published = last
        while messages:
            began = engine.reuses
            taken, rows, error = self.correlations.publish_many(
                messages, stream or "", first, self._times, engine.selects
            )
            if error is not None:
                with self._counting:
                    if self._published == last:  # nobody else has published: the ids of the rest are free again
                        self._published = first + taken
            found = [Matches(number, _NONE) for number in range(first, first + taken)]
            failed = {}
            for one in rows:
                found[one[0]], of_row = self._matches_of(engine, first + one[0], one, began)
                if of_row:
                    failed[one[0]] = of_row
            for row, matches in enumerate(found):
                if row in failed:
                    self._fail(failed[row], first + row, first + row, failures)
                yield matches
            if error is not None:
                raise error
            messages, first = messages[taken:], first + taken

    def _matches_of(
        self, engine: Engine, message: MessageId, one: PublishedRow, began: int
    ) -> tuple[Matches, list[Failure]]:
        _, numbers, results, exceeded, outcome, refusal = one
        failed: list[Failure] = []
        ids: list[SubscriptionId] = []
        if numbers or exceeded:
            ids, results = engine.finish(numbers, results, exceeded, failed, began)
        details: Mapping[int, Details]
        if isinstance(outcome, list) and not results:
            places = enumerate(outcome, len(ids))
            details = {at: (message, (None, None, True, payload, None), of) for at, (_, payload, of) in places}
            ids = [*ids, *[id for id, _, _ in outcome]]
        else:
            parts = Parts(message, self.engine.limits)
            parts.add(message, ids, results)
            if isinstance(outcome, Outcome):
                failed += outcome.failures
                self._add_outcome(parts, outcome, failed)
            else:
                parts.add_joined(_joined(Correlated(id, joined, payload) for id, payload, joined in outcome))
            parts.finish()
            ids, details = parts.ids, parts.details
        if refusal is not None:
            failed += self._failures_of_all(refusal)
        subscribers = list(map(self._subscribers.get, ids)) if self._subscribers else None
        return Matches(message, ids, subscribers, details), failed

    def _failures_of_all(self, error: MessageError) -> list[Failure]:
        return [Failure(id, SubscriptionError(error.code, error.text)) for id in self.correlations.ids]

    def _correlate(
        self, xml: bytes, message: str | int, at: int, stream: str, failed: list[Failure], seen: Seen | None
    ) -> Outcome:
        try:
            outcome = self.correlations.publish(xml, id=message, time=at, stream=stream, seen=seen)
        except MessageError as error:
            if error.code != TOO_MUCH:
                raise
            failed += self._failures_of_all(error)
            return Outcome([], [])
        failed += outcome.failures
        return outcome

    def _find(self, made: Derived, failed: list[Failure]) -> tuple[list[SubscriptionId], dict[int, Result]]:
        """Match what a correlation published. If it cannot be read, that correlation has failed."""
        try:
            return self._streams[made.stream].find(made.xml, failed)
        except MessageError as error:  # beyond a limit, which is no fault of the message that completed it
            failure = Failure(made.subscription, published_error(made, error))
            if failure.id not in {one.id for one in failed}:  # else it is known from the correlations
                failed.append(failure)
            return [], {}

    def _checked(self, time: int) -> int:
        """Return the time, or raise a MessageError if it is too far ahead of the clock."""
        if self._max_ahead is not None and time > time_ns() // 1000 + self._max_ahead:
            text = f"the time of the message is more than max_ahead ({self._max_ahead / 1e6:g} s) ahead of the clock"
            raise MessageError("time-ahead", text, line=0, column=0, offset=0)
        return time

    def _times(self, count: int = 1) -> int:
        """Return the first of so many times in a row, later than the last one, so that what is published later also
        happened later."""
        with self._counting:
            first = max(self._newest + 1, time_ns() // 1000)
            self._newest = first + count - 1
            return first

    def explain(
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
    ) -> Explanation | TransformExplanation | CorrelationExplanation:
        """Return how the query would be evaluated; of a filter, also how many subscriptions share its path or shape."""
        check_query(query)
        check_namespaces(namespaces, default_namespace)
        scope = {**self.engine.namespaces, **(namespaces or {})}
        if is_correlation(query):
            return explain_correlation(query, namespaces=scope, default_namespace=default_namespace)
        if is_transform(query) and isinstance(self.engine, Engine):
            return TransformExplanation(
                query, namespaces=scope, default_namespace=default_namespace, schema=self.engine.schema
            )
        return explain(
            query,
            namespaces=scope,
            default_namespace=default_namespace,
            dialect=dialect,
            engine=self.engine if isinstance(self.engine, Engine) else None,
        )


def _joined(found: Iterable[Correlated]) -> Iterator[tuple[SubscriptionId, tuple[MessageId, ...], Result]]:
    """Yield the results of correlations as ``Parts`` takes them."""
    for one in found:
        yield one.subscription, one.messages, (None, None, one.payload is not None, one.payload, one.reason)


def _check_text(what: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise OptionError("bad-option", f"{what} is named by a string, not {type(value).__name__}")
