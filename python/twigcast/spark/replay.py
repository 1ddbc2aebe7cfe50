"""Archived messages through the subscriptions of now, once more.

A replay has a log of its own, ``<stream>.replay-<time>``, which sinks follow like any other: those of the pipeline if
it runs, else those that the replay starts for itself. Deliveries have the ids that they would have had from the stream,
so that who must not act twice can tell.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast import config
from twigcast.delivery import Counts, Log, LogWriter
from twigcast.delivery.files import claimed
from twigcast.delivery.runner import PATIENCE, Runner
from twigcast.errors import OptionError
from twigcast.spark.live import LiveSet
from twigcast.spark.paths import local_uri
from twigcast.spark.serve import files_of
from twigcast.spark.sources.event_time import TRANSPORT, EventTime
from twigcast.spark.sources.table import load
from twigcast.spark.stages.archive import SCHEMA_SQL, archived_streams
from twigcast.spark.stages.deliver import DeliverTask, commit_batch
from twigcast.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

BYTES_AT_ONCE = 64 << 20
"""Of archive files (compressed) that make one batch of the log."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay: messages of event time from ``since`` on and before ``until``."""

    since: datetime
    until: datetime | None = None
    streams: tuple[str, ...] = ()
    """All, if there are none."""
    subscription: str | None = None

    def where(self) -> str:
        text = f"time >= timestamp_micros({_micros(self.since)})"
        return text if self.until is None else f"{text} and time < timestamp_micros({_micros(self.until)})"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What went through, and per sink what is yet to be delivered; of a pipeline that runs, its status tells that."""

    total: Counts
    undelivered: dict[str, int]
    ours: bool
    """The sinks were run for the replay, not by a pipeline."""


def replay(
    settings: config.Pipeline,
    wanted: Replay,
    spark: Callable[[], SparkSession],
    on_batch: Callable[[str, Counts], None] = lambda stream, counts: None,
    patience: float = PATIENCE,
) -> Replayed:
    """Runs the archive, or the wanted part of it, through the subscriptions again.

    ``patience``: seconds to wait for a sink that gets nowhere; the next run goes on there.
    """
    if wanted.until is not None and wanted.until <= wanted.since:
        since, until = (moment.isoformat(timespec="seconds") for moment in (wanted.since, wanted.until))
        text = f"no time lies between {since} and {until}"
        raise OptionError("empty-range", text, hint="--since is the earlier one, --until the later one")
    if settings.archive is None:
        text = "there is no archive to replay: the configuration has no [archive]"
        raise OptionError("no-archive", text, hint="set archive.path, and messages are kept from then on")
    archive = settings.archive.path
    known = archived_streams(archive)
    for stream in wanted.streams:
        if stream not in known:
            raise OptionError("no-archive", f"the archive has no stream {stream!r}", hint=f"it has: {', '.join(known)}")
    total, undelivered = Counts(), {}
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(settings.store.url, history=settings.store.history))
        if wanted.subscription is not None:
            store.subscription(wanted.subscription)  # raises if there is none
        ours = _claim(stack, settings)
        names = {stream: f"{stream}.replay-{stamp}" for stream in wanted.streams or known}
        logs = {name: stack.enter_context(Log(settings.state.log, of).claimed()) for name, of in names.items()}
        session = spark()
        subscriptions = LiveSet(
            store,
            settings.state.path / "replay" / stamp,
            shards=settings.spark.shards,
            limits=settings.limits.limits(),
            only=wanted.subscription,
            files=files_of(session.sparkContext),
        )
        for stream, log in logs.items():
            for number, files in enumerate(_pieces(archive / stream)):
                frame = (
                    session.read.schema(SCHEMA_SQL)
                    .parquet(*(local_uri(file, pattern=True) for file in files))
                    .where(wanted.where())
                )
                published = subscriptions.current()
                writer = LogWriter(str(log.staging), stream)
                task = DeliverTask(load, EventTime(TRANSPORT), stream, published.shards[0], writer, again=True)
                counts = commit_batch(frame, task, published, log, number)
                total.add(counts)
                on_batch(stream, counts)
        if ours:
            runner = Runner(settings, store, pausing=store)
            runner.logs = {**runner.logs, **{log.stream: log for log in logs.values()}}
            with runner:
                if not runner.drain(patience=patience):
                    undelivered = runner.undelivered()
    return Replayed(total, undelivered, ours)


def _claim(stack: ExitStack, settings: config.Pipeline) -> bool:
    """Whether the sinks are ours to run: a pipeline that runs has its own."""
    try:
        stack.enter_context(claimed(settings.state.path))
    except OptionError:
        return False
    return True


def _pieces(folder: Path) -> Iterator[list[Path]]:
    """Yield the files of an archive, as many at a time as make a batch."""
    some: list[Path] = []
    size = 0
    links = 0
    for path in sorted(folder.glob("batch-*/*.parquet")):
        if path.is_symlink() or path.parent.is_symlink():
            links += 1
            continue
        some.append(path)
        size += path.stat().st_size
        if size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some
    if links:
        logger.warning("warning: %s: skipped %s symbolic links", folder, f"{links:,}")


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
