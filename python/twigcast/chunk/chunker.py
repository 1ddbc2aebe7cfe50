"""CHUNKTOOL: a document and a scheme -> fragments, in one pass of the streaming reader.

Memory is bounded by the depth of the document, the window it is read by, and what its fragments may hold: a chunk that
may be cut gives a fragment whenever it has enough for one, all others give theirs at the end.
"""

from __future__ import annotations

from twigcast import _kernel
from twigcast.chunk.scheme import Chunk, Fragment, Keep, Path, Scheme
from twigcast.errors import MessageError
from twigcast.limits import Limits

WINDOW = 256 << 10
"""Bytes that are gathered before they are read."""
BATCH = 8 << 20
"""A batch is done when it has this many bytes."""
UNBOUNDED = 2**63 - 1


def steps(keep: Keep) -> list[_kernel.KeepStep]:
    """Return the steps as the kernel takes them."""
    return [(step.axis == "descendant", step.ns, step.local) for step in keep.steps]


class Chunker:
    """Takes a document piece by piece and gives its fragments.

    Once ``error`` is set, the document is not well-formed, or too large, and nothing more comes; what had been complete
    before is given all the same. ``overfull`` has the numbers of chunks whose one fragment would have been larger than
    ``max_fragment``, or which have a subtree that is. With a scheme that relies on a schema, ``foreign`` is set as soon
    as the document has an element where the schema has none, and the fragments are then worth nothing.
    """

    def __init__(
        self,
        scheme: Scheme,
        *,
        batch_bytes: int | None = BATCH,
        max_fragment: int | None = None,
        max_document: int | None = None,
        limits: Limits | None = None,
        window: int = WINDOW,
    ) -> None:
        limits = limits or Limits()
        self.scheme = scheme
        self.error: MessageError | None = None
        self.foreign: Path | None = None
        self._chunks = scheme.fragments
        self._checks = scheme.graph is not None
        self._kernel = _kernel.Chunker(
            [(i, keep.subtree, steps(keep)) for i, chunk in enumerate(self._chunks) for keep in chunk.keeps],
            [(chunk.whole, chunk.batchable and batch_bytes is not None) for chunk in self._chunks],
            batch_bytes or UNBOUNDED,
            max_fragment or limits.max_bytes,
            limits.as_dict(),
            window,
            max_document or UNBOUNDED,
            self._checks,
        )

    def feed(self, data: bytes) -> list[Fragment]:
        return self._done(None if self.error else self._kernel.feed(data))

    def finish(self) -> list[Fragment]:
        return self._done(None if self.error else self._kernel.finish())

    @property
    def overfull(self) -> list[Chunk]:
        return [self._chunks[i] for i in self._kernel.overfull()]

    def _done(self, error: _kernel.Error | None) -> list[Fragment]:
        if error is not None:
            self.error = MessageError.of_kernel(error)
        if self._checks and self.foreign is None:
            self._check()
        made = []
        for i, xml, runs in self._kernel.take():
            pairs = tuple((here, there) for here, there, _ in runs)
            made.append(Fragment(self._chunks[i].number, xml, pairs, tuple(offset for _, _, offset in runs)))
        return made

    def _check(self) -> None:
        paths = self._kernel.tag_paths()
        if paths is None:  # too many to be sure of
            self.foreign = ()
            return
        bad = (path for path in map(tuple, paths) if not self.scheme.allows(path))
        self.foreign = next(bad, None)
