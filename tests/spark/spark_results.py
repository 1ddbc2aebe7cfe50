"""Running ``twigcast run --inbox`` in this process, and reading what a run left in its outbox."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from twigcast.cli.run import run


def run_inbox(inbox: Path, outbox: Path, subscriptions: Path, *options: object) -> Result:
    """Run the messages of a folder that are there now; the Spark session is the one that there is."""
    folders = ["--inbox", inbox, "--outbox", outbox, "-s", subscriptions]
    return CliRunner().invoke(run, [*map(str, [*folders, "--once", *options])], catch_exceptions=False)


def published(folder: Path) -> list[Path]:
    """Return the JSON Lines files that a reader of the folder sees: those in hidden folders come and go."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files if name.endswith(".jsonl") and not name.startswith(".")]
    return sorted(found)


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Return all JSON Lines that are published in a folder."""
    lines = [line for path in published(folder) for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def pairs(folder: Path) -> list[tuple[str, Any]]:
    """The (message, subscription) pairs an outbox has, sorted, repetitions included."""
    return sorted((line["message"], line["subscription"]) for line in read_lines(folder / "matches"))
