"""Reading what a run left in its outbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """All JSON Lines of a folder."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def pairs(folder: Path) -> list[tuple[str, Any]]:
    """The (message, subscription) pairs an outbox has, sorted, repetitions included."""
    return sorted((line["message"], line["subscription"]) for line in read_lines(folder / "matches"))
