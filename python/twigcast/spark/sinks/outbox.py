"""A folder of results, each file there once and whole, whatever happens in between.

    outbox/matches/batch-00000007-0001.jsonl
    outbox/dead/batch-00000007-0000.jsonl
    outbox/_checkpoint/…                       what a restart needs

The workers write to a staging folder of the run. When all have, the driver writes one small file, the ledger, that
names the parts of the batch, and only then moves them into place. A run that dies before it replaces the ledger has
shown nothing of the batch; one that dies after it leaves parts to be moved, which the next run does before it goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from twigcast.errors import OptionError, StateDamaged

KINDS = ("matches", "dead")
REMEDY = "give an empty folder, or restore its _checkpoint"


@dataclass(slots=True)
class Counts:
    """What went through."""

    messages: int = 0
    bytes: int = 0
    matches: int = 0
    rejects: int = 0
    failures: int = 0
    """Failures of single subscriptions, one for each subscription and message."""

    def add(self, other: Counts) -> None:
        self.messages += other.messages
        self.bytes += other.bytes
        self.matches += other.matches
        self.rejects += other.rejects
        self.failures += other.failures


class Outbox:
    """The driver's side of the folder: whose it is, where a batch is staged, and how it becomes visible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.state = self.folder / "_checkpoint"
        self.staging = self.state / "staging" / uuid.uuid4().hex
        self.checkpoint = self.state / "spark"  # which messages have been read
        self._ledger = self.state / "batch.json"

    @contextmanager
    def claimed(self, inbox: Path) -> Iterator[None]:
        """Ours alone, for this inbox only, with every committed batch in place and nothing else of earlier runs."""
        _make(self.folder, self.state, *(self.folder / kind for kind in KINDS))
        with (self.state / "lock").open("a") as lock:
            self._lock(lock)
            self._check_owner(inbox)
            done = self._last()
            used = any(any((self.folder / kind).iterdir()) for kind in KINDS)
            if done is None and used:
                raise OptionError(
                    "outbox-damaged",
                    f"{self.folder} has results of a run, but not the whole state of it",
                    hint=REMEDY,
                )
            if done is not None:
                self._move(done)
            shutil.rmtree(self.staging.parent, ignore_errors=True)
            self.staging.mkdir(parents=True)
            yield

    @property
    def last(self) -> int:
        """The last batch that was committed, -1 if none was."""
        done = self._last()
        return -1 if done is None else int(done["batch"])

    def commit(self, batch: int, reports: Sequence[Any]) -> Counts:
        """Make the parts of a batch visible. ``reports`` are the rows that the workers gave."""
        counts = Counts()
        moves = []
        for number, report in enumerate(reports):
            counts.add(Counts(*(report[name] for name in ("messages", "bytes", "matches", "rejects", "failures"))))
            for kind in KINDS:
                if report[kind + "_file"] is not None:
                    staged = (self.staging / report[kind + "_file"]).relative_to(self.folder)
                    moves.append([str(staged), f"{kind}/batch-{batch:08d}-{number:04d}.jsonl"])
        ledger = {"batch": batch, "counts": asdict(counts), "moves": moves}
        _replace(self._ledger, json.dumps(ledger))
        self._move(ledger)
        # What is left are parts of failed attempts.
        for stray in self.staging.iterdir():
            stray.unlink(missing_ok=True)
        return counts

    def _last(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._ledger.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateDamaged(self._ledger, f"cannot be read: {error}", hint=REMEDY) from error
        return found

    def _move(self, ledger: dict[str, Any]) -> None:
        for staged, final in ledger["moves"]:
            # A part that is gone from staging was moved before, and its reader may have taken it away since.
            if (self.folder / staged).exists():
                (self.folder / staged).replace(self.folder / final)

    def _lock(self, file: IO[str]) -> None:
        import fcntl

        try:
            # Released by the system when its holder ends, however it does.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OptionError(
                "outbox-in-use", f"another run is writing to {self.folder}", hint="stop it, or use another outbox"
            ) from error

    def _check_owner(self, inbox: Path) -> None:
        """Refuse another inbox. Inbox and outbox may be moved together: then their places to each other stay."""
        owner = self.state / "source.json"
        place = {"inbox": str(inbox), "relative": os.path.relpath(inbox, self.folder.resolve())}
        try:
            saved = json.loads(owner.read_text(encoding="utf-8"))
        except FileNotFoundError:
            saved = {}
        except ValueError as error:
            raise StateDamaged(owner, f"cannot be read: {error}", hint="restore it, or use another outbox") from error
        known = saved.get("inbox", str(inbox))
        if known == str(inbox) or saved.get("relative") == place["relative"]:
            if saved != place:
                _replace(owner, json.dumps(place))
        else:
            raise OptionError(
                "other-inbox",
                f"{self.folder} has the results of {known}, and this run is for {inbox}",
                hint="use one outbox per inbox",
            )


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _make(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                "bad-outbox", f"cannot create {folder}: {error.strerror}", hint="--outbox names a folder to write to"
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OptionError("bad-outbox", f"cannot write to {folder}", hint="check its permissions")
