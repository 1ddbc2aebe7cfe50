"""Large files on the command line: matched in parts, printed as ``twigcast match`` prints any message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from twigcast.chunk.source import BLOCK, GZIP, ZSTD, blocks
from twigcast.cli.matches import Output, match_of

if TYPE_CHECKING:
    from twigcast.chunk.run import Options
    from twigcast.chunk.run import Report as Found
    from twigcast.chunk.scheme import Scheme
    from twigcast.engine.files import SubscriptionFile
    from twigcast.schema import Schema

CHUNKS = 4
ABOVE = 64 << 20


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
        from twigcast.chunk.prepare import prepare  # only large files need it

        self.file = file
        self._options = options
        self._make: Callable[[Schema | None], Scheme] = lambda given: prepare(
            file.subscriptions, chunks=chunks, schema=given, namespaces=namespaces, beside=beside
        )
        self._schema = schema
        self._schemes: dict[bool, Scheme] = {}

    def scheme(self, with_schema: bool = True) -> Scheme:
        with_schema &= self._schema is not None
        if with_schema not in self._schemes:
            self._schemes[with_schema] = self._make(self._schema if with_schema else None)
        return self._schemes[with_schema]

    def match(self, name: str, output: Output) -> None:
        """Match a file and print what it matches."""
        found = self._match(name)
        for one in found.answers:
            output.add(match_of(name, one if one.fragments is None else replace(one, nodes=None)))
        if found.error is not None:
            output.refused(name, found.error)
        for failed in found.undecided:
            output.failed(name, failed.id, failed.code, failed.text)

    def _match(self, name: str) -> Found:
        from twigcast.chunk.run import match

        if name != "-" or self._schema is None:
            return match(lambda: blocks(name), self.scheme, self._options)
        with TemporaryFile() as copy:  # it may have to be read twice
            return match(_Again(copy).blocks, self.scheme, self._options)


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
