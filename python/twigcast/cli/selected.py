"""What subscriptions select, as ``twigcast match --result`` writes it."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from twigcast.cli.inputs import as_json
from twigcast.cli.progress import Progress
from twigcast.subscriptions import SubscriptionFile

# Enough to recognise a result on a terminal.
SHOWN = 200


def numbers_of(result: pa.RecordBatch) -> pa.RecordBatch:
    """The same matches as ``match_batches`` gives them."""
    matches = result.column("matches")
    numbers = pa.ListArray.from_arrays(matches.offsets, matches.values.field("subscription"))
    return pa.RecordBatch.from_arrays(
        [result.column("id"), numbers, result.column("error")], ["id", "matches", "error"]
    )


def summary(match: dict[str, Any]) -> str:
    """In a few words."""
    if match["payload"] is not None:
        text = str(match["payload"], "utf-8")
    else:
        text = " ".join(map(str, match["nodes"] or ()) if match["fragments"] is None else _texts(match))
    return text if len(text) <= SHOWN and match["complete"] else text[:SHOWN] + "…"


class SelectedJsonl:
    """One object per match, with its nodes, fragments or payload."""

    def __init__(self, file: SubscriptionFile, progress: Progress) -> None:
        self._ids = [as_json(s.id) for s in file.subscriptions]
        self._progress = progress

    def add(self, names: list[str], result: pa.RecordBatch) -> None:
        if sys.stdout.isatty():
            self._progress.clear()
        for name, matches in zip(names, result.column("matches"), strict=True):
            for match in matches.as_py():
                line = f'{{"message": {as_json(name)}, "subscription": {self._ids[match["subscription"]]}'
                if match["nodes"] is not None:
                    line += f', "nodes": {as_json(match["nodes"])}'
                if match["fragments"] is not None:
                    line += f', "fragments": {as_json(_texts(match))}'
                if match["payload"] is not None:
                    line += f', "payload": {as_json(match["payload"].decode())}'
                if not match["complete"]:
                    line += ', "complete": false'
                sys.stdout.buffer.write(f"{line}}}\n".encode())

    def close(self) -> None:
        sys.stdout.flush()


def _texts(match: dict[str, Any]) -> list[str]:
    return [fragment.decode() for fragment in match["fragments"]]
