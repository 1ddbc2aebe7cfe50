"""Finds the files of a folder that are new: by one look at each folder below it that has changed.

Names that start with ``.`` or ``_`` or end in ``.tmp`` are left alone, so that a file can be written under such a name
and then appear whole by a rename. Symbolic links are skipped and counted, and so are names that are not UTF-8, which no
message can have for its id.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from twigcast.common.globs import glob_pattern

SETTLED = 2.5
"""Seconds that the date of a folder must have stood still before it is trusted: file systems round dates."""
LOOK_EVERYWHERE = 60.0
"""Seconds after which folders are listed whatever their date, since some network file systems do not keep dates."""


class Found(NamedTuple):
    """A file: its path below the folder, and what tells it from another one that takes its place."""

    path: str
    modified: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a scan passed over that may be meant to be read."""

    links: int = 0
    names: int = 0
    """Names that are not UTF-8."""


@dataclass(slots=True)
class _Seen:
    """A folder as it was when it was listed last."""

    modified: int
    since: float
    """When this date was seen first."""
    trusted: bool = False
    folders: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    links: int = 0
    names: int = 0


class Scanner:
    """Lists a folder again and again."""

    def __init__(self, root: str, *, glob: str | None = None, follow_links: bool = False) -> None:
        self.root = root
        self._glob = None if glob is None else glob_pattern(glob)
        self._follow_links = follow_links
        self._seen: dict[str, _Seen] = {}
        self._everywhere = -LOOK_EVERYWHERE

    def scan(self, known: Container[str]) -> tuple[list[Found], Skipped]:
        """Return the files that are not known, oldest first, and what was skipped.

        The caller must know each file from now on: a folder that has not changed is not listed again.
        """
        now = time.monotonic()
        if now - self._everywhere >= LOOK_EVERYWHERE:
            self._everywhere = now
            for seen in self._seen.values():
                seen.trusted = False
        found: list[Found] = []
        visited: dict[str, _Seen] = {}
        todo = [("", False)]
        while todo:
            folder, linked = todo.pop()
            listed = self._visit(folder, linked, now, known, found)
            if listed is not None:
                visited[folder] = listed
                todo += [(name, linked) for name in listed.folders]
                todo += [(name, True) for name in listed.linked]
        self._seen = visited
        found.sort(key=lambda file: (file.modified, file.path))
        return found, Skipped(sum(s.links for s in visited.values()), sum(s.names for s in visited.values()))

    def _visit(self, folder: str, linked: bool, now: float, known: Container[str], found: list[Found]) -> _Seen | None:
        path = Path(self.root, folder)
        try:
            date = path.stat().st_mtime_ns
            last = self._seen.get(folder)
            if last is not None and last.modified == date:
                if last.trusted:
                    return last
                # Listed once more after its date has stood still: a later change must give it another date.
                seen = _Seen(date, last.since, now - last.since >= SETTLED)
            else:
                seen = _Seen(date, now)
            with os.scandir(path) as entries:
                for entry in entries:
                    self._take(entry, folder, linked, seen, known, found)
        except OSError:
            if not folder:
                raise
            return None  # it has vanished, or is not ours to read
        return seen

    def _take(
        self,
        entry: os.DirEntry[str],
        folder: str,
        linked: bool,
        seen: _Seen,
        known: Container[str],
        found: list[Found],
    ) -> None:
        name = entry.name
        if name.startswith((".", "_")):
            return
        path = f"{folder}/{name}" if folder else name
        if path in known:
            return
        try:
            path.encode()
        except UnicodeEncodeError:
            seen.names += 1
            return
        try:
            if entry.is_symlink():
                self._take_link(entry, path, linked, seen, found)
            elif entry.is_dir(follow_symlinks=False):
                seen.folders.append(path)
            elif self._wanted(name):
                found.append(_found(path, entry.stat(follow_symlinks=False)))
        except OSError:
            return  # it has vanished

    def _take_link(self, entry: os.DirEntry[str], path: str, linked: bool, seen: _Seen, found: list[Found]) -> None:
        # Within a folder that a link leads to, no link is followed: so links cannot lead around in a circle.
        target = Path(os.path.realpath(entry.path))
        inside = target.is_relative_to(self.root) and target != Path(self.root)
        if not self._follow_links or linked or not inside or not target.exists():
            seen.links += 1
        elif not target.is_dir():
            if self._wanted(entry.name):
                found.append(_found(path, entry.stat(follow_symlinks=False)))
        elif Path(entry.path).is_relative_to(target):
            seen.links += 1  # it leads to a folder that it lies in
        else:
            seen.linked.append(path)

    def _wanted(self, name: str) -> bool:
        return not name.endswith(".tmp") and (self._glob is None or self._glob.fullmatch(name) is not None)


def _found(path: str, status: os.stat_result) -> Found:
    return Found(path, status.st_mtime_ns, status.st_size, status.st_ino)
