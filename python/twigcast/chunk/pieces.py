"""Expressions that need no fragments: those that hold for a document if they hold for some piece of it.

A piece is a stretch of the document in the tags of the elements that are open around it, and never cuts through an
element that an expression has to see whole. The kernel cuts pieces without reading them first, and matching them
shows whether that was right (``crates/kernel/src/chunk/pieces.rs``), so that all is read once. In a piece, each such
element is matched as if it were alone (``crates/kernel/src/matcher/units.rs``). An expression that has been found need
not be looked for any more: most of a large document is matched against the few that remain.

Such an element may be too large, or not end before the document breaks off. Then it is cut like any other, and an
expression that has to see it whole is found only where more of the document could not change that (``whole``), and
undecided otherwise. The others are none the worse for it.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

import pyarrow as pa

from twigcast import _kernel
from twigcast.chunk.chunker import UNBOUNDED, WINDOW, steps
from twigcast.chunk.filter import Reason, engine_of
from twigcast.chunk.scheme import Group, Keep, Scheme
from twigcast.engine.failures import Failed
from twigcast.errors import MessageError
from twigcast.limits import Limits

PIECE = 1 << 20
"""A piece has about this many bytes: it is read while the processor has it near."""

SPARSE = 2
"""What has been found is taken out when there is one of it for so many that are left."""

_Result = tuple[set[int], MessageError | None, list[Failed]]
"""What has been found, why the piece cannot be read, and the expressions that could not be evaluated."""


def piecewise(scheme: Scheme) -> list[tuple[Group, tuple[Keep, ...]]]:
    """Return the expressions that pieces decide, and the elements that must not be cut for their sake."""
    found: list[tuple[Group, tuple[Keep, ...]]] = []
    for chunk in scheme.fragments:
        keeps = chunk.keeps if chunk.batchable and len(chunk.prefix) > 1 else None
        if keeps is not None or not chunk.number:
            for group in chunk.groups:
                units = keeps if group.shape.unit is None else group.shape.unit
                if units is not None and group.shape.like.result == "match":
                    found.append((group, units))
    return found


def _prefixes(scheme: Scheme) -> list[Keep]:
    """Return the elements at prefixes of chunks: they repeat, and are best matched one by one."""
    return [chunk.keeps[0] for chunk in scheme.chunks if chunk.batchable and len(chunk.prefix) > 1]


class Compiled:
    """The expressions of a scheme that pieces decide, ready to be looked for in any number of documents."""

    def __init__(self, scheme: Scheme, limits: Limits) -> None:
        needed = piecewise(scheme)
        self.engine, problems = engine_of([group for group, _ in needed], limits)
        if problems:  # what the engine cannot take is left to the fragments, which say so
            needed = [one for one in needed if problems.keys().isdisjoint(one[0].rows.values())]
            self.engine, _ = engine_of([group for group, _ in needed], limits)
        self.groups = [group for group, _ in needed]
        numbers = [number for group in self.groups for number in group.rows.values()]
        self.expressions = numbers.copy()
        """The numbers of expressions by their numbers in the engine, which are those from 0 on."""
        for number, at in zip(numbers, self.engine.numbers(numbers), strict=True):
            self.expressions[at] = number
        self.limits = limits
        self.parted: dict[int, list[int]] = {}
        """By the number of a unit: the expressions that are not decided by pieces that part it,"""
        self.unsound: dict[int, list[int]] = {}
        """and those that may not even hold if they hold for such a piece."""
        places: dict[Keep, int] = {keep: i for i, keep in enumerate(dict.fromkeys(_prefixes(scheme)))}
        for group, units in needed:
            some, whole = group.rows.values(), group.shape.whole
            for unit in units:
                self.parted.setdefault(places.setdefault(unit, len(places)), []).extend(some)
            for unit in units if whole is None else whole if units else ():
                self.unsound.setdefault(places.setdefault(unit, len(places)), []).extend(some)
        self.units = [steps(unit) for unit in places]
        self._saved = pa.array(self.engine.kernel.save()) if self.expressions else None

    def kernel(self) -> _kernel.Engine:
        """Return a copy of the engine's inside, from which what was found can be removed."""
        return _kernel.Engine.open(self._saved)


def compiled(scheme: Scheme, limits: Limits) -> Compiled:
    """Made once for a scheme, as long as the limits are the same."""
    made = scheme.memo.get("pieces")
    if not isinstance(made, Compiled) or made.limits != limits:
        made = scheme.memo["pieces"] = Compiled(scheme, limits)
    return made


class _Wanted:
    """The expressions that are looked for in one document."""

    def __init__(self, made: Compiled) -> None:
        self._engine = made.engine
        self._steps = made.units
        self._numbers = made.expressions
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self._gone: list[int] = []
        self._use(made.kernel())

    def _use(self, kernel: _kernel.Engine) -> None:
        self._kernel = kernel
        self._units = _kernel.Units(kernel, self._steps)

    def remove(self, found: set[int]) -> None:
        if not found:
            return
        gone = [self._places.pop(number) for number in found]
        self._gone += gone
        if len(self._gone) * SPARSE < len(self._places):
            self._units.skip(gone)
            return
        # Not from the one at hand, which other threads are using.
        kernel = _kernel.Engine.open(pa.array(self._kernel.save()))
        for place in self._gone:
            kernel.remove(place)
        self._gone.clear()
        # What is gone leaves gaps, which cost a little everywhere.
        self._use(_kernel.Engine.open(pa.array(kernel.save())))

    def match(self, xml: pa.Array, around: int) -> _Result:
        failed: list[Failed] = []
        found, error = self._engine.match_units(xml, self._units, around, failed)
        numbered = [replace(one, number=self._numbers[one.number]) for one in failed]
        return {self._numbers[number] for number in found}, error, numbered


def too_large(most: int) -> Reason:
    """Return the reason for an expression that takes a larger part of the document than it may."""
    return "fragment-too-large", f"a part of the document is needed whole that has more than {most} bytes"


@dataclass(slots=True)
class _Piece:
    xml: pa.Array
    content: slice
    guessed: bool
    around: int
    unsound: frozenset[int]
    """Expressions that it says nothing of, even if they hold for it."""
    parted: tuple[int, ...]
    """The units that it parts, by number."""
    result: Future[_Result] | _Result | None
    """None: not tried yet."""

    def bytes(self) -> bytes:
        buffer = self.xml.buffers()[2]
        return memoryview(buffer)[self.content].tobytes()


class Pieces:
    """Takes a document piece by piece; ``found`` has the numbers of the expressions that hold.

    The document has to be in UTF-8, without a DTD that changes it.
    ``error``: what is wrong with the document; ``found`` is then what holds for what comes before.
    """

    def __init__(
        self,
        made: Compiled,
        *,
        pool: Executor | None = None,
        jobs: int = 1,
        piece_bytes: int = PIECE,
        max_document: int | None = None,
        window: int = WINDOW,
    ) -> None:
        limits = made.limits
        self._made = made
        self._parted: set[int] = set()
        self._unsound: frozenset[int] = frozenset()
        self._remaining = set(made.expressions)
        self._pool = pool
        self._most = 2 * jobs if pool else 0
        target = max(1, min(piece_bytes, limits.max_bytes // 4))
        max_total = max_document or UNBOUNDED
        self._kernel = _kernel.Pieces(made.units, target, limits.as_dict(), min(window, target), max_total)
        self._pending: deque[_Piece] = deque()
        self._wanted = _Wanted(made)
        self.found: set[int] = set()
        self.problems: dict[int, Reason] = {}
        """By expression: why it could not be evaluated."""

    @property
    def error(self) -> MessageError | None:
        error = self._kernel.error
        return None if error is None or self._pending else MessageError.of_kernel(error)

    def feed(self, data: bytes) -> None:
        self._kernel.feed(data)
        self._start()
        while len(self._pending) > (0 if self._kernel.error else self._most):
            self._settle()

    def finish(self, *, whole: bool = True) -> None:
        """There is no more; ``whole``: because the document ends here."""
        if whole:
            self._kernel.finish()
        else:
            self._kernel.break_off()
        self._start()
        while self._pending:
            self._settle()
        if whole and self.error is None:
            why = too_large(self._made.limits.max_bytes)
            self.problems.update(dict.fromkeys(self._parted & self._remaining, why))

    def _start(self) -> None:
        for _, data, start, end, guessed, around, parted in self._kernel.take():
            for unit in parted:
                self._unsound |= frozenset(self._made.unsound.get(unit, ()))
            xml = pa.array(data)
            result = None if self._pool is None else self._pool.submit(self._wanted.match, xml, around)
            content = slice(start, end)
            self._pending.append(_Piece(xml, content, guessed, around, self._unsound, tuple(parted), result))

    def _settle(self) -> None:
        """Settle the first piece. If it was cut wrongly, it and all after it are cut anew."""
        piece = self._pending[0]
        found, error, failed = self._match(piece)
        if error is not None and piece.guessed:
            contents = [one.bytes() for one in self._pending]
            for one in self._pending:
                if isinstance(one.result, Future):
                    one.result.cancel()
            self._pending.clear()
            self._unsound = piece.unsound  # a guess parts nothing; what those after it part may be none
            self._kernel.reject(contents)
            self._start()
            return
        if error is not None:  # it can be read, but is too large, say: it does not say of which expression
            failed = [Failed.of(number, error) for number in self._remaining]
        for why in failed:
            self.problems[why.number] = why.code, why.text
        self._pending.popleft()
        for unit in piece.parted:
            self._parted.update(self._made.parted.get(unit, ()))
        self._kernel.settle()
        self._drop(found - piece.unsound)

    def _match(self, piece: _Piece) -> _Result:
        """Return the result of the first piece. Rather than wait for it, match pieces that no thread has begun."""
        while isinstance(piece.result, Future) and not piece.result.done():
            waiting = (one for one in self._pending if isinstance(one.result, Future) and one.result.cancel())
            other = next(waiting, None)
            if other is None:
                break
            other.result = self._wanted.match(other.xml, other.around)
        if piece.result is None:
            piece.result = self._wanted.match(piece.xml, piece.around)
        return piece.result.result() if isinstance(piece.result, Future) else piece.result

    def _drop(self, found: set[int]) -> None:
        """Stop looking for what has been found."""
        found &= self._remaining
        self.found |= found
        self._remaining -= found
        self._wanted.remove(found)
