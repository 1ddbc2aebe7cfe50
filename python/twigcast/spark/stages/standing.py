"""Correlations on their way to workers: spread over buckets, and in files, since a task cannot carry very many."""

from __future__ import annotations

import gc
import hashlib
import pickle
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.spark.serve import Files
from twigcast.spark.stages.shared import SharedFile, open_shared


class Standing(NamedTuple):
    """A correlation as it was subscribed."""

    id: str
    query: str | Correlation
    namespaces: tuple[tuple[str, str], ...] = ()
    default_namespace: str | None = None

    def parsed(self) -> Correlation:
        if isinstance(self.query, Correlation):
            return self.query
        return parse_correlation(self.query, dict(self.namespaces), self.default_namespace)

    @property
    def digest(self) -> str:
        return hashlib.blake2b(repr(self[1:]).encode(), digest_size=8).hexdigest()


class Ready:
    """A correlation that has been parsed. It travels in a pickle of its own, which only those open who use it."""

    __slots__ = ("_correlation", "_pickled", "digest", "id")

    def __init__(
        self, id: str, digest: str, correlation: Correlation | None = None, pickled: bytes | None = None
    ) -> None:
        """Make it of a correlation or of its pickle; the ``digest`` is that of what was parsed."""
        self.id, self.digest, self._correlation, self._pickled = id, digest, correlation, pickled

    @classmethod
    def of(cls, one: Standing | Ready) -> Ready:
        """Return a correlation, parsed if it is not yet."""
        return one if isinstance(one, Ready) else cls(one.id, one.digest, one.parsed())

    def parsed(self) -> Correlation:
        if self._correlation is None:
            assert self._pickled is not None
            self._correlation = pickle.loads(self._pickled)
        return self._correlation

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            self._pickled = pickle.dumps(self._correlation, pickle.HIGHEST_PROTOCOL)
        return Ready, (self.id, self.digest, None, self._pickled)


def spread(standing: Iterable[Standing | Ready], buckets: int) -> tuple[tuple[Standing | Ready, ...], ...]:
    """The correlations by bucket: those that read what others publish, with these. The same on every run."""
    every = [(one, one.parsed()) for one in standing]
    together: dict[str, str] = {}

    def root(name: str) -> str:
        while together.get(name, name) != name:
            name = together[name]
        return name

    published = {parsed.publish for _, parsed in every if parsed.publish is not None}
    for _, parsed in every:
        tied = [name for name in (*parsed.streams, parsed.publish) if name is not None and name in published]
        for name in tied[1:]:
            together[root(name)] = root(tied[0])
    spread: list[list[Standing | Ready]] = [[] for _ in range(buckets)]
    for one, parsed in every:
        tied = [name for name in (*parsed.streams, parsed.publish) if name is not None and name in published]
        key = f"stream {root(tied[0])}" if tied else one.id
        spread[zlib.crc32(key.encode()) % buckets].append(one)
    return tuple(map(tuple, spread))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shipped:
    """Correlations in files, one for each bucket."""

    files: tuple[SharedFile, ...]

    @classmethod
    def write(cls, folder: Path, buckets: Sequence[Sequence[Standing | Ready]], files: Files) -> Shipped:
        """Write the correlations to a folder, under names that are used once."""
        run = uuid.uuid4().hex
        shared = []
        for number, some in enumerate(buckets):
            path = folder / f"{run}-{number}.correlations"
            path.write_bytes(pickle.dumps(tuple(some), pickle.HIGHEST_PROTOCOL))
            shared.append(files.share(path))
        return cls(tuple(shared))

    def __getitem__(self, bucket: int) -> tuple[Standing | Ready, ...]:
        data = open_shared(self.files[bucket], lambda path: Path(path).read_bytes())
        collecting = gc.isenabled()
        gc.disable()  # of so many new objects none is garbage, and looking for it takes most of the time
        try:
            found: tuple[Standing | Ready, ...] = pickle.loads(data)
        finally:
            if collecting:
                gc.enable()
        return found
