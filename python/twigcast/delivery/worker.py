"""The threads that follow the logs: one per sink, and one for the dead letter."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.config import AnySink
from twigcast.delivery import held, streaks
from twigcast.delivery.breaker import retry_pause
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.log import Log, LogBatch, Piece
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.routing import Routing
from twigcast.delivery.single import singles
from twigcast.delivery.sinks import Batch, Sink
from twigcast.delivery.state import DEAD
from twigcast.engine.failures import PauseRule
from twigcast.errors import StateDamaged, TwigcastError

logger = logging.getLogger(__name__)

IDLE = 0.5
"""Seconds after which a thread looks again, should nobody wake it."""
TRIED = 3
"""Attempts that a batch has had before its age counts: a pipeline may have been off for days."""


class Worker(ABC):
    """A thread that takes batch after batch of every log, and tries again what it could not take."""

    def __init__(
        self, name: str, logs: Mapping[str, Log], outbox: Outbox, backoff: float = 1.0, max_backoff: float = 60.0
    ) -> None:
        self.name = name
        self.outbox = outbox
        self.logs = logs
        """May be replaced while the thread runs."""
        self.woken = threading.Event()
        self.passed: Callable[[], None] = lambda: None
        """Called after each batch."""
        self._backoff, self._max_backoff = backoff, max_backoff
        self._cursors: dict[str, int] = {}
        self._last = ""
        self._stopping = threading.Event()
        self.damage: StateDamaged | None = None
        """What was found wrong with the log when a batch was read."""
        self._since: float | None = None
        self._attempts = 0
        self._thread = threading.Thread(target=self._run, name=f"twigcast-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.woken.set()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def recall(self, stream: str) -> int:
        """Return the last batch that was taken by this or an earlier run."""

    @abstractmethod
    def take(self, batch: LogBatch) -> None:
        """Take all of a batch and remember that it was taken. Calls ``_recovered`` when nothing failed."""

    def cursor(self, stream: str) -> int:
        if stream not in self._cursors:
            # A sink that is new to the pipeline begins with what the log still has.
            self._cursors[stream] = max(self.recall(stream), self.logs[stream].forgotten)
        return self._cursors[stream]

    @property
    def idle(self) -> bool:
        """Nothing left to do."""
        return all(self.cursor(stream) >= log.last for stream, log in self.logs.items())

    def work(self) -> bool:
        """One step; False if there was nothing to do."""
        logs = self.logs
        # Streams take turns, whichever has more to do.
        for stream in sorted(logs, key=lambda name: (name <= self._last, name)):
            batch = next(logs[stream].batches(self.cursor(stream)), None)
            if batch is not None:
                self._take(batch)
                self._last = stream
                return True
        return False

    def _take(self, batch: LogBatch) -> None:
        self.take(batch)
        self._cursors[batch.stream] = batch.batch
        self.passed()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.woken.clear()
            try:
                worked = self.work()
            except Exception as error:
                self.damage = error if isinstance(error, StateDamaged) else None
                self._failed(error)
                continue
            self.damage = None
            if not worked:
                self.woken.wait(IDLE)

    def _failed(self, error: Exception) -> None:
        self._since = self._since or time.time()
        self._attempts += 1
        if self._attempts == 1:
            known = isinstance(error, TwigcastError)
            logger.error("%s is failing: %s", self.name, words(error), exc_info=None if known else error)
        try:
            self.outbox.failing(self.name, words(error), self._since, self._attempts)
        except Exception:  # the outbox may be on the same full disk
            logger.exception("the outbox is failing")
        self._stopping.wait(retry_pause(self._attempts, self._backoff, self._max_backoff))

    def _recovered(self) -> None:
        if self._since is not None:
            self.outbox.well(self.name)
            logger.warning("%s works again after %.0f s", self.name, time.time() - self._since)
            self._since, self._attempts = None, 0


class SinkWorker(Worker):
    """Takes batches to a sink: what is due at once; the rest is held back until it is."""

    def __init__(
        self,
        sink: Sink,
        settings: AnySink,
        logs: Mapping[str, Log],
        outbox: Outbox,
        dead: DeadLetters,
        routing: Routing,
    ) -> None:
        super().__init__(sink.name, logs, outbox, settings.backoff, settings.max_backoff)
        self.sink = sink
        self._settings = settings
        self._dead = dead
        self._routing = routing
        self._look = True
        """Something may be ready to be released though it is not due: a full digest, or one of an earlier run."""
        self._counted = ("", -1, 0)
        known = outbox.health(sink.name)
        if known is not None:
            self._since = known[0]  # failing since an earlier run

    def start(self) -> None:
        self.sink.start()
        super().start()

    def join(self) -> None:
        super().join()
        self.sink.close()

    def recall(self, stream: str) -> int:
        return self.outbox.cursor(self.name, stream)

    @property
    def idle(self) -> bool:
        return super().idle and not self._may_release() and self.sink.waiting == 0

    def undelivered(self) -> int:
        """Deliveries that wait in the log, in the sink's queue, or among those held back that are due."""
        count = self.sink.waiting + self.outbox.held_due(self.name, time.time())
        for stream, log in self.logs.items():
            with suppress(FileNotFoundError):  # taken and forgotten meanwhile
                for batch in log.batches(self.cursor(stream)):
                    count += sum(len(piece.deliveries) for piece in self._chosen(batch, delayed=None))
        return count

    def work(self) -> bool:
        return self.sink.ready and (self._release() or super().work())

    def take(self, batch: LogBatch) -> None:
        if batch.counts.deliveries:
            self._deliver(Batch(batch.stream, batch.batch, batch.time, lambda: self._chosen(batch, delayed=False)))
        with self.outbox.database.transaction() as db:
            if batch.counts.deliveries and batch.has_delayed:
                for piece in self._chosen(batch, delayed=True):
                    self.outbox.hold(db, self.name, piece, batch.time)
                self._look = True
            self.outbox.advance(db, self.name, batch.stream, batch.batch)

    def _deliver(self, batch: Batch) -> None:
        """Hand a batch to the sink, or give it up where it has failed for ``max_age``.

        The decision to give up is durable before the first dead letter is. A run that ends in between is followed by
        one that goes on giving up, so that no delivery is both made and a dead letter.
        """
        decided = self.outbox.given_up(self.name, batch.stream, batch.batch)
        if decided is None:
            try:
                self.sink.deliver(batch)
            except Exception as error:
                decided = self._attempts + 1, words(error)
                if decided[0] < TRIED or time.time() - batch.time <= self._settings.max_age:
                    self.outbox.put_off.add({self.name: self._count(batch)})
                    raise
                self.sink.undelivered(batch)  # raises if the sink cannot tell now
                self.outbox.give_up(self.name, batch.stream, batch.batch, *decided)
            else:
                self._recovered()
                return
        attempts, text = decided
        for piece in self.sink.undelivered(batch):
            self._dead.add(self.name, ((single, "sink-age", text) for single in singles(piece, attempts)))
        logger.warning("%s gave up batch %d of %s: %s", self.name, batch.batch, batch.stream, text)
        self._attempts = 0  # every batch is tried as often

    def _count(self, batch: Batch) -> int:
        """Count the deliveries of a batch that failed. The same batch is tried again, so the count is kept."""
        if self._counted[:2] != (batch.stream, batch.batch):
            count = 0
            with suppress(OSError, pa.ArrowException):  # it may be the log that cannot be read
                count = sum(len(piece.deliveries) for piece in batch.pieces())
            self._counted = batch.stream, batch.batch, count
        return self._counted[2]

    def _chosen(self, batch: LogBatch, delayed: bool | None) -> Iterator[Piece]:
        """Yield the deliveries for this sink: those at once, the delayed ones, or (None) all."""
        for piece in batch.pieces():
            mask = self._routing.mask(self.name, piece.deliveries)
            if delayed is not None and batch.has_delayed:
                late = pc.fill_null(pc.greater(piece.deliveries.column("max_delay"), 0), False)
                wanted = late if delayed else pc.invert(late)
                mask = wanted if mask is None else pc.and_(mask, wanted)
            elif delayed:
                mask = pa.array([False] * len(piece.deliveries), pa.bool_())
            chosen = piece if mask is None else piece.filter(mask)
            if len(chosen.deliveries):
                yield chosen

    def _may_release(self) -> bool:
        due = self.outbox.next_held(self.name)
        return due is not None and (self._look or due <= time.time())

    def _release(self) -> bool:
        if not self._may_release():
            self._look = False
            return False
        count = self._settings.digest_count
        number = held.release(self.outbox, self.name, count, time.time())
        if number is None:
            self._look = False
            return False
        self._deliver(held.batch_of(self.outbox, self.name, number, count))
        self.outbox.drop_release(self.name, number)
        self._look = True
        return True


class Pausing(Protocol):
    """A store that pauses subscriptions."""

    def pause_failing(self, id: str, reason: str, since: int) -> bool: ...


class DeadWorker(Worker):
    """Takes the refused messages and the failures of subscriptions of each batch to the dead letters, and pauses the
    subscriptions that keep failing."""

    def __init__(
        self,
        logs: Mapping[str, Log],
        outbox: Outbox,
        dead: DeadLetters,
        rule: PauseRule,
        store: Pausing | None = None,
    ) -> None:
        super().__init__(DEAD, logs, outbox)
        self._dead = dead
        self._rule = rule
        self._store = store

    def recall(self, stream: str) -> int:
        return self._dead.cursor(stream)

    def take(self, batch: LogBatch) -> None:
        self._dead.take(batch, self._rule)
        if self._store is not None and batch.counts.failures:
            self._pause(self._store)
        self._recovered()

    def _pause(self, store: Pausing) -> None:
        """Pause the subscriptions that keep failing; what the store cannot take now is tried with the next failure."""
        for one in streaks.overdue(self._dead.database, self._rule):
            try:
                paused = store.pause_failing(one.subscription, one.reason, one.version)
            except TwigcastError as error:
                logger.warning("the subscription %r cannot be paused now: %s", one.subscription, error.text)
                return
            if paused:
                text = "warning: the subscription %r is paused: %s (twigcast resume makes it active again)"
                logger.warning(text, one.subscription, one.reason)
            streaks.clear(self._dead.database, one.subscription)


def words(error: Exception) -> str:
    return error.text if isinstance(error, TwigcastError) else f"{type(error).__name__}: {error}"
