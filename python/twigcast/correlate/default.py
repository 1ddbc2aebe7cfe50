"""The default strategy: messages, values and queries all live in the kernel (crates/kernel/src/join)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from twigcast import _kernel
from twigcast.arrow import pa, pc
from twigcast.columns import raise_if
from twigcast.correlate.encode import Key, encoded, in_order, key_of, paths_of
from twigcast.correlation import FOLLOWED, Block, Correlation, Ref
from twigcast.errors import MessageError, QueryError
from twigcast.limits import Limits
from twigcast.pattern import Twig
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable

if TYPE_CHECKING:
    from twigcast.engine import Engine

MAX_BYTES = 1 << 30
"""Memory for messages and their values."""


TOO_MUCH = "too-much-to-correlate"
"""The code of the error for a message that is well formed, and yet nothing that correlations can be tried with."""


class StateWarning(UserWarning):
    """Messages had to be forgotten before their time."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A message of a result. Its text stays where it is until somebody asks for its bytes."""

    label: bytes
    text: _kernel.Text | bytes

    @property
    def xml(self) -> bytes:
        return bytes(self.text)


@dataclass(frozen=True, slots=True)
class Found:
    """A result: the number of the subscription, the messages in the order of the blocks, and the nodes of
    ``Correlation.shown``."""

    number: int
    messages: tuple[Kept, ...]
    nodes: tuple[int, ...]


Cut = tuple[int, str]
"""The number of a subscription that does not get all results of a message, and the reason."""


class Seen(NamedTuple):
    """What correlations see of a message, and the version of the blocks that it was read with."""

    version: int
    witness: _kernel.Witness


class Blocks:
    """The blocks of all queries, in the kernel that reads messages; equal ones are one.

    That is the kernel of ``engine``, which reads a message once for all kinds of subscriptions, or one of their own.
    """

    def __init__(self, engine: Engine | None = None, *, portable: bool = False) -> None:
        """With ``portable``, what one process sees of messages can be read by another (``push_many``)."""
        self._engine = engine
        self._portable = portable
        self._own = _kernel.Engine() if engine is None else None
        self._lock = RLock() if engine is None else engine.attach(self._enter)
        self.version = 0
        """Changes with every change of blocks or joined columns."""
        self._codes = StepCodes(self.kernel)
        self._next = 0
        self._numbers: dict[Key, int] = {}
        self._written: dict[int, tuple[Key, Block, list[Block]]] = {}
        # by block as it is written
        self._known: dict[Block, tuple[int, tuple[int, ...]]] = {}
        self._streams: dict[str, int] = {}
        # a column is a path from the document, in a stream
        self._columns: dict[tuple[int, Twig], int] = {}
        # of what is portable: the keys of blocks and columns by their numbers
        self._block_keys: dict[int, int] = {}
        self._column_keys: dict[int, int] = {}
        self._joined: set[int] = set()
        self._routes: dict[tuple[str, bool], int] = {}

    @property
    def kernel(self) -> _kernel.Engine:
        """The kernel that reads messages. That of an engine may be replaced by another."""
        return self._own if self._engine is None else self._engine.kernel  # type: ignore[return-value]

    def enter(
        self, correlation: Correlation, window: _kernel.Correlator | None = None
    ) -> tuple[list[int], list[tuple[tuple[int, int], str, tuple[int, int]]], list[tuple[int, int]]]:
        """Return the numbers of a correlation's blocks, what is compared, and what is shown. Raises QueryError."""
        try:
            blocks = [self.add(block, window) for block in correlation.blocks]
        except NotEncodable:
            hint = "name a namespace: {uri}name instead of *:name"
            raise QueryError("not-a-pattern", "a block is not a tree pattern that joins can use", hint=hint) from None

        def place(ref: Ref) -> tuple[int, int]:
            return ref.block, blocks[ref.block][1][ref.variable]

        compared = sorted({(place(one.left), one.op, place(one.right)) for one in correlation.predicates})
        for left, _, right in compared:
            for block, variable in (left, right):
                self.join_on(blocks[block][0], variable)
        return [block for block, _ in blocks], compared, [place(ref) for ref in correlation.shown]

    def add(self, block: Block, window: _kernel.Correlator | None) -> tuple[int, tuple[int, ...]]:
        """Return the block's number, and those of its variables in the kernel. Raises NotEncodable."""
        if block in self._known:
            return self._known[block]
        ordered, places, text = in_order(block)
        key = key_of(ordered)
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._next
                if self._portable:
                    self._block_keys[number] = _digest(text)
                self._put(number, ordered, self.kernel, self._codes)
                if window is not None:
                    window.add_block(number, ordered.parents, self.columns_of(ordered))
                self._next += 1
                self._numbers[key], self._written[number] = number, (key, ordered, [])
                self.version += 1
            self._written[number][2].append(block)
            self._known[block] = number, places
        return number, places

    def _put(self, number: int, ordered: Block, kernel: _kernel.Engine, codes: StepCodes) -> None:
        e = encoded(ordered, codes.__getitem__)
        stream = self._stream(ordered.stream)
        columns = self.columns_of(ordered)
        keys = None
        if self._portable:
            for column, path in zip(columns, paths_of(ordered), strict=True):
                if column not in self._column_keys:
                    self._column_keys[column] = _digest(f"{ordered.stream} {path}")
            keys = self._block_keys[number], [self._column_keys[column] for column in columns]
        kernel.add_block(number, stream, e.program, e.constants, e.paths, ordered.parents, columns, keys)

    def _enter(self, kernel: _kernel.Engine) -> None:
        """Put all blocks into a kernel that takes the place of the engine's."""
        self._codes = StepCodes(kernel)
        for number, (_, ordered, _) in self._written.items():
            self._put(number, ordered, kernel, self._codes)
        kernel.join_on(sorted(self._joined))

    def columns_of(self, ordered: Block) -> list[int]:
        """Return the columns of a block's variables."""
        stream = self._stream(ordered.stream)
        return [self._columns.setdefault((stream, path), len(self._columns)) for path in paths_of(ordered)]

    def join_on(self, block: int, variable: int) -> None:
        """Have the values of a variable compared from now on."""
        column = self.columns_of(self._written[block][1])[variable]
        if column not in self._joined:
            with self._lock:
                self._joined.add(column)
                self.kernel.join_on([column])
                self.version += 1

    def remove(self, number: int, window: _kernel.Correlator) -> None:
        window.remove_block(number)
        with self._lock:
            self.kernel.remove_block(number)
            key, _, blocks = self._written.pop(number)
            self._block_keys.pop(number, None)
            self.version += 1
        del self._numbers[key]
        for block in blocks:
            del self._known[block]

    def _stream(self, name: str) -> int:
        return self._streams.setdefault(name, len(self._streams))

    def streams(self, name: str, derived: bool) -> list[int]:
        """The kernel's streams that a message is for: the one it is on, and that of blocks which name none."""
        names = (name,) if derived else ("", name) if name else ("",)
        return [self._streams[one] for one in names if one in self._streams]

    def route(self, name: str, derived: bool) -> int:
        """A number for where a message came from."""
        return self._routes.setdefault((name, derived), len(self._routes))

    @property
    def routes(self) -> list[tuple[str, bool]]:
        return list(self._routes)


class Default:
    """Subscriptions by their numbers."""

    def __init__(
        self,
        *,
        lateness: int | None = None,
        max_bytes: int = MAX_BYTES,
        limits: Limits | None = None,
        engine: Engine | None = None,
        portable: bool = False,
    ) -> None:
        self.kernel = _kernel.Correlator()
        self.kernel.configure(lateness, max_bytes)
        self.blocks = Blocks(engine, portable=portable)
        self._limits = (limits or Limits()).of_kernel()
        self._warned = 0

    def add(self, number: int, correlation: Correlation) -> None:
        blocks, compared, shown = self.blocks.enter(correlation, self.kernel)
        self.kernel.subscribe(
            number,
            blocks,
            [link.kind == FOLLOWED for link in correlation.links],
            [link.window for link in correlation.links],
            compared,
            shown,
        )

    def remove(self, number: int) -> None:
        for block in self.kernel.unsubscribe(number):
            self.blocks.remove(block, self.kernel)

    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes, seen: Seen | None = None
    ) -> tuple[bool, list[Found], list[Cut]]:
        """Take a message in; return whether it was in time, what it completes, and who does not get all of that.
        ``seen`` is what was seen of it if it has been read already. Raises MessageError."""
        route = self.blocks.route(stream, derived)
        witness = self._read(stream, derived, time, xml) if seen is None or self.is_stale(seen) else seen.witness
        taken, found, labels, texts, cuts, error = self.kernel.push(witness, route, time, label, xml, self._limits)
        raise_if(error)
        if not found:
            return taken, [], cuts
        kept = [Kept(label, text) for label, text in zip(labels, texts, strict=True)]
        results = [
            Found(number, tuple([kept[place] for place in places]), tuple(nodes))
            for _, places, nodes, numbers in found
            for number in numbers
        ]
        return taken, results, cuts

    def _read(self, stream: str, derived: bool, time: int, xml: bytes) -> _kernel.Witness:
        if self.kernel.is_late(time):
            return _kernel.Witness()
        streams = self.blocks.streams(stream, derived)
        witness, error = self.blocks.kernel.witness_one(xml, streams, self._limits)
        raise_if(error)
        return witness

    def is_stale(self, seen: Seen) -> bool:
        """Return whether blocks have changed since a message was read."""
        return seen.version != self.blocks.version

    def push_many(
        self,
        streams: list[str],
        times: list[int],
        labels: list[bytes],
        xml: Sequence[bytes | None],
        witnesses: Sequence[bytes | None] | None = None,
    ) -> Iterator[tuple[int, bool, list[Found], list[Cut], MessageError | None]]:
        """Do as ``push`` for messages that nobody derived, in order: yield (place, in time, found, cuts, refusal) of
        those of which there is something to tell. Results of as many messages are held as one message may have.
        ``witnesses`` are what ``Engine.process_batches`` has found; nothing is read of messages then."""
        by_route, routes = self.columns(streams, [False] * len(streams))
        columns = pa.array(times, pa.int64()), pa.array(labels, pa.binary()), pa.array(xml, pa.large_binary())
        found_before = None if witnesses is None else pa.array(witnesses, pa.large_binary())
        start, most = 0, self._limits["max_message_results"]
        while start < len(xml):
            pushed = self.kernel.push_column(
                self.blocks.kernel, by_route, routes, *columns, self._limits, start, most, found_before
            )
            rows, found, names = map(pa.array, pushed[:3])
            kept = [Kept(*one) for one in zip(names.to_pylist(), pushed[3], strict=True)]
            for row, in_time, results, cuts, refusal in _rows(rows, found, kept, pushed[4]):
                yield start + row, in_time, results, cuts, refusal
            start += len(rows)

    def too_much(self) -> tuple[int, int] | None:
        """How many messages have been forgotten before their time since the last call, and the subscription that keeps
        them longest."""
        evicted = self.kernel.evicted()
        widest = self.kernel.widest() if evicted != self._warned else None
        if widest is None:
            return None
        more, self._warned = evicted - self._warned, evicted
        return more, widest[0]

    def stats(self) -> dict[str, Any]:
        return self.kernel.stats()

    # -- state, for whoever stores it

    def save(self, since: int = 0) -> pa.Table:
        """The messages that later ones may join with, as they came, from a number (see ``position``) on: stream,
        derived, time, label, xml."""
        state = pa.array(self.kernel.state(since))
        names = self.blocks.routes
        routes = state.field("route").to_pylist()
        return pa.table(
            {
                "stream": pa.array([names[r][0] for r in routes], pa.string()),
                "derived": pa.array([names[r][1] for r in routes], pa.bool_()),
                **{name: state.field(name) for name in ("time", "label", "xml")},
            }
        )

    def restore(self, saved: pa.Table) -> None:
        """Takes in what ``save`` gave; subscriptions must be there already."""
        for batch in saved.combine_chunks().to_batches():
            streams, routes = self.columns(batch.column("stream").to_pylist(), batch.column("derived").to_pylist())
            time, label, xml = (batch.column(name) for name in ("time", "label", "xml"))
            self.kernel.restore(self.blocks.kernel, streams, routes, time, label, xml, self._limits)

    def reach(self, newest: int | None) -> None:
        """Time has come this far, whatever messages are there."""
        if newest is not None:
            self.kernel.reach(newest)

    @property
    def position(self) -> tuple[int, int | None, int | None]:
        """The number of the next message, the time of the newest one, and that of the oldest one that is kept."""
        return self.kernel.position()

    def columns(self, streams: list[str], derived: list[bool]) -> tuple[list[list[int]], pa.Array]:
        """Streams by route, and the routes of rows, as the kernel takes them."""
        routes = [self.blocks.route(name, flag) for name, flag in zip(streams, derived, strict=True)]
        by_route = [self.blocks.streams(name, flag) for name, flag in self.blocks.routes]
        return by_route, pa.array(routes, pa.uint32())


def _digest(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _rows(
    rows: pa.Array, found: pa.Array, kept: list[Kept], cuts: list[tuple[int, int, str]]
) -> Iterator[tuple[int, bool, list[Found], list[Cut], MessageError | None]]:
    """Yield the rows of the kernel's answer of which there is something to tell."""
    late, errors = rows.field("late"), rows.field("error")
    results: dict[int, list[Found]] = {}
    parts = (found.field(name).to_pylist() for name in ("row", "messages", "nodes", "subscribers"))
    for row, places, nodes, numbers in zip(*parts, strict=True):
        messages, shown = tuple([kept[place] for place in places]), tuple(nodes)
        results.setdefault(row, []).extend(Found(number, messages, shown) for number in numbers)
    cut: dict[int, list[Cut]] = {}
    for row, number, reason in cuts:
        cut.setdefault(row, []).append((number, reason))
    told = {*results, *cut, *pc.indices_nonzero(late).to_pylist()}
    told.update(pc.indices_nonzero(errors.is_valid()).to_pylist())
    for row in sorted(told):
        error = errors[row].as_py()
        refusal = None if error is None else MessageError(error.pop("code"), error.pop("text"), **error)
        yield row, not late[row].as_py(), results.get(row, []), cut.get(row, []), refusal


def warn_of_eviction(count: int, subscription: object, max_bytes: int) -> None:
    warnings.warn(
        f"{count:,} messages were forgotten before their time: the state would take more than {max_bytes:,} bytes;"
        f" {subscription!r} has the longest window",
        StateWarning,
        stacklevel=4,
    )
