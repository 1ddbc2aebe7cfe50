"""The match stage on DataFrames: messages in; a row per match, refused message or failed subscription out."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.engine import Engine
from twigcast.errors import OptionError
from twigcast.rows import REFUSED, refused_columns
from twigcast.spark.serve import LOCAL, checksum_of, files_of
from twigcast.spark.stages.messages import check_messages
from twigcast.spark.stages.outcome import Asked, Outcome, outcomes, payloads
from twigcast.spark.stages.preload import preloading
from twigcast.spark.workers import File, Snapshot, held_at

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

ROWS_AT_ONCE = 1 << 16
"""Rows of one batch that goes back to Spark, whatever the number of matches of a message."""

REJECT = {**REFUSED, "original": pa.binary()}


@dataclass(frozen=True)
class Matched:
    """The result of :func:`match`: one DataFrame, and its three parts.

    ``rows`` has all kinds: ``reason`` is null for a match, ``subscription`` is null for a refused message, and a
    failure of a subscription has both. ``matches``, ``dead`` and ``failures`` filter it, so a job that uses several
    matches every message as often unless it calls :meth:`persist` first (or, in a streaming query, does so inside
    ``foreachBatch``).
    """

    rows: DataFrame

    @cached_property
    def matches(self) -> DataFrame:
        """``message``, ``subscription``; and ``payload`` where some subscription is a transform or selects something:
        what it gets, null for the message itself."""
        names = [name for name in ("message", "subscription", "payload") if name in self.rows.columns]
        return self.rows.where("reason is null").select(*names)

    @cached_property
    def dead(self) -> DataFrame:
        """``message``, ``reason``, ``line``, ``column``, ``offset``, ``text``, ``original``."""
        return self.rows.where("reason is not null and subscription is null").drop("subscription", "payload")

    @cached_property
    def failures(self) -> DataFrame:
        """``message``, ``subscription``, ``reason``, ``text``: subscriptions that could not be evaluated on a message.
        The others were."""
        failed = self.rows.where("reason is not null and subscription is not null")
        return failed.select("message", "subscription", "reason", "text")

    def persist(self) -> Matched:
        """Keep the rows, so that all parts come from one pass. Release them with :meth:`unpersist`."""
        return Matched(self.rows.persist())

    def unpersist(self) -> None:
        self.rows.unpersist()


@dataclass(frozen=True, slots=True)
class MatchStage:
    """What runs in a worker. Pickled with each task, hence small: the engine is named, not carried."""

    snapshot: Snapshot

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = held_at(self.snapshot).engine
        ids, selects = engine.ids, self.snapshot.selects
        for outcome in outcomes(batches, Asked(engine, selects)):
            yield from match_rows(outcome, ids, selects=selects)
            rejected = outcome.rejected
            if rejected is not None:
                yield from dead_rows(rejected, ids.type, selects=selects)
            failing = outcome.failing
            if failing is not None:
                yield from failed_rows(failing, ids, selects=selects)


def publish(
    engine: Engine | str | Path, *, folder: Path | None = None, context: SparkContext | None = None
) -> Snapshot:
    """Put a snapshot where every worker can open it.

    ``folder`` is a temporary one, deleted at exit, unless given. With the ``context`` of a cluster, machines that do
    not see the folder fetch the snapshot from the driver, once each.
    """
    folder = folder or _temporary_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # Never seen half-written: a name of its own first, then the rename.
    fresh = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        if isinstance(engine, (str, Path)):
            _copy(Path(engine), fresh)
        else:
            engine.save(fresh)
        # A worker that has the same set open knows it by its name.
        path = folder / f"{checksum_of(fresh)}.snapshot"
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    files = LOCAL if context is None else files_of(context)
    base = File(files.share(path.resolve()))
    selects = engine.selects if isinstance(engine, Engine) else held_at(Snapshot(base)).engine.selects
    return Snapshot(base, selects=selects)


def _copy(snapshot: Path, fresh: Path) -> None:
    try:
        shutil.copyfile(snapshot, fresh)
    except OSError as error:
        raise OptionError(
            "no-such-snapshot",
            f"the snapshot {str(snapshot)!r} cannot be read: {error.strerror}",
            hint="give the path of a file that Engine.save wrote",
        ) from error


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="twigcast-snapshots-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def match(messages: DataFrame, engine: Engine | Snapshot | str | Path, *, id: str = "id", xml: str = "xml") -> Matched:
    """Match every message of a DataFrame, static or streaming, against an engine or the snapshot file of one.

    ``id`` names the column that comes back as ``message`` (any type, need not be unique), ``xml`` the one with the
    message: binary, or a string, whose own encoding declaration is then ignored. A message that cannot be read, a null
    included, is a row of ``dead`` and never an exception.
    """
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    check_messages(messages, id, xml)
    if not isinstance(engine, (Engine, Snapshot, str, Path)):
        raise OptionError(
            "bad-engine",
            f"subscriptions must be an Engine, a Snapshot or the path of a snapshot, not {type(engine).__name__}",
            hint='engine = Engine(); engine.add("/a"); match(messages, engine)',
        )
    pair = messages.select(messages[id].alias("id"), messages[xml].alias("xml"))
    if not isinstance(pair.schema["xml"].dataType, (BinaryType, StringType)):
        found = pair.schema["xml"].dataType.simpleString()
        raise OptionError("bad-column", f"column {xml!r} is {found}", hint="messages are binary or string")

    spark = messages.sparkSession
    snapshot = engine if isinstance(engine, Snapshot) else publish(engine, context=spark.sparkContext)
    opened = engine if isinstance(engine, Engine) else held_at(snapshot).engine
    numbers = pa.types.is_integer(opened.ids.type)
    schema = StructType(
        [
            StructField("message", pair.schema["id"].dataType),
            StructField("subscription", LongType() if numbers else StringType()),
            StructField("reason", StringType()),
            StructField("line", LongType()),
            StructField("column", LongType()),
            StructField("offset", LongType()),
            StructField("text", StringType()),
            StructField("original", BinaryType()),
            *([StructField("payload", BinaryType())] if snapshot.selects else []),
        ]
    )
    # What was published is for more than one job: worth a daemon that keeps it.
    with preloading(spark.sparkContext, snapshot.base.engine if isinstance(engine, Snapshot) else None):
        return Matched(pair.mapInArrow(MatchStage(snapshot), schema))


def match_rows(outcome: Outcome, ids: pa.Array, *, selects: bool = False) -> Iterator[pa.RecordBatch]:
    """Matches as rows, in batches of bounded size, without a loop over them."""
    parents = outcome.matches.value_parent_indices()
    found = outcome.matches.flatten()
    is_struct = pa.types.is_struct(found.type)
    for start in range(0, len(found), ROWS_AT_ONCE):
        some = found.slice(start, ROWS_AT_ONCE)
        messages = outcome.ids.take(parents.slice(start, ROWS_AT_ONCE))
        columns = [messages, ids.take(some.field("subscription") if is_struct else some)]
        columns += [pa.nulls(len(messages), kind) for kind in REJECT.values()]
        yield _batch(columns, payloads(some) if is_struct else None, selects)


def dead_rows(rejected: Outcome, subscription: pa.DataType, *, selects: bool = False) -> Iterator[pa.RecordBatch]:
    """Refused messages as rows, whole."""
    columns = [rejected.ids, pa.nulls(len(rejected.ids), subscription), *refused_columns(rejected.errors).values()]
    yield _batch([*columns, rejected.xml.cast(pa.binary())], None, selects)


def failed_rows(failing: Outcome, ids: pa.Array, *, selects: bool = False) -> Iterator[pa.RecordBatch]:
    """Failures of subscriptions as rows, in batches of bounded size."""
    parents = failing.failures.value_parent_indices()
    found = failing.failures.flatten()
    for start in range(0, len(found), ROWS_AT_ONCE):
        some = found.slice(start, ROWS_AT_ONCE)
        given = {
            "message": failing.ids.take(parents.slice(start, ROWS_AT_ONCE)),
            "subscription": ids.take(some.field("subscription")),
            "reason": some.field("code").cast(pa.string()),
            "text": some.field("text").cast(pa.string()),
        }
        names = ("message", "subscription", *REJECT)
        yield _batch([given.get(n, pa.nulls(len(some), REJECT.get(n))) for n in names], None, selects)


def _batch(columns: list[pa.Array], payload: pa.Array | None, selects: bool) -> pa.RecordBatch:
    names = ["message", "subscription", *REJECT]
    if selects:
        names.append("payload")
        columns = [*columns, pa.nulls(len(columns[0]), pa.binary()) if payload is None else payload]
    return pa.RecordBatch.from_arrays(columns, names)
