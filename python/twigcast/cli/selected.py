"""What subscriptions select, as ``twigcast match --result`` writes it."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from twigcast.cli.inputs import as_json, printable
from twigcast.cli.progress import Progress
from twigcast.subscriptions import SubscriptionFile

# Enough to recognise a result on a terminal.
SHOWN = 200


def numbers_of(result: pa.RecordBatch) -> pa.RecordBatch:
    """The same matches as ``match_batches`` gives them."""
    matches = result.column("matches")
    numbers = pa.ListArray.from_arrays(matches.offsets, matches.values.field("subscription"))
    names = ["id", "matches", "error", "failures"]
    return pa.RecordBatch.from_arrays([numbers if n == "matches" else result.column(n) for n in names], names)


def failed_line(name: str, subscription: object, code: str, text: str) -> str:
    """Return the line on stderr for a subscription that could not be evaluated on a message."""
    return f"{printable(name)}: {code}: subscription {printable(str(subscription))}: {printable(text)}"


def failed_json(name: object, subscription: str, code: str, text: str) -> bytes:
    """Return the same as a line of JSON. ``subscription`` is JSON already."""
    failure = as_json({"code": code, "text": text})
    return f'{{"message": {as_json(name)}, "subscription": {subscription}, "failure": {failure}}}\n'.encode()


def write_failures(names: list[str], result: pa.RecordBatch, ids: list[str]) -> None:
    """Write the failures of a batch as lines of JSON. ``ids``: of the subscriptions by number, as JSON."""
    failures = result.column("failures")
    if failures.null_count == len(failures):
        return
    for name, failed in zip(names, failures.to_pylist(), strict=True):
        for one in failed or ():
            sys.stdout.buffer.write(failed_json(name, ids[one["subscription"]], one["code"], one["text"]))


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
                if match["reason"] is not None:
                    line += f', "reason": {as_json(match["reason"])}'
                sys.stdout.buffer.write(f"{line}}}\n".encode())
        write_failures(names, result, self._ids)

    def close(self) -> None:
        sys.stdout.flush()


def _texts(match: dict[str, Any]) -> list[str]:
    return [fragment.decode() for fragment in match["fragments"]]
