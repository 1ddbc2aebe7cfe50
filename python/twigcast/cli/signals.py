"""Ctrl-C and SIGTERM for commands that run Spark: they end in good order, or at once, but never with a traceback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

KILLED = 128
"""The exit status after a signal is this number and that of the signal: 130 after Ctrl-C, 143 after SIGTERM."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY = 0.1
"""Seconds: Python handles a signal between two waits."""


class Signals:
    """Handles signals while a command runs.

    Until Spark is up a signal ends the process at once. From then on, where the command can stop in good order, the
    first signal sets ``stop``, and a second one ends the process at once. The JVM ends with the process: its standard
    input is a pipe from us.
    """

    def __init__(self, stop: threading.Event | None = None, say: Callable[[str], None] = lambda text: None) -> None:
        self.received: list[int] = []
        """The signals so far."""
        self._stop = stop
        self._say = say
        self._is_up = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # no other can handle signals
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def start(self, spark: Callable[[], Result]) -> Result:
        """Return what ``spark`` returns: it starts a session, in a thread of its own.

        In the main thread PySpark would replace our handler by one that fails while the session is half made; and a
        signal would have to wait until a call into the JVM returns.
        """
        results: list[Result] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(spark())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="twigcast-spark", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(LOOK_EVERY)
        if errors:
            raise errors[0]
        self._is_up = True
        return results[0]

    def _handle(self, number: int, frame: object) -> None:
        self.received.append(number)
        if not self._is_up or self._stop is None or self._stop.is_set():
            raise SystemExit(KILLED + number)
        self._say("stopping after this micro-batch")
        self._stop.set()
