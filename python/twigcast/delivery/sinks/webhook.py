"""HTTP webhooks, signed as Standard Webhooks has it; sent from the outbox until they succeed or expire.

A target is called again with the same ``webhook-id`` when its answer was lost: it can tell by that. One thread decides
what is due; calls are made by a pool of threads; what became of them is written down in groups.
"""

from __future__ import annotations

import dataclasses
import http.client
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from twigcast.common.references import resolve
from twigcast.config import WebhookSink as Settings
from twigcast.delivery import slots
from twigcast.delivery.addresses import ForbiddenAddress
from twigcast.delivery.breaker import Breaker, retry_pause
from twigcast.delivery.http import Answer, Call, header_value, origin, signed
from twigcast.delivery.log import Piece
from twigcast.delivery.single import Waiting
from twigcast.delivery.sinks.base import Batch, Context, Sink, SinkError
from twigcast.errors import TwigcastError
from twigcast.store.targets import check_secret

logger = logging.getLogger(__name__)

MOST_QUEUED = 50_000
"""With so many waiting, further batches stay in the log."""
MOST_COUNTED = 1_000
"""Of one subscriber's deliveries that wait, so many count for ``MOST_QUEUED``: a slow target must not keep the
deliveries of others in the log."""
MOST_STORED = 20 * MOST_QUEUED
"""So many may wait in any case: a database with more is slow."""
UNSENDABLE = "the URL, the secret or a header is not one that can be sent"
"""In the place of the error's own text, which may repeat the value of a header."""
_TICK = 0.5
_LAST = 5.0
"""Seconds that calls under way are given when the sink ends; what they did not tell is sent again."""


@dataclass(slots=True)
class _Target:
    breaker: Breaker
    busy: set[int] = field(default_factory=set)
    idle: list[Call] = field(default_factory=list)
    calls: dict[int, tuple[Call, float]] = field(default_factory=dict)
    """Under way, by delivery, with the time by which they must end."""
    served: float = 0.0
    """When a call was last begun."""
    took: float = 0.0
    """Seconds that the last finished call took."""

    def load(self, now: float, timeout: float) -> slots.Load:
        """Return what the target takes of the sink's slots. A call that has not ended counts with its age."""
        longest = max((now - (deadline - timeout) for _, deadline in list(self.calls.values())), default=0.0)
        return slots.Load(len(self.busy), max(self.took, longest) >= slots.SLOW)


@dataclass(frozen=True, slots=True)
class _Where:
    url: str
    secret: str | None
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Result:
    target: str
    waiting: Waiting
    answer: Answer | None
    error: str
    final: bool = False
    """No use in trying again."""


class WebhookSink(Sink):
    def __init__(self, name: str, settings: Settings, context: Context) -> None:
        super().__init__(name)
        self._settings = settings
        self._outbox = context.outbox
        self._dead = context.dead
        self._own = context.targets
        self._targets: dict[str, _Target] = {}
        self._next: dict[str, float] = {}
        """When each target is to be looked at again."""
        self._crowded: set[str] = set()
        """Targets that are due and wait for a slot, which some call must free first."""
        self._results: queue.SimpleQueue[_Result | None] = queue.SimpleQueue()
        self._unsettled: list[_Result] = []
        self._pool = ThreadPoolExecutor(slots.MOST_CALLS, f"webhook-{name}")
        self._thread = threading.Thread(target=self._run, name=f"webhook-{name}", daemon=True)
        self._stopping = False
        self._queued: dict[str, int] = {}
        """How many deliveries wait, by target."""
        if settings.url is not None:
            self._shared_target(settings.url)  # a secret that cannot be had is told at the start

    # -- taking batches -----------------------------------------------------------------------------------------------

    def deliver(self, batch: Batch) -> None:
        try:
            self._outbox.enqueue(self.name, batch.stream, batch.batch, batch.pieces(), self._key)
        except sqlite3.Error as error:
            raise SinkError(f"cannot write to {self._outbox.database.path}: {error}") from error
        self._results.put(None)

    def undelivered(self, batch: Batch) -> Iterator[Piece]:
        if not self._outbox.enqueued(self.name, batch.stream, batch.batch):
            yield from batch.pieces()

    @property
    def ready(self) -> bool:
        queued = self._queued
        # The empty key is the sink's own URL. Its deliveries all count, or a single target would fill the database.
        counted = sum(count if not key else min(count, MOST_COUNTED) for key, count in list(queued.items()))
        return counted < MOST_QUEUED and sum(list(queued.values())) < MOST_STORED

    @property
    def waiting(self) -> int:
        return self._outbox.queued(self.name)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        self._results.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                waiting = self._outbox.targets(self.name)
                self._next = {key: when for key, (when, _) in waiting.items()}
                self._queued = {key: count for key, (_, count) in waiting.items()}
                self._settle()
                self._turn()
            except Exception:  # the outbox may be on a full disk; this thread must outlive that
                logger.exception("webhook sink %s", self.name)
                time.sleep(_TICK)
        self._last_results()

    def _last_results(self) -> None:
        """Record the calls that succeed while the sink ends."""
        end = time.time() + _LAST
        while any(target.busy for target in self._targets.values()):
            if time.time() > end:
                for target in self._targets.values():
                    for call, _ in list(target.calls.values()):
                        call.cut()
            try:
                result = self._results.get(timeout=0.1)
                if result is not None:
                    self._unsettled.append(result)
                    self._settle()
            except queue.Empty:
                continue
            except sqlite3.Error:
                return

    def _turn(self) -> None:
        """Begin and settle calls until a batch comes in, which may bring targets that are not known yet."""
        while not self._stopping:
            now = time.time()
            self._start_calls(now)
            self._cut_off(now)
            soonest = min((when for key, when in self._next.items() if key not in self._crowded), default=now + _TICK)
            try:
                first = self._results.get(timeout=min(max(soonest - time.time(), 0.005), _TICK))
            except queue.Empty:
                continue
            results = [first]
            with suppress(queue.Empty):
                while True:
                    results.append(self._results.get_nowait())
            self._unsettled += [result for result in results if result is not None]
            self._settle()
            if None in results:
                return

    def _start_calls(self, now: float) -> None:
        """Begin the calls that are due, as far as there are slots; :mod:`twigcast.delivery.slots` shares them."""
        wanted = []
        for key in [key for key, when in self._next.items() if when <= now]:
            target = self._targets.setdefault(
                key, _Target(Breaker(self._settings.breaker_failures, self._settings.breaker_pause))
            )
            room = target.breaker.room(now, self._settings.concurrency, len(target.busy))
            if room > 0:
                wanted.append((target.served, key, room))
            else:
                # A call that ends looks at the target again; a pause ends by itself.
                self._next[key] = target.breaker.until if target.breaker.until > now else now + _TICK
        if not wanted:
            self._crowded.clear()
            return
        timeout, due = self._settings.timeout, {key for _, key, _ in wanted}
        loads = {
            key: target.load(now, timeout) for key, target in self._targets.items() if target.busy or key in due
        }  # fmt: skip
        given = slots.allot([(key, room) for _, key, room in sorted(wanted)], loads)
        self._crowded = {key for _, key, _ in wanted if key not in given}
        for _, key, room in wanted:
            if key in given:
                self._begin(key, now, given[key], room)

    def _begin(self, key: str, now: float, count: int, room: int) -> None:
        """Begin up to ``count`` calls to a target. It would take ``room``, but others need slots too."""
        target = self._targets[key]
        due = self._outbox.due(self.name, key, now, count, sorted(target.busy))
        for waiting in due:
            target.busy.add(waiting.id)
            target.served = now
            self._pool.submit(self._call, key, target, waiting)
        if len(due) < count:
            when = self._outbox.next_due(self.name, key, sorted(target.busy))
            if when is None:
                self._next.pop(key, None)
            else:
                self._next[key] = when
        elif count < room:
            self._crowded.add(key)

    def _cut_off(self, now: float) -> None:
        for target in self._targets.values():
            for call, deadline in list(target.calls.values()):
                if now > deadline:
                    call.cut()

    def _settle(self) -> None:
        """Write down what became of calls. Should that fail, it is done again: they are not made again meanwhile."""
        now, results = time.time(), self._unsettled
        done: list[int] = []
        later: list[tuple[int, float, int, str]] = []
        dead: list[tuple[Waiting, str, str]] = []
        for result in results:
            self._judge(result, now, done, later, dead)
        if dead:
            self._dead.add(self.name, dead)  # first: what is in both is not lost
            done += [waiting.id for waiting, _, _ in dead]
        if done or later:
            self._outbox.settle(done, later)
            self._outbox.put_off.add({self.name: len(later)})
        gone = set(done)
        for result in results:
            if result.waiting.id in gone and result.target in self._queued:
                self._queued[result.target] -= 1
            self._targets[result.target].busy.discard(result.waiting.id)
            self._next[result.target] = now
        self._unsettled = []

    def _judge(
        self,
        result: _Result,
        now: float,
        done: list[int],
        later: list[tuple[int, float, int, str]],
        dead: list[tuple[Waiting, str, str]],
    ) -> None:
        waiting, breaker, settings = result.waiting, self._targets[result.target].breaker, self._settings
        answer = result.answer
        if answer is not None and 200 <= answer.status < 300:
            breaker.succeeded()
            done.append(waiting.id)
            return
        asked = None if answer is None else answer.retry_after
        attempts = waiting.attempts + 1
        if answer is not None and answer.status == 429:
            # It is there and busy: no failure, so no attempt, but its wish for quiet holds for all.
            attempts = waiting.attempts
            breaker.wait(now + min(settings.backoff if asked is None else asked, settings.max_age))
        elif not result.final:
            breaker.failed(now)
        tried = dataclasses.replace(waiting, attempts=max(attempts, 1))
        if result.final or (answer is not None and answer.status == 410):
            dead.append((tried, "webhook-refused" if answer else "webhook-impossible", result.error))
        elif attempts >= settings.max_attempts:
            dead.append((tried, "webhook-attempts", result.error))
        elif now - waiting.created > settings.max_age:
            dead.append((tried, "webhook-age", result.error))
        else:
            pause = retry_pause(attempts, settings.backoff, settings.max_backoff)
            later.append((waiting.id, now + max(pause, min(asked or 0.0, settings.max_age)), attempts, result.error))

    # -- calling ------------------------------------------------------------------------------------------------------

    def _call(self, key: str, target: _Target, waiting: Waiting) -> None:
        try:
            result = self._try(key, target, waiting)
        except Exception as error:  # whatever it is, the delivery must be let go of
            # Nothing of a stranger's text, in a log or elsewhere: it may repeat the value of a header.
            text = str(error) if isinstance(error, TwigcastError) else f"unexpected {type(error).__name__}"
            logger.error("webhook sink %s: %s", self.name, text)
            result = _Result(key, waiting, None, text)
        self._results.put(result)

    def _try(self, key: str, target: _Target, waiting: Waiting) -> _Result:
        where = self._where(waiting.subscriber)
        if isinstance(where, str):
            return _Result(key, waiting, None, where, final=True)
        try:
            call = target.idle.pop() if target.idle else None
            if call is None or call.origin != origin(where.url):  # the target may have moved
                call = Call(where.url, self._settings.allow, self._settings.timeout)
        except ValueError:
            return _Result(key, waiting, None, UNSENDABLE, final=True)
        target.calls[waiting.id] = call, time.time() + self._settings.timeout
        try:
            answer = call.post(where.url, self._headers(waiting, where), waiting.content)
        except ForbiddenAddress as error:
            return _Result(key, waiting, None, str(error), final=True)
        except (OSError, http.client.HTTPException) as error:  # before ValueError: errors of TLS are both
            return _Result(key, waiting, None, f"{type(error).__name__}: {error}")
        except ValueError:
            return _Result(key, waiting, None, UNSENDABLE, final=True)
        finally:
            target.took = time.time() - (target.calls.pop(waiting.id)[1] - self._settings.timeout)
        target.idle.append(call)
        return _Result(key, waiting, answer, f"HTTP status {answer.status}")

    def _headers(self, waiting: Waiting, where: _Where) -> dict[str, str]:
        return {
            **where.headers,
            "Content-Type": "application/xml",
            "User-Agent": "twigcast",
            "Twigcast-Stream": header_value(waiting.stream),
            "Twigcast-Message": header_value(waiting.message),
            "Twigcast-Subscription": header_value(waiting.subscription),
            **signed(waiting.delivery, waiting.content, where.secret),
        }

    def _key(self, subscriber: str | None) -> str:
        """Return the key of a target, which has a breaker of its own: a subscriber, or the sink's own URL."""
        return subscriber or "" if self._own.of(subscriber, "webhook") is not None else ""

    def _where(self, subscriber: str | None) -> _Where | str:
        """Return where to send to, or why there is no such place. The subscriber's own target comes before the sink's.

        Secrets that are references are looked up here, at each call.
        """
        own = self._own.of(subscriber, "webhook")
        if own is not None:
            secret = own.get("secret")
            return _Where(own["url"], secret and resolve(secret, f"the webhook secret of {subscriber}"), {})
        if self._settings.url is not None:
            return self._shared_target(self._settings.url)
        who = "a subscription without a subscriber" if subscriber is None else f"the subscriber {subscriber}"
        return f"{who} has no webhook target, and the sink {self.name} has no url"

    def _shared_target(self, url: str) -> _Where:
        settings = self._settings
        secret = None
        if settings.secret is not None:
            secret = resolve(settings.secret.get_secret_value(), f"the secret of the sink {self.name!r}")
            check_secret(secret)
        headers = {
            name: resolve(value.get_secret_value(), f"the header {name!r} of the sink {self.name!r}")
            for name, value in settings.headers.items()
        }
        return _Where(url, secret, headers)
