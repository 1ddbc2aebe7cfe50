"""The process that Spark forks its Python workers from (``spark.python.daemon.module``), with a snapshot opened before.

If that fails, workers open the snapshot themselves, and say why if they cannot.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType

import pyspark.worker  # noqa: F401  before the fork, as all that we import here: else each worker does it for itself
from pyspark.daemon import manager

from twigcast.spark.stages.preload import VARIABLE, preload
from twigcast.spark.stages.shared import SharedFile, clean, is_here

LOOK_EVERY = 30.0


def main() -> None:
    named = os.environ.get(VARIABLE)
    if named is not None and sys.platform == "linux":  # elsewhere a fork of more than Python itself is not safe
        try:
            preload(SharedFile.from_text(named))
        except Exception:
            traceback.print_exc()  # standard output is Spark's
        _end_with(SharedFile.from_text(named))
    manager()


def _end_with(file: SharedFile) -> None:
    """End this process when its snapshot has been deleted and no worker is left. Spark would keep it for good."""

    def look(number: int, frame: FrameType | None) -> None:
        if file.url:
            clean()  # copies that no task has asked for lately, this one perhaps
        if not is_here(file) and not _has_children():
            sys.exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)  # not inherited by workers


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
