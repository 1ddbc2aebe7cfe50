"""Expressions that need no fragments: those that hold for a document if they hold for some piece of it.

A piece is a stretch of the document in the tags of the elements that are open around it, and never cuts through an
element that an expression has to see whole. The kernel cuts pieces without reading them first, and matching them
shows whether that was right (``crates/kernel/src/chunk/pieces.rs``), so that all is read once. An expression that has
been found need not be looked for any more: most of a large document is matched against the few that remain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from twigcast import _kernel
from twigcast.chunk.chunker import UNBOUNDED, WINDOW, steps
from twigcast.chunk.scheme import Expression, Keep, Scheme
from twigcast.engine import Engine, Subscription, SubscriptionId
from twigcast.errors import MessageError
from twigcast.limits import Limits

PIECE = 8 << 20
FEW = 64
"""When this few expressions remain, an engine without those that were found is made each time one is."""

_READER_CODES = frozenset(code for code, _ in _kernel.error_codes())


def piecewise(scheme: Scheme) -> tuple[list[Expression], list[Keep]]:
    """The expressions that pieces decide, and the elements that must not be cut for their sake."""
    expressions: list[Expression] = []
    units: list[Keep] = []
    for chunk in scheme.chunks:
        if chunk.batchable and len(chunk.prefix) > 1:
            plain = [one for one in chunk.expressions if one.subscription.result == "match"]
            expressions += plain
            units += chunk.keeps if plain else ()
    for one in scheme.potpourri.expressions:
        if one.subscription.result == "match" and one.unit is not None:
            expressions.append(one)
            units += one.unit
    return expressions, list(dict.fromkeys(units))


class _Wanted:
    """The expressions that are looked for, for a while."""

    def __init__(self, remaining: Mapping[int, Subscription], limits: Limits) -> None:
        self.engine = Engine(limits=limits)
        self.engine.add_many(remaining.values())
        self.numbers = list(remaining)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A subscription, or an expression, of which it is not known whether it holds, and why."""

    id: SubscriptionId
    code: str
    text: str


@dataclass(slots=True)
class _Piece:
    batch: pa.RecordBatch
    content: slice
    guessed: bool
    wanted: _Wanted
    result: Future[Any] | None

    def bytes(self) -> bytes:
        buffer = self.batch.column("xml").buffers()[2]
        return memoryview(buffer)[self.content].tobytes()


class Pieces:
    """Takes a document piece by piece; ``found`` has the numbers of the expressions that hold.

    The document has to be in UTF-8, without a DTD that changes it.
    ``error``: what is wrong with the document; ``found`` is then what holds for what comes before.
    """

    def __init__(
        self,
        expressions: Collection[Expression],
        units: Iterable[Keep],
        *,
        pool: Executor | None = None,
        jobs: int = 1,
        limits: Limits | None = None,
        piece_bytes: int = PIECE,
        max_document: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self._limits = limits or Limits()
        self._remaining = {one.number: one.subscription for one in expressions}
        self._pool = pool
        self._most = jobs + 1 if pool else 0
        target = max(1, min(piece_bytes, self._limits.max_bytes // 4))
        whole = [steps(unit) for unit in units]
        max_total = max_document or UNBOUNDED
        self._kernel = _kernel.Pieces(whole, target, self._limits.of_kernel(), min(window, target), max_total)
        self._pending: deque[_Piece] = deque()
        self._wanted = _Wanted(self._remaining, self._limits)
        self.found: set[int] = set()
        self.problems: dict[int, Undecided] = {}
        """By expression: why it could not be evaluated."""

    @property
    def error(self) -> MessageError | None:
        error = self._kernel.error
        if error is None or self._pending:
            return None
        code, text, line, column, offset = error
        return MessageError(code, text, line=line, column=column, offset=offset)

    def feed(self, data: bytes) -> None:
        self._kernel.feed(data)
        self._start()
        while len(self._pending) > (0 if self._kernel.error else self._most):
            self._settle()

    def finish(self, *, whole: bool = True) -> None:
        """There is no more; ``whole``: because the document ends here."""
        if whole:
            self._kernel.finish()
        self._start()
        while self._pending:
            self._settle()

    def _start(self) -> None:
        for _, data, start, end, guessed in self._kernel.take():
            xml = pa.array(data)
            batch = pa.RecordBatch.from_arrays([pa.array([0], pa.uint32()), xml], ["id", "xml"])
            wanted = self._wanted
            result = None if self._pool is None else self._pool.submit(wanted.engine.match_batch, batch)
            self._pending.append(_Piece(batch, slice(start, end), guessed, wanted, result))

    def _settle(self) -> None:
        """Takes note of the first piece; if it was cut wrongly, it and all after it are cut anew."""
        piece = self._pending[0]
        if piece.result is None:
            piece.wanted = self._wanted
            result = piece.wanted.engine.match_batch(piece.batch)
        else:
            result = piece.result.result()
        error = result.column("error")[0].as_py()
        if error is not None and piece.guessed and error["code"] in _READER_CODES:
            contents = [one.bytes() for one in self._pending]
            self._pending.clear()
            self._kernel.reject(contents)
            self._start()
            return
        if error is not None:  # it does not say of which expression
            for number in self._remaining:
                self.problems[number] = Undecided(number, error["code"], error["text"])
        self._pending.popleft()
        self._kernel.settle()
        numbers = result.column("matches")[0].as_py()
        self._drop({piece.wanted.numbers[number] for number in numbers})

    def _drop(self, found: set[int]) -> None:
        """Looks no more for what has been found."""
        found &= self._remaining.keys()
        self.found |= found
        for number in found:
            del self._remaining[number]
        if found and len(self._remaining) <= max(FEW, len(self._wanted.numbers) // 2):
            self._wanted = _Wanted(self._remaining, self._limits)
