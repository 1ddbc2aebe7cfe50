"""Forked processes.

A child of ``fork`` has a copy of all memory, but only the thread that forked. A lock that another thread held at that
moment stays locked in the child for ever, and what it protects may be half changed. Objects that were not in use are
fine in the child. Those that were in use raise an error there when they are called, instead of hanging.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary, WeakSet

from twigcast.errors import TwigcastError

_HINT = "fork before other threads publish, use the start method 'spawn', or make a new one in the child"

_owners: WeakKeyDictionary[object, tuple[tuple[str, ...], bool]] = WeakKeyDictionary()

_pools: WeakSet[Pool] = WeakSet()


class Pool(Protocol):
    """A pool of connections, such as SQLAlchemy's ``Engine``."""

    def dispose(self, close: bool) -> None: ...


def refuse_if_forked_in_use(owner: object, *names: str) -> None:
    """Make ``owner`` raise an error in a child that is forked while one of these attributes is in use.

    Each attribute is a lock, or an object of the kernel. All calls of ``owner`` must go through one of them.
    """
    _owners[owner] = names, False


def refuse_if_forked(owner: object, *names: str) -> None:
    """Make ``owner`` raise an error in every child, as it has a connection or threads that a child does not get."""
    _owners[owner] = names, True


def drop_if_forked(pool: Pool) -> None:
    """Make a pool of connections open new ones in a child: those of the parent stay the parent's."""
    _pools.add(pool)


class Unusable:
    """Stands in a child for a lock, or for an object of the kernel, that only the parent can use."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, name: str) -> NoReturn:
        raise TwigcastError("forked-in-use", self._why, hint=_HINT)

    def __enter__(self) -> NoReturn:
        raise TwigcastError("forked-in-use", self._why, hint=_HINT)

    def __exit__(self, *error: object) -> None: ...


def _after_in_child() -> None:
    for owner, (names, always) in list(_owners.items()):
        if always or not all(_is_idle(getattr(owner, name)) for name in names):
            what = "is used by its parent only" if always else "was in use by another thread when the process forked"
            for name in names:
                setattr(owner, name, Unusable(f"this {type(owner).__name__} {what}"))
    for pool in list(_pools):
        pool.dispose(close=False)


def _is_idle(guard: Any) -> bool:
    if hasattr(guard, "is_idle"):
        return bool(guard.is_idle())
    if not guard.acquire(blocking=False):
        return False
    guard.release()
    return True


os.register_at_fork(after_in_child=_after_in_child)
