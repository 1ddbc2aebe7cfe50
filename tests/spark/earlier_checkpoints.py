"""Checkpoints as earlier versions have left them."""

from __future__ import annotations

import json
from pathlib import Path


def old_checkpoint(folder: Path, inbox: Path, looks: list[list[str]], ends: list[int], sources: int = 1) -> None:
    """What Spark's file source leaves behind: ``looks`` at the folder, and with which look each micro-batch ends."""
    for part in ("offsets", "commits", *(f"sources/{n}" for n in range(sources))):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"0f0e"}')
    rows = []
    for look, names in enumerate(looks):
        new = [{"path": (inbox / name).as_uri(), "timestamp": 1, "batchId": look} for name in names]
        rows += new
        lines = ["v1", *(json.dumps(row, separators=(",", ":")) for row in (rows if look % 10 == 9 else new))]
        for source in range(sources):
            name = f"{look}.compact" if look % 10 == 9 else str(look)
            (folder / "sources" / str(source) / name).write_text("\n".join(lines))
    for batch, look in enumerate(ends):
        settings = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}}
        lines = ["v1", json.dumps(settings), *([json.dumps({"logOffset": look})] * sources)]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
