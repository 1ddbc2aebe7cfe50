"""The delivery log: what each micro-batch found, durable before any sink sees it, and until every sink has.

    <folder>/<stream>/batch-00000007/0000.messages.parquet  0000.deliveries.parquet  0000.dead.parquet
                                     0000.failures.parquet  0000.seen.parquet
    <folder>/<stream>/batch-00000007.json        the ledger: the batch exists if and only if this file does
    <folder>/<stream>/forgotten.json             the last batch that every sink has passed, and which sinks these were
    <folder>/<stream>/correlated.json            the last batch that correlations have read, while there are some
    <folder>/<stream>/_staging/<run>/…           where the tasks of a run write

Tasks write parts under names of their own. The driver moves the parts that the successful tasks report into the
batch's folder and then writes the ledger; a crash before that leaves a folder without a ledger, which the next run
deletes, and Spark runs the batch again. A message's body is kept once, whatever the number of its deliveries.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twigcast.delivery.files import (
    FRESH,
    claimed,
    make_folder,
    read_identity,
    read_record,
    sync_folder,
    write_record,
)
from twigcast.errors import OptionError, StateDamaged, TwigcastError

KINDS = ("messages", "deliveries", "dead", "failures", "seen")
ROWS_AT_ONCE = 1 << 16
"""Deliveries that a reader holds at one time."""

FORGOTTEN = "forgotten.json"
CORRELATED = "correlated.json"
_LEDGER = re.compile(r"batch-(\d+)\.json")
_BATCH = re.compile(r"batch-(\d+)")
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True)
class Counts:
    """What went through."""

    messages: int = 0
    bytes: int = 0
    deliveries: int = 0
    rejects: int = 0
    failures: int = 0
    """Failures of single subscriptions, one for each subscription and message. Logs before version 0.2 have none."""

    def add(self, other: Counts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some deliveries and the messages they are of: ``rows[i]`` is the row in ``messages`` of delivery ``i``.

    Not joined, since a body may be delivered a million times: a sink takes what it needs by row.
    """

    messages: pa.RecordBatch
    """``message``, ``stream``, ``time``, ``headers``, ``xml``"""
    deliveries: pa.RecordBatch
    """``delivery``, ``row``, ``subscription``, ``subscriber``, ``payload``, ``max_delay``"""
    places: pa.Array | None = None
    """The number of each delivery among all deliveries of the batch, for every sink and run the same; None where the
    deliveries are not those of a batch in the log."""

    @property
    def rows(self) -> pa.Array:
        return self.deliveries.column("row")

    def of_message(self, name: str) -> pa.Array:
        """Return a column of the messages, one value per delivery."""
        return self.messages.column(name).take(self.rows)

    def filter(self, mask: pa.Array) -> Piece:
        places = None if self.places is None else self.places.filter(mask)
        return Piece(self.messages, self.deliveries.filter(mask), places)


@dataclass(frozen=True)
class LogBatch:
    """A committed batch of a stream."""

    folder: Path
    stream: str
    batch: int
    ledger: Mapping[str, Any]

    @property
    def version(self) -> Any:
        """The version of the subscriptions that the batch was matched against."""
        return self.ledger["version"]

    @property
    def time(self) -> float:
        """When it was committed, in seconds since 1970."""
        return float(self.ledger["time"])

    @cached_property
    def counts(self) -> Counts:
        return Counts(**self.ledger["counts"])

    def pieces(self) -> Iterator[Piece]:
        """Return the deliveries in the order of their messages, a bounded number at a time."""
        first = 0
        for part in self.ledger["parts"]:
            if "deliveries" not in part:
                continue
            with (
                self._opened(part["messages"]) as messages,
                self._opened(part["deliveries"]) as deliveries,
            ):
                # A row group of deliveries belongs to the row group of messages of the same number.
                for group in range(messages.num_row_groups):
                    # In this thread: the other cores have messages to match.
                    body = one_batch(messages.read_row_group(group, use_threads=False))
                    for rows in deliveries.iter_batches(ROWS_AT_ONCE, row_groups=[group], use_threads=False):
                        yield Piece(body, rows, pa.array(range(first, first + len(rows)), pa.int64()))
                        first += len(rows)

    def deliveries(self) -> Iterator[pa.RecordBatch]:
        """Yield the deliveries joined with their messages. Bodies are repeated: for small batches, tests and tools."""
        for piece in self.pieces():
            names = [name for name in piece.messages.schema.names if name not in piece.deliveries.schema.names]
            columns = [piece.of_message(name) for name in names]
            yield pa.RecordBatch.from_arrays(
                [*piece.deliveries.columns, *columns], [*piece.deliveries.schema.names, *names]
            )

    @cached_property
    def has_delayed(self) -> bool:
        """Whether some deliveries need not be made at once."""
        for part in self.ledger["parts"]:
            if "deliveries" in part:
                with self._opened(part["deliveries"]) as file:
                    if (pc.max(file.read(columns=["max_delay"]).column(0)).as_py() or 0) > 0:
                        return True
        return False

    def dead(self) -> Iterator[pa.RecordBatch]:
        """Yield the refused messages, a bounded number at a time."""
        yield from self._rows("dead")

    def failures(self) -> Iterator[pa.RecordBatch]:
        """Yield the failures of subscriptions, counted by subscription and reason within each part."""
        yield from self._rows("failures")

    def files(self, kind: str) -> list[Path]:
        """Return the files with the parts of one kind."""
        return [self.folder / part[kind] for part in self.ledger["parts"] if kind in part]

    def _rows(self, kind: str) -> Iterator[pa.RecordBatch]:
        for path in self.files(kind):
            yield from rows_of(path)

    def _opened(self, name: str) -> AbstractContextManager[pq.ParquetFile]:
        return _opened(self.folder / name)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a part. What does not read as it was written is :class:`StateDamaged`, here and while it is read."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's own words
        raise StateDamaged(path, f"is damaged: {str(error).splitlines()[0][:200]}") from error


def rows_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, a bounded number at a time."""
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            yield one_batch(file.read_row_group(group))


class Log:
    """The log of one stream. Reading needs no claim; writing does, which also clears up after a crash."""

    def __init__(self, folder: Path, stream: str) -> None:
        if not _STREAM.fullmatch(stream):
            hint = "use letters, digits, and . _ - in between, at most 100"
            raise OptionError("bad-stream", f"a stream cannot be called {stream!r}", hint=hint)
        self.stream = stream
        self.folder = folder.absolute() / stream
        self.staging = self.folder / "_staging" / uuid.uuid4().hex
        self._latest: int | None = None

    @contextmanager
    def claimed(self) -> Iterator[Log]:
        """Ours alone, with nothing of an earlier run left but its committed batches."""
        with claimed(self.folder):
            self._recover()
            shutil.rmtree(self.staging.parent, ignore_errors=True)
            make_folder(self.staging)
            try:
                yield self
            finally:
                shutil.rmtree(self.staging, ignore_errors=True)

    def commit(self, batch: int, version: Any, reports: Iterable[Mapping[str, Any]]) -> Counts:
        """Make a batch exist, of the parts that ``reports`` name; returns what it counts."""
        if self.committed(batch) is not None:
            raise TwigcastError("batch-committed", f"batch {batch} of {self.stream} has been committed before")
        folder = self._folder(batch)
        shutil.rmtree(folder, ignore_errors=True)  # of a commit that failed half-way in this very run
        make_folder(folder)
        counts = Counts()
        parts: list[dict[str, str]] = []
        for report in reports:
            counts.add(Counts(*(report[field.name] for field in fields(Counts))))
            names = {kind: f"{len(parts):04d}.{kind}.parquet" for kind in KINDS if report[kind + "_file"]}
            for kind, name in names.items():
                (self.staging / report[kind + "_file"]).replace(folder / name)
            if names:
                parts.append(names)
        sync_folder(folder)
        sizes = {name: (folder / name).stat().st_size for names in parts for name in names.values()}
        ledger = {
            "batch": batch, "previous": self.last if self._latest is None else self._latest, "version": version,
            "time": time.time(), "counts": asdict(counts), "parts": parts, "bytes": sizes,
            "state": self._state,
        }  # fmt: skip
        write_record(self._ledger(batch), ledger)
        self._latest = batch
        for stray in self.staging.iterdir():  # of attempts that failed
            stray.unlink(missing_ok=True)
        return counts

    def committed(self, batch: int) -> Counts | None:
        """Return what a batch counts if it exists or has existed: it must not be written again."""
        try:
            return Counts(**read_record(self._ledger(batch))["counts"])
        except FileNotFoundError:
            return Counts() if batch <= self.forgotten else None

    @property
    def last(self) -> int:
        """The last batch that was committed, -1 if none was."""
        return max(self._numbers(_LEDGER), default=self.forgotten)

    @property
    def forgotten(self) -> int:
        """The last batch whose deliveries are gone, -1 if all are there."""
        return int(self._forgotten()["batch"])

    @property
    def passed_by(self) -> list[str]:
        """The sinks that had passed the forgotten batches; empty if an earlier version forgot them."""
        return list(self._forgotten().get("sinks", ()))

    def _forgotten(self) -> dict[str, Any]:
        try:
            return read_record(self.folder / FORGOTTEN)
        except FileNotFoundError:
            return {"batch": -1}

    def batches(self, after: int = -1) -> Iterator[LogBatch]:
        """Yield the committed batches with higher numbers, in order, but for the forgotten ones."""
        after = max(after, self.forgotten)
        for number in sorted(number for number in self._numbers(_LEDGER) if number > after):
            try:
                ledger = read_record(self._ledger(number))
            except FileNotFoundError:  # forgotten since, by the process that owns the log
                continue
            yield LogBatch(self._folder(number), self.stream, number, ledger)

    def forget(self, upto: int, sinks: Sequence[str] = ()) -> None:
        """Delete the deliveries of batches up to this one, which ``sinks`` have passed, but none that correlations have
        yet to read.

        What the last batch counted stays known. That these sinks have passed it stays known too: if their cursors are
        ever found to be lower, the outbox is not the one that the log belongs to.
        """
        upto = min(upto, self.last)
        correlated = self.correlated
        if correlated is not None:
            upto = min(upto, correlated)
        if upto > self.forgotten:
            write_record(self.folder / FORGOTTEN, {"batch": upto, "sinks": sorted(sinks), "state": self._state})
            self._drop(upto)

    @property
    def correlated(self) -> int | None:
        """The last batch that correlations have read; None while there are none."""
        try:
            return int(read_record(self.folder / CORRELATED)["batch"])
        except FileNotFoundError:
            return None

    def set_correlated(self, batch: int | None) -> None:
        """Keep the batches after this one until correlations have read them; None: there are no correlations."""
        if batch is None:
            (self.folder / CORRELATED).unlink(missing_ok=True)
        elif batch != self.correlated:
            write_record(self.folder / CORRELATED, {"batch": batch})

    def check(self, state: str) -> None:
        """Raise :class:`StateDamaged` if a file of the log is missing, damaged, or of another state folder.

        Contents of parts are checked when they are read. Nothing may be forgotten meanwhile.
        """
        record = self._forgotten()
        forgotten, numbers = int(record["batch"]), set(self._numbers(_LEDGER))
        records = [(self.folder / FORGOTTEN, record)]
        for number in sorted(numbers):
            path = self._ledger(number)
            ledger = read_record(path)
            records.append((path, ledger))
            previous = ledger.get("previous", -1)
            if previous > forgotten and previous not in numbers:
                text = "is missing" if forgotten >= 0 else f"is missing, or else {self.folder / FORGOTTEN} is"
                raise StateDamaged(self._ledger(previous), text)
            if number > forgotten:
                self._check_parts(number, ledger)
        for path, record in records:
            if record.get("state") not in (None, state):
                raise StateDamaged(path, "is not of this state folder")

    def _check_parts(self, number: int, ledger: Mapping[str, Any]) -> None:
        sizes = ledger.get("bytes", {})
        for names in ledger["parts"]:
            for name in names.values():
                path = self._folder(number) / name
                try:
                    found = path.stat().st_size
                except FileNotFoundError:
                    raise StateDamaged(path, "is missing") from None
                if found != sizes.get(name, found):
                    raise StateDamaged(path, f"has {found:,} bytes instead of {sizes[name]:,}")

    def _drop(self, upto: int) -> None:
        # Another thread may be committing a batch meanwhile, hence nothing beyond is touched.
        last = self.last
        for number in self._numbers(_BATCH):
            if number <= upto:
                shutil.rmtree(self._folder(number), ignore_errors=True)
        for number in self._numbers(_LEDGER):
            if number <= upto and number != last:
                self._ledger(number).unlink(missing_ok=True)

    def _recover(self) -> None:
        self._drop(self.forgotten)
        last = self.last
        for number in set(self._numbers(_BATCH)) - set(self._numbers(_LEDGER)):
            if number > last:  # else its ledger was lost, which ``check`` tells
                shutil.rmtree(self._folder(number), ignore_errors=True)
        for stray in self.folder.glob(f".*{FRESH}"):
            stray.unlink(missing_ok=True)

    @property
    def _state(self) -> str | None:
        """The id of the state folder, if the log is in one."""
        return read_identity(self.folder.parents[1]) if self.folder.parent.name == "log" else None

    def _folder(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:08d}"

    def _ledger(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:08d}.json"

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        if not self.folder.is_dir():
            return []
        found = (pattern.fullmatch(path.name) for path in self.folder.iterdir())
        return [int(match[1]) for match in found if match]


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one record batch."""
    batches: Sequence[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
