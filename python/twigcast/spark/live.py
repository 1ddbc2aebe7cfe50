"""The driver's side of a changing set of subscriptions: follows the store, publishes a base and small deltas.

A delta leads from one version to the next. When there are many, they are folded into one from the base; when they have
grown to a fair part of the base, a new base takes their place: both cost what has changed since, on average.
"""

from __future__ import annotations

import gc
import logging
import shutil
import threading
import uuid
import weakref
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from twigcast.correlate.streams import inadmissible
from twigcast.delivery.ids import subscription_key
from twigcast.engine import Engine, Subscription
from twigcast.engine.failures import FATAL, Failed
from twigcast.errors import OptionError, TwigcastError
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.limits import Limits
from twigcast.spark.serve import LOCAL, Files
from twigcast.spark.stages.shared import SharedFile
from twigcast.spark.workers import CHANGED_TRAITS, TRAITS, File, Snapshot

if TYPE_CHECKING:
    from twigcast.store import Changes, SubscriptionRecord

BASE = "base.snapshot"
MOST_DELTAS = 32
FOLD_BYTES = 1 << 20
REBASE_SHARE = 4
"""A new base when the deltas reach this fraction of the old one's size."""
AT_ONCE = 50_000
"""Subscriptions compiled in one go."""

log = logging.getLogger(__name__)


class Source(Protocol):
    """What is asked of a store."""

    @property
    def version(self) -> int: ...

    def changes(self, since: int) -> Changes: ...

    def load(self) -> tuple[int, Iterable[SubscriptionRecord]]: ...

    def pause_failing(self, id: str, reason: str, since: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Published:
    """The subscriptions as of one version of the store, a part per shard."""

    version: int
    shards: tuple[Snapshot, ...]
    subscriptions: int
    """How many there are, without correlations."""
    correlations: Mapping[str, SubscriptionRecord] = field(default_factory=dict)
    """By id; they have a query of Spark of their own."""


class LiveSet:
    """Every call of :meth:`current` may be from another thread, and may give a newer version."""

    def __init__(
        self,
        store: Source,
        folder: Path,
        *,
        shards: int = 1,
        limits: Limits | None = None,
        only: str | None = None,
        files: Files = LOCAL,
        sources: Collection[str] = (),
    ) -> None:
        """Make an empty set, which :meth:`current` fills.

        ``only``: this subscription and no other; ``files``: shares the files with the workers; ``sources``: the streams
        that messages come from, on which no correlation may publish.
        """
        self._store = store
        self._only = only
        self._sources = frozenset(sources)
        self._lock = threading.Lock()
        shutil.rmtree(folder, ignore_errors=True)  # earlier runs'; nobody else can be using them
        folder.mkdir(parents=True)
        self._shards = [_Shard(folder, number, limits or Limits(), files) for number in range(shards)]
        self._version = -1
        self.correlations: Mapping[str, SubscriptionRecord] = {}
        """Those of the newest version. A change makes a new mapping: versions in use keep theirs."""
        self.failing: str | None = None
        """What the store last said, while it cannot be reached."""

    @property
    def first_base(self) -> SharedFile | None:
        """Where the first base will be; None with several shards, of which a worker has one or the other."""
        return SharedFile(str(self._shards[0].first_base)) if len(self._shards) == 1 else None

    @property
    def version(self) -> int:
        """The version of the store that is in use."""
        return self._version

    @property
    def active(self) -> int:
        """The subscriptions in use, correlations included."""
        return sum(len(shard.engine) for shard in self._shards) + len(self.correlations)

    def current(self) -> Published:
        """The newest version. While the store cannot be reached that is the last one that was."""
        with self._lock:
            try:
                self._follow()
                self.failing = None
            except TwigcastError as error:
                if self._version < 0:
                    raise
                if self.failing is None:
                    log.warning("the subscriptions stay at version %d: %s", self._version, error.text)
                self.failing = error.text
            shards = tuple(shard.published for shard in self._shards if shard.published is not None)
            subscriptions = sum(len(shard.engine) for shard in self._shards)
            return Published(self._version, shards, subscriptions, self.correlations)

    def _follow(self) -> None:
        if self._version < 0:
            version, records = self._store.load()
            with _uncollected():
                for shard, own in self._split(records):
                    shard.change((), own)
                for shard in self._shards:
                    shard.publish()
            self._version = version
            self._pause_inadmissible()
        elif self._store.version != self._version:
            try:
                changes = self._store.changes(self._version)
            except TwigcastError as error:
                if error.code != "history-pruned":
                    raise
                self._afresh()
                return
            gone = set(changes.removed)
            if gone & self.correlations.keys():
                self.correlations = {id: one for id, one in self.correlations.items() if id not in gone}
            removed = [[id for id in changes.removed if self._place(id) == n] for n in range(len(self._shards))]
            added: list[list[SubscriptionRecord]] = [[] for _ in self._shards]
            for shard, own in self._split(changes.added):
                added[shard.number] += own
            for shard in self._shards:
                shard.change(removed[shard.number], added[shard.number])
                shard.publish()
            self._version = changes.version
            if any(record.kind == "correlate" for record in changes.added):
                self._pause_inadmissible()

    def _pause_inadmissible(self) -> None:
        """Leave out and pause the correlations whose PUBLISH must not be: one of them would stop the run for all."""
        publishing: dict[str | int, Correlation] = {
            id: parse_correlation(one.query, one.namespaces, one.default_namespace)
            for id, one in sorted(self.correlations.items(), key=lambda item: (item[1].version, item[0]))
            if "PUBLISH" in one.query.upper()
        }
        refused = inadmissible(publishing, self._sources)
        if not refused:
            return
        self.correlations = {id: one for id, one in self.correlations.items() if id not in refused}
        for id, error in refused.items():
            reason = f"{error.code}: {error.text}"
            log.warning("warning: the subscription %r is paused: %s; %s", id, reason, error.hint)
            try:
                self._store.pause_failing(str(id), reason, self._version)
            except TwigcastError as unreachable:  # It stays left out.
                log.warning("the subscription %r cannot be paused now: %s", id, unreachable.text)

    def _afresh(self) -> None:
        """All anew: what has changed is no longer known. The engines in use stay until the new ones are there."""
        before, correlations = self._shards, self.correlations
        self._shards, self.correlations = [shard.successor() for shard in before], {}
        self._version, version = -1, self._version
        try:
            self._follow()
        except BaseException:
            self._shards, self._version, self.correlations = before, version, correlations
            raise

    def _split(self, records: Iterable[SubscriptionRecord]) -> Iterable[tuple[_Shard, list[SubscriptionRecord]]]:
        rest = iter(records)
        while some := list(islice(rest, AT_ONCE)):
            correlations = {record.id: record for record in some if record.kind == "correlate"}
            if correlations:
                self.correlations = {**self.correlations, **correlations}
            some = [record for record in some if record.kind != "correlate"]
            if self._only is not None:
                some = [record for record in some if record.id == self._only]
            for shard in self._shards:
                own = some if len(self._shards) == 1 else [r for r in some if self._place(r.id) == shard.number]
                if own:
                    yield shard, own

    def _place(self, id: str) -> int:
        # Not Python's own hash, which differs from run to run: a restart then finds the same parts.
        return zlib.crc32(id.encode()) % len(self._shards)


@dataclass
class _Shard:
    folder: Path
    number: int
    limits: Limits
    files: Files
    engine: Engine = field(init=False)
    published: Snapshot | None = None

    def __post_init__(self) -> None:
        self.engine = Engine(limits=self.limits)
        self._traits: list[tuple[Any, ...] | None] = []
        self._changed: set[int] = set()
        self._number = 0
        self._name = f"{uuid.uuid4().hex}-{self.number}"
        self.first_base = self._path(1, BASE)
        self._folded: File | None = None
        self._written: list[File] = []
        """All files that have not been deleted."""
        self._in_use: weakref.WeakSet[Snapshot] = weakref.WeakSet()
        """The versions that somebody holds: tasks may ask for their files."""

    def successor(self) -> _Shard:
        """Return an empty shard that takes the place of this one. It deletes the files of this one when it can."""
        fresh = _Shard(self.folder, self.number, self.limits, self.files)
        fresh._written, fresh._in_use = self._written, self._in_use
        return fresh

    def change(self, removed: Iterable[str], added: list[SubscriptionRecord]) -> None:
        """To the engine of the driver; nobody else sees it before :meth:`publish`."""
        if self.published is not None:  # at first all are new
            for id in [*removed, *(record.id for record in added)]:
                if id in self.engine:
                    self.engine.remove(id)
        subscriptions = [record.to_subscription() for record in added]
        try:
            self.engine.add_many(subscriptions)
        except FATAL:
            raise
        except BaseException:
            added = [record for record, s in zip(added, subscriptions, strict=True) if self._add(s)]
        ids = [record.id for record in added]
        for number, record in zip(self.engine.numbers(ids), added, strict=True):
            self._traits.extend([None] * (number + 1 - len(self._traits)))
            traits = (record.id, subscription_key(record.id), record.subscriber, record.max_delay, record.stream)
            self._traits[number] = traits
            self._changed.add(number)

    def _add(self, subscription: Subscription) -> bool:
        """Add one of a batch in which some cannot be accepted. Return False for one that cannot.

        The store has checked it, perhaps by the rules of another version.
        """
        try:
            self.engine.add_many([subscription])
        except FATAL:
            raise
        except BaseException as error:
            failed = Failed.of(0, error)
            log.warning("the subscription %r is left out: %s: %s", subscription.id, failed.code, failed.text)
            return False
        return True

    def publish(self) -> None:
        """Make the engine's state known as a :class:`Snapshot`, if it is new."""
        version = self.published
        if version is None:
            self._rebase()
        elif self.engine.version != version.files[-1].version:
            try:
                self._delta(version)
            except OptionError:  # more has changed than the engine remembers
                self._rebase()
        self._changed.clear()
        self._delete_unused()

    def _delta(self, known: Snapshot) -> None:
        size = sum(_size(file) for file in known.deltas)
        if size * REBASE_SHARE > max(_size(known.base), FOLD_BYTES):
            self._rebase()
            return
        earlier = known.deltas if self._folded is None else (self._folded,)
        deltas = (*earlier, self._write_delta(known.files[-1].version, self._changed))
        self._folded = None
        if len(deltas) > MOST_DELTAS:
            # For the next version: workers that have this one then find it in the shorter chain too.
            every = {number for file in deltas for number in _numbers(file)}
            self._folded = self._write_delta(known.base.version, every)
        self._publish(Snapshot(known.base, deltas, self.engine.selects))

    def _rebase(self) -> None:
        self._folded = None
        engine = self._fresh(BASE)
        self.engine.save(engine)
        traits = self._fresh("base.traits")
        rows = [row or (None,) * len(TRAITS) for row in self._traits]
        columns = list(zip(*rows, strict=True)) or [()] * len(TRAITS)
        _write(traits, pa.table([pa.array(column, f.type) for column, f in zip(columns, TRAITS, strict=True)], TRAITS))
        self._publish(Snapshot(self._share(engine, traits), (), self.engine.selects))

    def _publish(self, version: Snapshot) -> None:
        self.published = version
        self._in_use.add(version)

    def _write_delta(self, since: int, numbers: Iterable[int]) -> File:
        engine = self._fresh("delta")
        self.engine.save_delta(engine, since)
        traits = self._fresh("delta.traits")
        rows = [(number, *(self._traits[number] or ())) for number in sorted(numbers)]
        columns = list(zip(*rows, strict=True)) or [()] * len(CHANGED_TRAITS)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, CHANGED_TRAITS, strict=True)]
        _write(traits, pa.table(arrays, CHANGED_TRAITS))
        return self._share(engine, traits)

    def _fresh(self, name: str) -> Path:
        self._number += 1
        return self._path(self._number, name)

    def _path(self, number: int, name: str) -> Path:
        # Nobody else's name, ever: a worker that outlives this run must not take a later one's file for what it has.
        return self.folder / f"{self._name}-{number:06d}.{name}"

    def _share(self, engine: Path, traits: Path) -> File:
        file = File(self.files.share(engine), self.files.share(traits), self.engine.version)
        self._written.append(file)
        return file

    def _delete_unused(self) -> None:
        """Delete the files of versions that nobody holds any more: a batch holds its own until its tasks are done."""
        used = {file for version in self._in_use for file in version.files}
        if self._folded is not None:
            used.add(self._folded)
        for file in [file for file in self._written if file not in used]:
            for shared in file.every:
                self.files.delete(shared)
            self._written.remove(file)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which a third of the time looks in vain at what is being loaded."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _size(file: File) -> int:
    return sum(Path(shared.path).stat().st_size for shared in file.every)


def _numbers(file: File) -> list[int]:
    assert file.traits is not None
    with pa.memory_map(file.traits.path) as mapped:
        numbers: list[int] = pa.ipc.open_file(mapped).read_all().column("number").to_pylist()
    return numbers


def _write(path: Path, table: pa.Table) -> None:
    fresh = path.with_name("." + path.name)
    with pa.OSFile(str(fresh), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    fresh.replace(path)
