"""The default strategy: messages, values and queries all live in the kernel (crates/kernel/src/join)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, islice
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from twigcast import _kernel
from twigcast.common.arrow import pa, pc
from twigcast.correlate.encode import Encoded, encoded, in_order, paths_of, template, text_of
from twigcast.engine.columns import raise_if
from twigcast.errors import MessageError, QueryError
from twigcast.ir.correlation import FOLLOWED, Block, Correlation, Link, Ref
from twigcast.ir.pattern import Twig
from twigcast.ir.transform import Element
from twigcast.ir.visit import replace
from twigcast.limits import Limits
from twigcast.plan.encode import NotEncodable, StepCodes

if TYPE_CHECKING:
    from twigcast.engine import Engine

MAX_BYTES = 1 << 30
"""Memory for messages and their values."""


TOO_MUCH = "too-much-to-correlate"
"""The code of the error for a message that is well formed, and yet nothing that correlations can be tried with."""


class StateWarning(UserWarning):
    """Messages had to be forgotten before their time."""


@dataclass(frozen=True, slots=True)
class Found:
    """A result: the number of the subscription, the labels of the messages in the order of the blocks, and the nodes of
    ``Correlation.shown``. ``payload`` is the new message; None if the subscription gets no more."""

    number: int
    messages: tuple[bytes, ...]
    nodes: tuple[int, ...]
    payload: bytes | None


Cut = tuple[int, str]
"""The number of a subscription that does not get all results of a message, and the reason."""


class Seen(NamedTuple):
    """What correlations see of a message, and the version of the blocks that it was read with."""

    version: int
    witness: _kernel.Witness


class BlockShape:
    """Blocks that differ in their constants alone; ``sample`` is one of them, with its branches in a fixed order."""

    __slots__ = ("__weakref__", "code", "columns", "kernel", "sample", "stream")

    def __init__(self, sample: Block, stream: int, columns: list[int], code: Encoded, kernel: _kernel.Engine) -> None:
        self.sample, self.stream, self.columns = sample, stream, columns
        self.enter(code, kernel)

    def enter(self, code: Encoded, kernel: _kernel.Engine) -> None:
        """Take the place in an engine where the block has this code."""
        self.code = code
        self.kernel = kernel.block_shape(self.stream, code.program, code.paths, self.sample.parents, self.columns)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells shapes apart: not the names of variables, nor the order of branches."""
        return self.stream, tuple(self.code.program), tuple(self.code.paths), tuple(self.sample.parents)


Constants = tuple[str | float, ...]

_MOST_KNOWN = 10_000


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
        self._shapes: WeakValueDictionary[tuple[object, ...], BlockShape] = WeakValueDictionary()
        # by block as it is written
        self._known: dict[Block, tuple[BlockShape, list[str | float], tuple[int, ...]]] = {}
        self._numbers: dict[tuple[BlockShape, Constants], int] = {}
        self._written: dict[int, tuple[BlockShape, Constants]] = {}
        self._streams: dict[str, int] = {}
        # a column is a path from the document, in a stream
        self._columns: dict[tuple[int, Twig], int] = {}
        # of what is portable: the keys of a block and of its columns
        self._keys: dict[tuple[BlockShape, Constants], tuple[int, list[int]]] = {}
        self._joined: set[int] = set()
        self._routes: dict[tuple[str, bool], int] = {}

    @property
    def kernel(self) -> _kernel.Engine:
        """The kernel that reads messages. That of an engine may be replaced by another."""
        return self._own if self._engine is None else self._engine.kernel  # type: ignore[return-value]

    def shape(self, block: Block) -> tuple[BlockShape, list[str | float], tuple[int, ...]]:
        """Return the shape of a block, which equal ones share, its constants, and the numbers of its variables in the
        kernel. Raises NotEncodable."""
        with self._lock:
            known = self._known.get(block)
            if known is not None:
                return known
            ordered, places = in_order(block)
            code = encoded(ordered, self._codes.__getitem__)
            stream = self._stream(ordered.stream)
            columns = [self._columns.setdefault((stream, path), len(self._columns)) for path in paths_of(ordered)]
            shape = BlockShape(ordered, stream, columns, code, self.kernel)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            shape = self._shapes.setdefault(shape.key, shape)
            if self._portable:
                paths = [_digest(f"{ordered.stream} {path}") for path in paths_of(ordered)]
                self._keys[shape, tuple(code.constants)] = _digest(text_of(ordered)), paths
            self._known[block] = shape, code.constants, places
            return self._known[block]

    def add(self, shape: BlockShape, constants: Constants) -> int:
        """Return the number of a block."""
        number = self._numbers.get((shape, constants))
        if number is None:
            with self._lock:
                number = self._next
                self._put(number, shape, constants, self.kernel)
                self._next += 1
                self._numbers[shape, constants], self._written[number] = number, (shape, constants)
                self.version += 1
        return number

    def _put(self, number: int, shape: BlockShape, constants: Constants, kernel: _kernel.Engine) -> None:
        kernel.add_block(number, shape.kernel, constants, self._keys.get((shape, constants)))

    def _enter(self, kernel: _kernel.Engine) -> None:
        """Put all blocks into a kernel that takes the place of the engine's."""
        self._codes = StepCodes(kernel)
        shapes = list(self._shapes.values())
        self._shapes.clear()
        for shape in shapes:
            shape.enter(encoded(shape.sample, self._codes.__getitem__), kernel)
            self._shapes[shape.key] = shape
        for number, (shape, constants) in self._written.items():
            self._put(number, shape, constants, kernel)
        kernel.join_on(sorted(self._joined))

    def join_on(self, columns: frozenset[int]) -> None:
        """Have the values of columns compared from now on."""
        if not columns <= self._joined:
            with self._lock:
                self.kernel.join_on(sorted(columns - self._joined))
                self._joined |= columns
                self.version += 1

    def remove(self, number: int) -> None:
        with self._lock:
            self.kernel.remove_block(number)
            del self._numbers[self._written.pop(number)]
            self.version += 1

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


@dataclass(frozen=True, slots=True)
class CorrelationShape:
    """What correlations have in common that differ in the constants of their blocks alone."""

    sample: Correlation = field(compare=False)
    """One of them."""
    blocks: tuple[BlockShape, ...]
    constants: tuple[slice, ...]
    """By block which of the constants it has."""
    joined: frozenset[int]
    """Columns that are compared."""
    links: tuple[Link, ...]
    compared: tuple[tuple[tuple[int, int], str, tuple[int, int]], ...]
    shown: tuple[tuple[int, int], ...]
    select: Element | None
    publish: str | None
    kernel: _kernel.CorrelationShape = field(compare=False)
    possible: bool = field(compare=False)
    """Messages can match, whatever the constants are."""


class Prepared(NamedTuple):
    """A correlation as the kernel takes it."""

    shape: CorrelationShape
    constants: tuple[str | float, ...]

    def with_constants(self, constants: Iterable[str | float]) -> Prepared:
        """Return the correlation of the same shape with other constants."""
        return Prepared(self.shape, tuple(constants))


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
        limits = limits or Limits()
        self._limits = _kernel.Limits(limits.as_dict())
        self._most = limits.max_message_results
        self._warned = 0

    def prepare(self, correlation: Correlation, possible: bool = False) -> Prepared:
        """Return a correlation as ``enter`` takes it. Raises QueryError."""
        try:
            found = [self.blocks.shape(block) for block in correlation.blocks]
        except NotEncodable:
            hint = "name a namespace: {uri}name instead of *:name"
            raise QueryError("not-a-pattern", "a block is not a tree pattern that joins can use", hint=hint) from None

        def place(ref: Ref) -> tuple[int, int]:
            return ref.block, found[ref.block][2][ref.variable]

        blocks = tuple([shape for shape, _, _ in found])
        compared = tuple(sorted({(place(one.left), one.op, place(one.right)) for one in correlation.predicates}))
        shown = tuple([place(ref) for ref in correlation.shown])
        ends = list(accumulate((len(constants) for _, constants, _ in found), initial=0))
        shape = CorrelationShape(
            correlation,
            blocks,
            tuple(map(slice, ends, ends[1:])),
            frozenset(blocks[block].columns[at] for left, _, right in compared for block, at in (left, right)),
            tuple([replace(link, predicates=()) for link in correlation.links]),
            compared,
            shown,
            correlation.select,
            correlation.publish,
            _kernel.CorrelationShape(
                [block.kernel for block in blocks],
                [link.kind == FOLLOWED for link in correlation.links],
                [link.window for link in correlation.links],
                compared,
                shown,
                *template(correlation, self.kernel),
            ),
            possible,
        )
        return Prepared(shape, tuple([constant for _, constants, _ in found for constant in constants]))

    def enter(self, number: int, one: Prepared) -> None:
        """Add a correlation that has been prepared."""
        shape, constants = one
        add = self.blocks.add
        blocks = [add(block, constants[own]) for block, own in zip(shape.blocks, shape.constants, strict=True)]
        self.blocks.join_on(shape.joined)
        self.kernel.subscribe(number, shape.kernel, blocks)

    def add(self, number: int, correlation: Correlation) -> None:
        self.enter(number, self.prepare(correlation))

    def remove(self, number: int) -> None:
        for block in self.kernel.unsubscribe(number):
            self.blocks.remove(block)

    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes, seen: Seen | None = None
    ) -> tuple[bool, list[Found], list[Cut]]:
        """Take a message in; return whether it was in time, what it completes, and who does not get all of that.
        ``seen`` is what was seen of it if it has been read already. Raises MessageError."""
        route = self.blocks.route(stream, derived)
        witness = self._read(stream, derived, time, xml) if seen is None or self.is_stale(seen) else seen.witness
        taken, found, names, cuts, error = self.kernel.push(witness, route, time, label, xml, self._limits)
        raise_if(error)
        return taken, results_of(found, names) if found else [], cuts

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
        start = 0
        while start < len(xml):
            pushed = self.kernel.push_column(
                self.blocks.kernel, by_route, routes, *columns, self._limits, start, self._most, found_before
            )
            rows, found = map(pa.array, pushed[:2])
            for row, in_time, results, cuts, refusal in _rows(rows, found, *pushed[2:]):
                yield start + row, in_time, results, cuts, refusal
            start += len(rows)

    def publish(
        self, stream: str, xml: list[bytes], time: int, id: int | bytes, selecting: bool
    ) -> tuple[int, list[_kernel.Published], _kernel.Named, _kernel.Error | None]:
        """Publish messages one after the other, in the engine that reads them and here: see ``Correlator.publish``."""
        streams, route = self.blocks.streams(stream, False), self.blocks.route(stream, False)
        return self.kernel.publish(self.blocks.kernel, xml, streams, selecting, route, time, id, self._limits)

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


def results_of(found: Iterable[_kernel.Joined], names: _kernel.Named) -> list[Found]:
    """Return results, one for each subscription."""
    labels, payloads = names
    return [
        Found(number, messages, shown, None if payload is None else payloads[payload])
        for places, nodes, numbers, made in found
        for messages, shown in ((tuple([labels[place] for place in places]), tuple(nodes)),)
        for number, payload in zip(numbers, made, strict=True)
    ]


def _rows(
    rows: pa.Array, found: pa.Array, names: _kernel.Named, cuts: list[tuple[int, int, str]]
) -> Iterator[tuple[int, bool, list[Found], list[Cut], MessageError | None]]:
    """Yield the rows of the kernel's answer of which there is something to tell."""
    late, errors = rows.field("late"), rows.field("error")
    results: dict[int, list[Found]] = {}
    parts = [found.field(name).to_pylist() for name in ("messages", "nodes", "subscribers", "payloads")]
    counts = found.field("subscribers").value_lengths().to_pylist()
    made = iter(results_of(zip(*parts, strict=True), names))
    for row, count in zip(found.field("row").to_pylist(), counts, strict=True):
        results.setdefault(row, []).extend(islice(made, count))
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
