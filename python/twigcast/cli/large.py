"""Large files on the command line: matched in parts, told as ``twigcast match`` tells of any message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, Report, match
from twigcast.chunk.scheme import Scheme
from twigcast.chunk.source import BLOCK, GZIP, ZSTD, SourceError, blocks
from twigcast.cli.inputs import printable
from twigcast.cli.selected import failed_line
from twigcast.errors import MessageError
from twigcast.failures import Failed, failures_column
from twigcast.lang.flwr import is_transform
from twigcast.rows import MATCH, MATCHES
from twigcast.schema import Schema
from twigcast.subscriptions import SubscriptionFile

CHUNKS = 4
ABOVE = 64 << 20
_SELECTED = pa.list_(pa.field("item", MATCH, nullable=False))


def is_large(name: object, above: int) -> bool:
    """Whether a message is too large to be read in one piece, or compressed, which only large ones are."""
    if name == "-":
        peek = getattr(sys.stdin.buffer, "peek", None)
        return peek is not None and peek(len(ZSTD)).startswith((GZIP, ZSTD))
    if not isinstance(name, str):
        return False
    try:
        path = Path(name)
        if not path.is_file():
            return False
        if path.stat().st_size > above:
            return True
        with path.open("rb") as file:
            return file.read(len(ZSTD)).startswith((GZIP, ZSTD))
    except (OSError, ValueError):
        return False  # whoever reads it will say why


class LargeFiles:
    """Matches files against the subscriptions of a file; the scheme is made once."""

    def __init__(
        self,
        file: SubscriptionFile,
        options: Options,
        *,
        namespaces: Mapping[str, str] | None = None,
        chunks: int = CHUNKS,
        schema: Schema | None = None,
        beside: str = "potpourri",
    ) -> None:
        self._file, self._options = file, options
        self._make: Callable[[Schema | None], Scheme] = lambda given: prepare(
            file.subscriptions, chunks=chunks, schema=given, namespaces=namespaces, beside=beside
        )
        self._schema = schema
        self._schemes: dict[bool, Scheme] = {}
        self._places = {s.id: place for place, s in enumerate(file.subscriptions)}
        self.selecting = any(s.result != "match" or is_transform(s.query) for s in file.subscriptions)

    def scheme(self, with_schema: bool = True) -> Scheme:
        with_schema &= self._schema is not None
        if with_schema not in self._schemes:
            self._schemes[with_schema] = self._make(self._schema if with_schema else None)
        return self._schemes[with_schema]

    def match(self, name: str) -> Report:
        if name != "-" or self._schema is None:
            return match(lambda: blocks(name), self.scheme, self._options)
        with TemporaryFile() as copy:  # it may have to be read twice
            return match(_Again(copy).blocks, self.scheme, self._options)

    def record(self, report: Report) -> pa.RecordBatch:
        """As the engine has it for a message."""
        if self.selecting:
            rows = [
                {
                    "subscription": self._places[one.id],
                    "nodes": one.nodes if one.fragments is None else None,
                    "fragments": one.fragments,
                    "complete": one.complete,
                    "payload": one.payload,
                    "reason": one.reason,
                }
                for one in report.answers
            ]
            matches = pa.array([rows], _SELECTED)
        else:
            matches = pa.array([[self._places[one.id] for one in report.answers]], MATCHES)
        failed = [Failed(self._places[one.id], one.code, one.text) for one in report.undecided]
        failures = failures_column(1, {0: failed} if failed else {})
        columns = [pa.array([0], pa.uint32()), matches, pa.nulls(1), failures]
        return pa.RecordBatch.from_arrays(columns, ["id", "matches", "error", "failures"])


class _Again:
    """Stdin, kept in a file as it is read, so that it can be read again."""

    def __init__(self, copy: IO[bytes]) -> None:
        self._copy = copy
        self._kept = False

    def blocks(self) -> Iterator[bytes]:
        if not self._kept:
            for block in blocks("-"):
                self._copy.write(block)
            self._kept = True
        self._copy.seek(0)
        return iter(lambda: self._copy.read(BLOCK), b"")


def complaints(name: str, report: Report) -> list[str]:
    """What is wrong, a line for each thing."""
    name = printable(name)
    lines = []
    match report.error:
        case None:
            pass
        case MessageError() as error:
            lines.append(f"{name}:{error}")
        case SourceError() as error:
            lines.append(f"{name}: {error.code}: {error.text}")
        case error:
            lines.append(f"{name}: {error}")
    return lines + [failed_line(name, one.id, one.code, one.text) for one in report.undecided]
