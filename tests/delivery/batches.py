"""Logs with batches in them, and pipelines that deliver them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twigcast import config
from twigcast.delivery import Log, LogWriter

SINKS: dict[str, dict[str, Any]] = {
    "files": {"kind": "directory", "path": "files"},
    "lines": {"kind": "directory", "path": "lines", "layout": "jsonl"},
    "lake": {"kind": "parquet", "path": "lake"},
}


def pipeline(
    folder: Path, sinks: Mapping[str, Mapping[str, Any]] = SINKS, routes: list[Any] | None = None, stream: str = "s"
) -> config.Pipeline:
    raw = {
        "state": {"path": "state"},
        "streams": {stream: {"source": "rate"}},
        "sinks": {name: {"backoff": 0.05, "max_backoff": 0.2, **sink} for name, sink in sinks.items()},
        "routes": routes or [],
    }
    return config.Pipeline.model_validate(raw, context={"folder": folder})


def commit(
    settings: config.Pipeline,
    batch: int,
    rows: Iterable[tuple[str, str, str | None]],
    *,
    stream: str = "s",
    delay: int | None = None,
    payload: bytes | None = None,
    body: bytes = b"<a n='%d'/>",
    dead: Iterable[tuple[str, bytes]] = (),
) -> Log:
    """A batch of ``(message, subscription, subscriber)``, one message after the other."""
    log = Log(settings.state.log, stream)
    listed = list(rows)
    names = list(dict.fromkeys(message for message, _, _ in listed))
    with log.claimed():
        with LogWriter(str(log.staging), stream).part() as part:
            if names:
                bodies = [body % number if b"%d" in body else body for number in range(len(names))]
                messages = pa.record_batch({"message": names, "xml": pa.array(bodies, pa.binary())})
                deliveries = pa.record_batch(
                    {
                        "row": pa.array([names.index(message) for message, _, _ in listed], pa.int32()),
                        "subscription": [id for _, id, _ in listed],
                        "subscriber": pa.array([subscriber for _, _, subscriber in listed], pa.string()),
                        "max_delay": pa.array([delay] * len(listed), pa.int64()),
                        "payload": pa.array([payload] * len(listed), pa.binary()),
                    }
                )
                part.write(messages, deliveries)
            for message, original in dead:
                part.reject(pa.record_batch({"message": [message], "reason": ["bad-tag"], "original": [original]}))
        log.commit(batch, 1, [part.report])
    return log


def some(batch: int, count: int = 10) -> list[tuple[str, str, str | None]]:
    return [(f"m{batch}-{n}", f"q{n % 3}", [None, "alice", "bob"][n % 3]) for n in range(count)]


def _published(folder: Path, pattern: str) -> list[Path]:
    """The files of a sink without those under way in the hidden folder, which may vanish meanwhile."""
    return [path for top in folder.glob("[!.]*") for path in top.rglob(pattern)]


def in_files(folder: Path) -> list[tuple[str, str]]:
    """``(subscriber, delivery)`` of a directory sink with a file each."""
    paths = _published(folder, "*.xml")
    return sorted((path.relative_to(folder).parts[0], path.stem.split(".")[-1]) for path in paths)


def in_lines(folder: Path) -> list[dict[str, Any]]:
    paths = _published(folder, "*.jsonl")
    return [json.loads(line) for path in sorted(paths) for line in path.read_text("utf-8").splitlines()]


def in_lake(folder: Path) -> list[dict[str, Any]]:
    paths = _published(folder, "*.parquet")
    return [row for path in sorted(paths) for row in pq.ParquetFile(path).read().to_pylist()]


def expected(logs: Iterable[Log]) -> list[str]:
    """The ids of all deliveries that the logs still have."""
    return sorted(
        id
        for log in logs
        for batch in log.batches()
        for piece in batch.pieces()
        for id in piece.deliveries.column("delivery").to_pylist()
    )
