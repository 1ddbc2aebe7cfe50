"""Follows a folder: lists it at each trigger, and hands every micro-batch of the listing log on, in order.

It takes the place of a streaming query of Spark where nothing but the files themselves has to be remembered. The
listing log and the delivery log have the same numbers, so there is no third log that could disagree with them.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from twigcast.errors import TwigcastError
from twigcast.spark.failures import cause
from twigcast.spark.sources.listing import Entry, Listing
from twigcast.spark.sources.scan import Found

logger = logging.getLogger(__name__)

GOES_ON = "nothing is lost: a restart goes on here"


class Following:
    """A thread that reads a folder, with the part of ``StreamingQuery`` that a run uses."""

    def __init__(
        self,
        listing: Listing,
        batch: Callable[[Entry], None],
        last: Callable[[], int],
        *,
        interval: float | None,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """``batch`` commits a micro-batch, ``last`` tells the last one that is committed, ``tidy`` cleans up after it.

        Without an ``interval`` (in seconds) the thread ends when the files that it found at its start are done.
        """
        self._listing = listing
        self._batch = batch
        self._last = last
        self._interval = interval
        self._tidy = tidy
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"twigcast {listing.root}", daemon=True)

    def start(self) -> Following:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End when the micro-batch at hand is done, and wait for that."""
        self._stopping.set()
        while self._thread.is_alive():
            self._thread.join(0.2)  # a signal handler of Python runs only between waits

    def awaitTermination(self, timeout: float) -> bool:  # as Spark names it
        """Wait; return whether the thread has ended, or raise what it failed with."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _run(self) -> None:
        try:
            self._tidy()
            while not self._stopping.is_set():
                began = time.monotonic()
                self._trigger()
                if self._interval is None:
                    return
                self._stopping.wait(max(0.0, self._interval - (time.monotonic() - began)))
        except BaseException as error:
            if not self._stopping.is_set():
                self._error = _described(error)

    def _trigger(self) -> None:
        self._listing.look()
        while not self._stopping.is_set():
            last = self._last()
            entry = self._listing.take(last + 1, done=last)
            if entry is None:
                break
            self._batch(entry)
            self._tidy()
        if self._interval is not None and not self._stopping.is_set():
            self._tidy()


def _described(error: BaseException) -> BaseException:
    """Return the error in words, unless it tells already what happened or that Spark has ended."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if isinstance(error, (TwigcastError, PySparkException, Py4JError)):
        return error
    described = TwigcastError("run-failed", cause(f"{type(error).__name__}: {error}"), hint=GOES_ON)
    described.__cause__ = error
    return described


def clear(listing: Listing, entry: Entry, target: Path | None) -> None:
    """Move the files of a micro-batch to the folder ``target``, or delete them, and forget their names."""
    listing.forget([file.path for file in entry.files if _clear(listing.root / file.path, file, target)])


def _clear(path: Path, file: Found, target: Path | None) -> bool:
    """Return whether the file that was read is gone from its place."""
    try:
        status = os.lstat(path)
        if file.inode is not None and (status.st_ino, status.st_mtime_ns) != (file.inode, file.modified):
            return True  # another file has taken its place, which has not been read
        if target is None:
            path.unlink()
        else:
            _move(path, target / file.path)
    except FileNotFoundError:
        return True
    except OSError as error:
        logger.warning("warning: %s stays where it is: %s", path, error.strerror or error)
        return False
    return True


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while target.exists():
        number += 1
        target = target.with_name(f"{path.name}.{number}")
    try:
        path.rename(target)
    except OSError:
        # On another disk: there under a name that nobody takes for a whole file until it is one.
        fresh = target.with_name(f".{target.name[:200]}.tmp")
        with suppress(FileNotFoundError):
            fresh.unlink()
        shutil.copy2(path, fresh, follow_symlinks=False)
        fresh.rename(target)
        path.unlink()
