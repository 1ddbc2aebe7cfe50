"""Putting the files of a batch into a tree, each once and whole, even where a reader takes files away.

    <root>/.twigcast/<sink>-<state>/<stream>.tmp/…      the batch's files, while they are written
    <root>/.twigcast/<sink>-<state>/<stream>.ready/…    … once all are written: from here on they are only moved
    <root>/.twigcast/<sink>-<state>/<stream>.json       the last batch that is in place

A file that is gone from ``.ready`` has been published, and its reader may have removed it since. So a batch that comes
again after a crash moves what is left, and a batch that is in place is passed over. A batch that was given up may leave
a ``.ready`` folder; its deliveries are dead letters, so the next batch deletes the folder and publishes nothing of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

from twigcast.delivery.files import make_folder, read_record, sync_folder, write_record
from twigcast.delivery.sinks.base import Batch, Sink, SinkDamaged, cannot_write
from twigcast.errors import StateDamaged

_NUMBER, _OLD_NUMBER = ".batch", "batch"
"""The file in ``.tmp`` and ``.ready`` with the batch's number. No folder of a subscriber starts with a dot, whereas a
subscriber may be called ``batch``, as earlier versions named the file."""
_FEW = 16
"""So many files are written to disk one by one; for more, the whole file system is."""


class Publication:
    """The tree of one sink of one pipeline."""

    def __init__(self, root: Path, sink: str, state: str) -> None:
        self.root = root
        self._work = root / ".twigcast" / f"{sink}-{state}"

    def publish(self, stream: str, batch: int, write: Callable[[Path], None]) -> None:
        """Put the files that ``write`` puts into a folder into the same places of the tree."""
        fresh, ready, cursor = (self._work / f"{stream}{end}" for end in (".tmp", ".ready", ".json"))
        done = self._done(cursor)
        if ready.exists():
            # Without its number the folder was being deleted, and there is nothing left to move.
            number = self._number(ready)
            number = done if number is None else number
            # A sink asks for a later batch only after this one was delivered, as the cursor says then, or given up.
            if number > done and number >= batch:
                self._move(ready)
                write_record(cursor, {"batch": number})
                done = number
            if (file := _number_file(ready)) is not None:
                file.unlink()
            shutil.rmtree(ready)
        if batch <= done:
            return
        shutil.rmtree(fresh, ignore_errors=True)
        make_folder(self._work)
        try:
            fresh.mkdir()
            write(fresh)
            (fresh / _NUMBER).write_text(str(batch))
            _sync_tree(fresh)
            fresh.rename(ready)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)  # on a full disk it is in the way of everybody
            raise
        sync_folder(self._work)
        self._move(ready)
        write_record(cursor, {"batch": batch})
        shutil.rmtree(ready)

    def published(self, stream: str, batch: int) -> Callable[[str], bool]:
        """Return a test whether a file of a batch, by its path in the tree, was published before the batch failed.

        Files of a tree that cannot be read count as not published.
        """
        ready = self._work / f"{stream}.ready"
        try:
            if self._done(self._work / f"{stream}.json") >= batch:
                return lambda path: True
            if self._number(ready) != batch:
                return lambda path: False
            # A rename that a loss of power undoes would put a file back into a folder that is about to be deleted.
            _sync_filesystem(ready)
            left = frozenset(path[len(str(ready)) + 1 :] for path in _files(str(ready)))
        except OSError:
            return lambda path: False
        return lambda path: path not in left

    def _done(self, cursor: Path) -> int:
        try:
            return int(read_record(cursor)["batch"])
        except FileNotFoundError:
            return -1
        except StateDamaged as error:
            remedy = (
                "delete it: the outbox has the sink's progress too; only a batch that was interrupted may come twice"
            )
            raise SinkDamaged(error.text, remedy) from None

    def _number(self, ready: Path) -> int | None:
        """Return the number of the batch whose files are in a folder; None if it has lost its number."""
        file = _number_file(ready)
        if file is None:
            return None
        text = file.read_text(errors="replace")
        if not text.isdecimal():
            remedy = f"delete {ready}: the batch is written again, and files of it that were published come twice"
            raise SinkDamaged(f"{file} is not the number of a batch", remedy)
        return int(text)

    def _move(self, ready: Path) -> None:
        """Move every file that can be moved, then raise the first error: one bad folder holds back no other."""
        # Plain strings: Path objects would cost more than the renames themselves.
        root, length = str(self.root), len(str(ready))
        changed: set[str] = set()
        failed: dict[str, OSError] = {}
        for path in _files(str(ready)):
            place, _, name = path[length + 1 :].rpartition("/")
            target = f"{root}/{place}"
            if not place or target in failed:  # a file at the top is the batch's number
                continue
            try:
                if target not in changed:
                    make_folder(Path(target))
                    changed.add(target)
                os.replace(path, f"{target}/{name}")  # noqa: PTH105
            except OSError as error:
                failed[target] = error
        for folder in changed:
            sync_folder(Path(folder))
        if failed:
            raise next(iter(failed.values()))


class FileSink(Sink):
    """A sink that publishes files below a folder, those of a batch together."""

    def __init__(self, name: str, path: Path, state: str) -> None:
        super().__init__(name)
        self.publication = Publication(path, name, state)
        self._state = state

    def deliver(self, batch: Batch) -> None:
        """Publish the files of a batch."""
        try:
            self.publication.publish(batch.stream, batch.batch, lambda folder: self.write(batch, folder))
        except OSError as error:
            raise cannot_write(self.publication.root, error) from error

    @abstractmethod
    def write(self, batch: Batch, folder: Path) -> None:
        """Write the files of a batch below a folder that is empty."""

    def name_of(self, batch: Batch) -> str:
        """Return a name that no other batch has, of this or another pipeline."""
        return f"{batch.stream}-{batch.batch:08d}-{self._state}"


def _number_file(ready: Path) -> Path | None:
    """Return the file with the batch's number, also one of an earlier version; None if there is none."""
    return next((file for name in (_NUMBER, _OLD_NUMBER) if (file := ready / name).is_file()), None)


def _files(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        else:
            yield entry.path


def _sync_tree(folder: Path) -> None:
    paths = list(_files(str(folder)))
    if len(paths) > _FEW and _sync_filesystem(folder):
        return
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    for parent in {path.rpartition("/")[0] for path in paths}:
        sync_folder(Path(parent))


def _sync_filesystem(folder: Path) -> bool:
    """One call for thousands of files; False where the system has none."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return False
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "cannot write to disk", str(folder))
    finally:
        os.close(handle)
    return True
