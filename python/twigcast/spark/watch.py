"""What a run shows to the outside: a status file for ``twigcast status``, and metrics for Prometheus.

``status_of`` is the one account of a run: the status file has it as it is, and the live line of ``twigcast run`` is
made of it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twigcast import config
from twigcast.delivery import Counts
from twigcast.delivery.dead import Cause
from twigcast.delivery.files import replace
from twigcast.spark.pipeline import Progress, Run, Watch

EVERY = 1.0
"""Seconds between two writings of the status file."""


def status_file(state: Path) -> Path:
    return state / "status.json"


class Observers:
    """The status file and the metrics of a run."""

    def __init__(self, settings: config.Pipeline) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._metrics: Any = None
        self._status = StatusFile(status_file(settings.state.path))

    def __enter__(self) -> Observers:
        if self._settings.metrics.port is not None:
            from twigcast.spark.metrics import Metrics

            self._metrics = self._stack.enter_context(Metrics(self._settings.metrics.host, self._settings.metrics.port))
        self._stack.enter_context(self._status)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def on_start(self, run: Run) -> None:
        self._status.run = run
        if self._metrics is not None:
            self._metrics.run = run

    def on_end(self, run: Run) -> None:
        self._status.end()
        if self._metrics is not None:
            self._metrics.run = None

    def watch(self, also: Watch | None = None) -> Watch:
        """Return the calls for a run; ``also`` is called too."""
        other = also or Watch()

        def on_batch(progress: Progress) -> None:
            self.on_batch(progress)
            other.on_batch(progress)

        def on_start(run: Run) -> None:
            self.on_start(run)
            other.on_start(run)

        def on_end(run: Run) -> None:
            self.on_end(run)
            other.on_end(run)

        return Watch(on_batch, on_start, on_end, other.on_stage)

    def on_batch(self, progress: Progress) -> None:
        if self._metrics is not None:
            self._metrics.on_batch(progress)


class StatusFile:
    """Rewrites the file every second while a run goes on, and once when it ends."""

    def __init__(self, path: Path) -> None:
        self.run: Run | None = None
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="twigcast-status", daemon=True)

    def __enter__(self) -> StatusFile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def end(self) -> None:
        """The last word on a run."""
        self._ended.set()
        self._thread.join()
        self._write(running=False)
        self.run = None

    def _loop(self) -> None:
        while not self._ended.wait(EVERY):
            self._write(running=True)

    def _write(self, running: bool) -> None:
        if self.run is None:
            return
        with suppress(OSError):  # a full disk is reported by those who must write
            replace(self._path, json.dumps(status_of(self.run, running)).encode())


def status_of(run: Run, running: bool) -> dict[str, Any]:
    """Return the status of a run as a JSON object."""
    streams = {}
    for name, stream in run.streams.items():
        last = stream.last
        streams[name] = None if last is None else {
            "batch": last.batch,
            "at": stream.at,
            "seconds": round(last.seconds, 3),
            "counts": _counts(last.counts),
            "total": _counts(stream.total),
            "version": last.version,
            "subscriptions": last.subscriptions,
        }  # fmt: skip
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "running": running,
        "started": run.started,
        "written": time.time(),
        "total": _counts(run.total),
        "busy": run.busy(),
        "version": run.live.version,
        "subscriptions": run.live.active,
        "unmatched": run.unmatched,
        "store": run.live.failing,
        "paused": run.paused.reasons(),
        "streams": streams,
        "sinks": [sink.as_dict() for sink in run.runner.status()],
        "new_dead_letters": dead_letters(run.runner.dead.added.counts()),
    }


def dead_letters(counts: Mapping[Cause, int]) -> list[dict[str, Any]]:
    """Return counts of dead letters as JSON has them, the most frequent cause first."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [{**asdict(cause), "count": count} for cause, count in ordered]


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "messages": counts.messages,
        "bytes": counts.bytes,
        "deliveries": counts.deliveries,
        "dead_letters": counts.rejects,
        "failures": counts.failures,
    }
