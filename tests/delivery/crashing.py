"""Dying at a chosen step: in a forked process, so that a test can afford to die hundreds of times."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

KILLED = 9


@contextmanager
def dying_at(step: int | None, *files: str) -> Iterator[None]:
    """The process dies, like one that is killed, before the given line (counted as they run) of these files."""
    if step is None:
        yield
        return
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os._exit(KILLED)
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def dies(work: Callable[[], None]) -> bool:
    """Does the work in a process of its own; whether that was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED, -KILLED)
    return status != 0
