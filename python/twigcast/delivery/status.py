"""How the sinks are doing, out of what is written down: also for a process beside the one that runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twigcast.config import AnySink, Pipeline
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.log import Log
from twigcast.delivery.outbox import Outbox


@dataclass(frozen=True, slots=True)
class SinkStatus:
    sink: str
    kind: str
    cursors: dict[str, int]
    """Per stream the last batch that it has taken, -1 if none."""
    lag: int
    """Committed batches that it has not taken."""
    waiting: int
    """Deliveries that it has taken and not made yet."""
    held: int
    """Deliveries held back, for a digest mostly."""
    failed: int
    """Deliveries that this process tried in vain, once for each try; 0 in a process beside the run."""
    failing_since: float | None
    """Seconds since 1970."""
    attempts: int
    error: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_status(settings: Pipeline) -> list[SinkStatus]:
    """Return the status of a pipeline's sinks, whether it runs or not; none if it never has."""
    if not settings.state.outbox.exists():
        return []
    outbox = Outbox(settings.state.outbox)
    logs = {name: Log(settings.state.log, name) for name in settings.streams}
    try:
        return [status_of(name, sink, outbox, logs) for name, sink in settings.sinks.items()]
    finally:
        outbox.close()


def status_of(
    name: str, sink: AnySink, outbox: Outbox, logs: Mapping[str, Log], dead: DeadLetters | None = None
) -> SinkStatus:
    """Return the status of one sink. ``dead`` has the dead letters that this process has made."""
    given_up = {} if dead is None else dead.added.counts()
    cursors = {stream: outbox.cursor(name, stream) for stream in logs}
    since, attempts, error = outbox.health(name) or outbox.queue_trouble(name) or (None, 0, None)
    return SinkStatus(
        sink=name,
        kind=sink.kind,
        cursors=cursors,
        lag=sum(log.last - max(cursors[stream], log.forgotten) for stream, log in logs.items()),
        waiting=outbox.queued(name),
        held=outbox.held(name),
        failed=outbox.put_off.counts().get(name, 0) + sum(n for cause, n in given_up.items() if cause.sink == name),
        failing_since=since,
        attempts=attempts,
        error=error,
    )
