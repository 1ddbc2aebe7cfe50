"""A large document against a scheme: what each subscription gets of it, in one pass and bounded memory.

Expressions that pieces decide are matched on pieces (``chunk/pieces.py``), all others on the fragments of their chunks.
Several threads work at the same time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from twigcast import _kernel
from twigcast.chunk.chunker import BATCH, WINDOW, Chunker
from twigcast.chunk.filter import Filter, Merge, Outcome, Reason, Undecided
from twigcast.chunk.pieces import PIECE, Compiled, Pieces, compiled, too_large
from twigcast.chunk.scheme import Chunk, Fragment, Group, Scheme
from twigcast.engine.failures import FATAL, Failed
from twigcast.engine.results import Selected
from twigcast.errors import TwigcastError
from twigcast.limits import Limits

HEAD = 4 << 10
"""What stands before the root element is looked for in steps of this many bytes."""


@dataclass(slots=True)
class Report:
    answers: list[Selected]
    """Of the subscriptions that match, in their order."""
    error: TwigcastError | None = None
    """What is wrong with the document, or with its source. The answers are then those that hold whatever the rest had
    been, of what comes before."""
    undecided: list[Undecided] = field(default_factory=list)


class Foreign(Exception):
    """The scheme relies on a schema that the document does not follow."""


@dataclass(frozen=True, slots=True)
class Options:
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    batch_bytes: int = BATCH
    """The size of fragments that may be cut, and of pieces."""
    max_fragment: int | None = None
    """Bytes of a fragment that may not be cut; by default as much as a message may have."""
    max_document: int | None = None
    """Bytes of the document, if there is to be a limit."""
    window: int = WINDOW


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def match(
    source: Callable[[], Iterable[bytes]],
    make_scheme: Callable[[bool], Scheme],
    options: Options | None = None,
) -> Report:
    """Match the document that ``source`` gives against the scheme that ``make_scheme(True)`` gives.

    Where that relies on a schema and the document does not follow it, match again with ``make_scheme(False)``, which
    relies on none.
    """
    options = options or Options()
    scheme = make_scheme(True)
    try:
        return _Run(scheme, options).over(source())
    except Foreign:
        return _Run(make_scheme(False), options).over(source())


class _Run:
    def __init__(self, scheme: Scheme, options: Options) -> None:
        self._scheme, self._options = scheme, options
        self._merge = Merge(scheme, options.limits)
        self._broken: TwigcastError | None = None

    def over(self, blocks: Iterable[bytes]) -> Report:
        options = self._options
        blocks, plain = _peek(self._guarded(blocks), options)
        made = compiled(self._scheme, options.limits) if plain else None
        rest = self._scheme if made is None else without(self._scheme, made.groups)
        with ExitStack() as stack:
            pieces = chunker = None
            if made is not None and made.groups:
                pieces = self._pieces(made, stack)
            if rest.fragments or rest.graph is not None or pieces is None:  # something has to read the document
                chunker = self._chunker(rest)
            evaluation = stack.enter_context(Evaluation(rest, options))
            for block in blocks:
                if pieces is not None:
                    pieces.feed(block)
                if chunker is not None:
                    evaluation.submit(chunker.feed(block))
                    self._merge.add(evaluation.done(wait=False))
                    if chunker.foreign is not None:
                        raise Foreign
                if (pieces is None or pieces.error is not None) and (chunker is None or chunker.error is not None):
                    break
            if pieces is not None:
                pieces.finish(whole=self._broken is None)
                self._merge.add(map(Outcome, pieces.found))
            if chunker is not None and self._broken is None:
                evaluation.submit(chunker.finish())
                if chunker.foreign is not None:
                    raise Foreign
            self._merge.add(evaluation.done(wait=True))
        # What is wrong with the document comes before what its source breaks off with, though it may be seen later.
        error = (pieces and pieces.error) or (chunker and chunker.error) or self._broken
        large = [number for chunk in (chunker.overfull if chunker else ()) for number in chunk.numbers]
        problems = dict.fromkeys(large, too_large(options.max_fragment or options.limits.max_bytes))
        problems |= (pieces.problems if pieces else {}) | evaluation.problems
        answers, undecided = self._merge.known(problems, whole=error is None)
        return Report(answers, error, undecided)

    def _pieces(self, made: Compiled, stack: ExitStack) -> Pieces:
        options = self._options
        pool = ThreadPoolExecutor(options.jobs - 1) if options.jobs > 1 else None  # this thread is one of them
        if pool is not None:
            stack.callback(pool.shutdown, cancel_futures=True)
        return Pieces(
            made,
            pool=pool,
            jobs=options.jobs,
            piece_bytes=min(PIECE, options.batch_bytes),
            max_document=options.max_document,
            window=options.window,
        )

    def _chunker(self, scheme: Scheme) -> Chunker:
        options = self._options
        return Chunker(
            scheme,
            batch_bytes=options.batch_bytes,
            max_fragment=options.max_fragment,
            max_document=options.max_document,
            limits=options.limits,
            window=options.window,
        )

    def _guarded(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield blocks until the source fails. That is the error then, not that the document lacks its end."""
        try:
            yield from blocks
        except TwigcastError as error:
            self._broken = error


def _peek(blocks: Iterator[bytes], options: Options) -> tuple[Iterator[bytes], bool]:
    """Return the same blocks, and whether the document can be cut as it is: in UTF-8, with no DTD that changes it."""
    check = _kernel.Check(options.limits.as_dict(), HEAD // 8)
    seen = []
    for block in blocks:
        seen.append(block)
        for at in range(0, len(block), HEAD):
            if check.feed(block[at : at + HEAD]) is not None or check.plain is not None:
                return chain(seen, blocks), check.plain is not False
    return iter(seen), True


def without(scheme: Scheme, groups: list[Group]) -> Scheme:
    """Return the scheme without some of its expressions, and without chunks that have none left."""
    gone = set(map(id, groups))

    def left(chunk: Chunk) -> Chunk:
        return replace(chunk, groups=tuple(group for group in chunk.groups if id(group) not in gone))

    chunks = tuple(chunk for chunk in map(left, scheme.chunks) if chunk.groups)
    return replace(scheme, chunks=chunks, potpourri=left(scheme.potpourri))


class Evaluation:
    """Fragments on their way through a filter, several at a time but never many."""

    def __init__(self, scheme: Scheme, options: Options) -> None:
        self._options = options
        self._expressions = {chunk.number: chunk.numbers for chunk in scheme.fragments}
        self._filter = Filter(scheme, limits=options.limits)
        self._pool = ThreadPoolExecutor(options.jobs) if options.jobs > 1 and scheme.fragments else None
        self._running: deque[tuple[int, Future[list[Outcome]]]] = deque()
        self._done: list[Outcome] = []
        self.problems: dict[int, Reason] = {}
        """By expression: why it could not be evaluated."""

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(self, fragments: Sequence[Fragment]) -> None:
        for fragment in fragments:
            if self._pool is None:
                self._take(fragment.chunk, partial(self._filter.evaluate, fragment))
                continue
            while len(self._running) > self._options.jobs:
                self._take_first()
            self._running.append((fragment.chunk, self._pool.submit(self._filter.evaluate, fragment)))

    def done(self, *, wait: bool) -> list[Outcome]:
        while self._running and (wait or self._running[0][1].done()):
            self._take_first()
        done, self._done = self._done, []
        return done

    def _take_first(self) -> None:
        chunk, future = self._running.popleft()
        self._take(chunk, future.result)

    def _take(self, chunk: int, result: Callable[[], list[Outcome]]) -> None:
        try:
            for one in result():
                if one.refused is None:
                    self._done.append(one)
                else:
                    self.problems[one.number] = one.refused
        except FATAL:
            raise
        except BaseException as error:  # the fragment cannot be evaluated at all
            for number in self._expressions[chunk]:
                failed = Failed.of(number, error, "internal")
                self.problems[number] = failed.code, failed.text
