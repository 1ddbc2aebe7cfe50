"""What changed since a snapshot: a small file on top of a base, applied at the cost of the change.

Each subscription added or removed is a version. From a base on, that is from the first time a set is saved or opened,
the changes are kept as lines of text, and a checksum runs over them: two engines with the same version and checksum
came from the same base by the same changes, and hence number their subscriptions alike.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twigcast.engine.sealed import Format
from twigcast.errors import OptionError, TwigcastError
from twigcast.subscription import SubscriptionId, is_id

if TYPE_CHECKING:
    from twigcast.engine.engine import Engine
    from twigcast.subscription import Subscription

FORMAT = Format("delta", b"TWIGDELT", 1)

# Beyond these a new base is better than a delta.
MAX_BATCH = 1 << 16
MAX_BYTES = 32 << 20


class History:
    """The version of a set, and the changes that led there from a base."""

    def __init__(self, version: int = 0, tag: int | None = None) -> None:
        self.version = version
        self.tag = tag
        """The running checksum; None while there is no base."""
        self._forget()

    def _forget(self) -> None:
        self._states = {} if self.tag is None else {self.version: (self.tag, 0)}
        self._lines: list[bytes] = []
        self._dropped = 0
        self._bytes = 0

    def begin(self, tag: int) -> None:
        """The set as it is now is a base."""
        if self.tag is None:
            self.tag = tag
            self._forget()

    def added(self, subscriptions: Sequence[Subscription]) -> None:
        if not subscriptions:
            return
        if self.tag is not None and len(subscriptions) <= MAX_BATCH:
            self._record(len(subscriptions), _line([as_dict(s) for s in subscriptions]))
        else:
            self.advanced(len(subscriptions))

    def advanced(self, count: int) -> None:
        """Count changes that are not recorded: there is no base any more."""
        self.version += count
        self.tag = None
        self._forget()

    def removed(self, id: SubscriptionId) -> None:
        if self.tag is not None:
            self._record(1, _line(id))
        else:
            self.version += 1

    def _record(self, count: int, line: bytes) -> None:
        assert self.tag is not None
        self.version += count
        self.tag = zlib.crc32(line, self.tag)
        self._lines.append(line)
        self._bytes += len(line)
        self._states[self.version] = (self.tag, self._dropped + len(self._lines))
        if self._bytes > MAX_BYTES:
            self._drop()

    def _drop(self) -> None:
        half = (len(self._lines) + 1) // 2
        self._bytes -= sum(map(len, self._lines[:half]))
        del self._lines[:half]
        self._dropped += half
        self._states = {v: state for v, state in self._states.items() if state[1] >= self._dropped}

    def since(self, version: int) -> tuple[int, list[bytes]]:
        """The tag of a version and the changes after it."""
        if version not in self._states:
            known = f"from {min(self._states)} to {self.version}" if self._states else "none: there is no base yet"
            text = f"the changes since version {version} are not known"
            hint = f"save the whole set (known versions: {known})"
            raise OptionError("unknown-version", text, hint=hint)
        tag, line = self._states[version]
        return tag, self._lines[line - self._dropped :]


def save_delta(engine: Engine, path: Path, since: int) -> None:
    with engine._lock:
        history = engine._history
        tag, lines = history.since(since)
        header = {"since": [since, tag], "to": [history.version, history.tag]}
    FORMAT.write(path, [json.dumps(header).encode(), b"".join(lines)])


def apply(engine: Engine, path: Path) -> None:
    parts = FORMAT.read(path)
    try:
        header, text = (part.to_pybytes() for part in parts)
        since, to = (tuple(json.loads(header)[key]) for key in ("since", "to"))
        lines = text.splitlines(keepends=True)
        changes = [_change(json.loads(line)) for line in lines]
        count = sum(len(change) if isinstance(change, list) else 1 for change in changes)
        if (since[0] + count, zlib.crc32(text, since[1])) != to or any(_line(json.loads(s)) != s for s in lines):
            raise ValueError("its changes do not lead where it says")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise FORMAT.damaged(path, error) from error
    with engine._lock:
        history = engine._history
        here = (history.version, history.tag)
        if here == to:
            return
        if here != since:
            text = f"{path} is for version {since[0]} of a set, this is version {history.version}"
            if here[0] == since[0]:
                text = f"{path} is for another set of subscriptions than this"
            raise TwigcastError("delta-base", text, hint="open the snapshot that the delta was made for")
        _check(engine, path, changes)
        for change in changes:
            if isinstance(change, list):
                engine.add_many(change)
            else:
                engine.remove(change)


def _check(engine: Engine, path: Path, changes: list[list[Subscription] | SubscriptionId]) -> None:
    """Nothing is changed unless everything can be."""
    present: dict[SubscriptionId, bool] = {}
    for change in changes:
        for s in change if isinstance(change, list) else ():
            if present.get(s.id, s.id in engine):
                raise FORMAT.damaged(path, f"it adds the subscription {s.id!r}, which is there already")
            present[s.id] = True
            engine.check(s)
        if not isinstance(change, list):
            if not present.get(change, change in engine):
                raise FORMAT.damaged(path, f"it removes the subscription {change!r}, which is not there")
            present[change] = False


def _line(change: Any) -> bytes:
    return json.dumps(change, default=dict, separators=(",", ":")).encode() + b"\n"


def as_dict(s: Subscription) -> dict[str, Any]:
    """All that makes up a subscription, but for what is as usual."""
    return {f.name: value for f in fields(s) if (value := getattr(s, f.name)) != f.default}


def _change(value: Any) -> list[Subscription] | SubscriptionId:
    from twigcast.subscription import Subscription

    if not isinstance(value, list):
        if not is_id(value):
            raise ValueError("a change that neither adds nor removes")
        return cast("SubscriptionId", value)
    added = [Subscription(**s) for s in value]
    for s in added:
        texts = [s.query, s.default_namespace or "", *chain(*(s.namespaces or {}).items())]
        if not is_id(s.id) or not all(isinstance(text, str) for text in texts):
            raise ValueError("a subscription that is none")
    if not added:
        raise ValueError("a change that adds nothing")
    return added
