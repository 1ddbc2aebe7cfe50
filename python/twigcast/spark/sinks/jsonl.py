"""Outcomes as JSON Lines, written by the workers.

matches   {"message": "a.xml", "subscription": 17}
dead      {"message": "b.xml", "reason": "bad-tag", "line": 3, "column": 7, "offset": 61, "text": …, "original": …}
          {"subscription": 17, "reason": "query-too-costly", "count": 3, "first_message": …, "last_message": …, …}
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.failures import Tally
from twigcast.spark.sinks.outbox import Counts
from twigcast.spark.stages.outcome import Outcome
from twigcast.spark.stages.snapshot import KEPT, Snapshot, engine_of

LINES_AT_ONCE = 1 << 16

REPORT = pa.schema(
    [
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("matches", pa.int64()),
        ("rejects", pa.int64()),
        ("failures", pa.int64()),
        ("matches_file", pa.string()),
        ("dead_file", pa.string()),
    ]
)
REPORT_SQL = (
    "messages long, bytes long, matches long, rejects long, failures long, matches_file string, dead_file string"
)


@dataclass(frozen=True, slots=True)
class Write:
    """Writes the outcomes of one task to the staging folder and reports one row about them; runs in a worker."""

    staging: str
    snapshot: Snapshot

    def __call__(self, outcomes: Iterable[Outcome]) -> Iterator[pa.RecordBatch]:
        # The name is the attempt's own: a task that Spark runs again, or a worker that outlives its driver for a
        # moment, cannot touch what another one wrote.
        attempt = uuid.uuid4().hex
        counts = Counts()
        tails = line_tails(self.snapshot)
        ids = engine_of(self.snapshot).ids
        failed = Tally()
        with (
            _Part(Path(self.staging, f"{attempt}.matches")) as matches,
            _Part(Path(self.staging, f"{attempt}.dead")) as dead,
        ):
            for outcome in outcomes:
                counts.messages += len(outcome.ids)
                counts.bytes += pc.sum(pc.binary_length(outcome.xml)).as_py() or 0
                for lines in match_lines(outcome, tails):
                    counts.matches += len(lines)
                    matches.write(_joined(lines))
                rejected = outcome.rejected
                if rejected is not None:
                    counts.rejects += len(rejected.ids)
                    for line in dead_lines(rejected):
                        dead.write(line)
                if outcome.failing is not None:
                    count_failures(outcome.failing, ids, failed)
            counts.failures = failed.count
            for row in failed.rows:
                dead.write(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
        row = {**asdict(counts), "matches_file": matches.name, "dead_file": dead.name}
        if counts.messages:
            yield pa.RecordBatch.from_pylist([row], schema=REPORT)


@lru_cache(maxsize=KEPT)
def line_tails(snapshot: Snapshot) -> pa.Array:
    """:func:`tails_of` the subscriptions of a snapshot, once per worker process."""
    return tails_of(engine_of(snapshot).ids)


def tails_of(ids: pa.Array) -> pa.Array:
    """The end of a line, ready made for each subscription."""
    return pc.binary_join_element_wise(', "subscription": ', _json(ids), "}\n", "")


def match_lines(outcome: Outcome, tails: pa.Array) -> Iterator[pa.Array]:
    """Matches as lines, in arrays of bounded size, without a loop over them."""
    numbers = outcome.matches.flatten()
    if not len(numbers):
        return
    parents = outcome.matches.value_parent_indices()
    heads = pc.binary_join_element_wise('{"message": ', _json(outcome.ids), "")
    for start in range(0, len(numbers), LINES_AT_ONCE):
        yield pc.binary_join_element_wise(
            heads.take(parents.slice(start, LINES_AT_ONCE)),
            tails.take(numbers.slice(start, LINES_AT_ONCE)),
            "",
        )


def dead_lines(rejected: Outcome) -> Iterator[bytes]:
    """One line per refused message, with the message itself: as text where it is UTF-8, else in base64."""
    for message, xml, error in zip(
        rejected.ids.to_pylist(), rejected.xml.to_pylist(), rejected.errors.to_pylist(), strict=True
    ):
        line: dict[str, Any] = {"message": message, "reason": error["code"]}
        line |= {name: error[name] for name in ("line", "column", "offset", "text")}
        try:
            line["original"] = None if xml is None else xml.decode("utf-8")
        except UnicodeDecodeError:
            line |= {"original": base64.b64encode(xml).decode("ascii"), "encoding": "base64"}
        yield json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"


def count_failures(failing: Outcome, ids: pa.Array, failed: Tally) -> None:
    """Count the failures of subscriptions on some messages."""
    for message, failures in zip(failing.ids.to_pylist(), failing.failures.to_pylist(), strict=True):
        for one in failures:
            failed.add(ids[one["subscription"]].as_py(), one["code"], one["text"], message)


def _json(values: pa.Array) -> pa.Array:
    """Each value as JSON. Identifiers rarely need escapes, so that is asked of all at once first."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.string())
        return pc.fill_null(values, "null")
    if values.null_count or pc.any(pc.match_substring_regex(values, r'["\\\x00-\x1f\x7f]')).as_py():
        return pa.array([json.dumps(value, ensure_ascii=False) for value in values.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', values, '"', "").cast(pa.string())


def _joined(lines: pa.Array) -> memoryview:
    """All lines as one piece of memory: that is how Arrow keeps them."""
    start, end = lines.offset, lines.offset + len(lines)
    offsets = memoryview(lines.buffers()[1]).cast("i" if pa.types.is_string(lines.type) else "q")
    return memoryview(lines.buffers()[2])[offsets[start] : offsets[end]]


class _Part:
    """A file that exists only if something is written to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    @property
    def name(self) -> str | None:
        return None if self._file is None else self._path.name

    def write(self, data: bytes | memoryview) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb", buffering=1 << 20)
        self._file.write(data)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
