"""Sinks at work: a thread for each, with a cursor per stream, so that one that fails holds back nobody else.

A sink takes the committed batches of each stream's log in order. What it cannot take waits in the log and is tried
again, until it succeeds or is too old and goes to the dead letter. A batch that all have passed is deleted.
"""

from __future__ import annotations

import threading
import time

from twigcast.config import Pipeline
from twigcast.delivery.log import Log
from twigcast.delivery.routing import Routing
from twigcast.delivery.sinks import Context, open_sink
from twigcast.delivery.state import check_log, open_databases
from twigcast.delivery.status import SinkStatus, status_of
from twigcast.delivery.targets import Subscribers, Targets
from twigcast.delivery.worker import DeadWorker, Pausing, SinkWorker, Worker

PATIENCE = 30.0
"""Seconds without any progress after which ``drain`` gives up; nothing is lost by that."""


class Runner:
    """The sinks of a pipeline: ``with Runner(settings, store) as runner: …`` and ``runner.wake()`` after a commit.

    The caller has claimed the state folder; two runners on one would deliver twice.
    """

    def __init__(self, settings: Pipeline, store: Subscribers | None = None, *, pausing: Pausing | None = None) -> None:
        """``store``: where subscribers have their targets; ``pausing``: where subscriptions that keep failing are."""
        self.settings = settings
        self._logs = {name: Log(settings.state.log, name) for name in settings.streams}
        self.outbox, self.dead = open_databases(settings.state.outbox, settings.state.dead, self._logs)
        try:
            self.sinks = self._open_sinks(Targets(store))
        except BaseException:
            self._close()
            raise
        dead = DeadWorker(self.logs, self.outbox, self.dead, settings.subscriptions.rule, pausing)
        self._workers: list[Worker] = [dead, *self.sinks.values()]
        self._forgetting = threading.Lock()

    def _open_sinks(self, targets: Targets) -> dict[str, SinkWorker]:
        routing = Routing(self.settings.routes, self.settings.sinks, targets)
        context = Context(self.outbox.state, self.outbox, self.dead, targets)
        return {
            name: SinkWorker(open_sink(name, sink, context), sink, self.logs, self.outbox, self.dead, routing)
            for name, sink in self.settings.sinks.items()
        }

    def __enter__(self) -> Runner:
        self.forget()  # what all had passed when an earlier run died
        for worker in self._workers:
            worker.passed = self.forget
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join()
        self._close()

    def _close(self) -> None:
        self.outbox.close()
        self.dead.close()

    @property
    def logs(self) -> dict[str, Log]:
        """What the sinks follow. May be replaced by one with more in it."""
        return self._logs

    @logs.setter
    def logs(self, logs: dict[str, Log]) -> None:
        for stream, log in logs.items():
            if stream not in self._logs:
                check_log(log, self.outbox, self.dead)
        self._logs = logs
        for worker in self._workers:
            worker.logs = logs

    def wake(self) -> None:
        """There is a new batch."""
        for worker in self._workers:
            worker.woken.set()

    def drain(self, stop: threading.Event | None = None, patience: float = PATIENCE) -> bool:
        """Wait until everything that is committed has been delivered; digests that are not due are not waited for.

        Returns False if ``stop`` is set first, or if nothing has gone forward for ``patience`` seconds: the next run
        goes on there. Raises :class:`~twigcast.errors.StateDamaged` if the log cannot be read.
        """
        stop = stop or threading.Event()
        self.wake()
        before, since = None, time.monotonic()
        while not all(worker.idle for worker in self._workers):
            now = [
                (worker.sink.waiting, [worker.cursor(stream) for stream in self.logs])
                for worker in self.sinks.values()
            ]  # fmt: skip
            self.check()
            if now != before:
                before, since = now, time.monotonic()
            if stop.wait(0.1) or time.monotonic() - since > patience:
                return False
        return True

    def check(self) -> None:
        """Raise the :class:`~twigcast.errors.StateDamaged` that a worker met when it read the log, if one did."""
        for worker in self._workers:
            if worker.damage is not None:
                raise worker.damage

    def undelivered(self) -> dict[str, int]:
        """Per sink the deliveries that it has yet to make, where there are some; digests that are not due are none."""
        found = {}
        for name, worker in self.sinks.items():
            if not worker.idle:
                found[name] = worker.undelivered()
        return found

    def status(self) -> list[SinkStatus]:
        """Return the status of each sink."""
        sinks = self.settings.sinks.items()
        return [status_of(name, sink, self.outbox, self.logs, self.dead) for name, sink in sinks]

    def forget(self) -> None:
        """Delete the batches that everybody has passed."""
        with self._forgetting:
            for stream, log in self.logs.items():
                passed = min(worker.cursor(stream) for worker in self._workers)
                if passed > log.forgotten:
                    log.forget(passed, [worker.name for worker in self._workers])
