"""The default strategy: messages, values and queries all live in the kernel (crates/kernel/src/join)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twigcast import _kernel
from twigcast.arrow import pa, pc
from twigcast.correlate.encode import Key, encoded, in_order, key_of
from twigcast.correlation import FOLLOWED, Block, Correlation, Ref
from twigcast.errors import MessageError, QueryError
from twigcast.limits import Limits
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable

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


class _Symbols:
    def __init__(self, kernel: _kernel.Correlator, stream: int) -> None:
        self.kernel = kernel
        self.stream = stream

    def symbol(self, attribute: bool, uri: str, local: str | None) -> int:
        return self.kernel.symbol(self.stream, attribute, uri, local)


class Blocks:
    """The blocks of all queries, in a kernel; equal ones are one."""

    def __init__(self, kernel: _kernel.Correlator) -> None:
        self.kernel = kernel
        self._numbers: dict[Key, int] = {}
        self._written: dict[int, tuple[Key, list[Block]]] = {}
        # by block as it is written
        self._known: dict[Block, tuple[int, tuple[int, ...]]] = {}
        self._streams: dict[str, tuple[int, StepCodes]] = {}
        self._routes: dict[tuple[str, bool], int] = {}

    def add(self, block: Block) -> tuple[int, tuple[int, ...]]:
        """The block's number, and those of its variables in the kernel. Raises NotEncodable."""
        if block in self._known:
            return self._known[block]
        ordered, places = in_order(block)
        key = key_of(ordered)
        number = self._numbers.get(key)
        if number is None:
            stream, codes = self._stream(block.stream)
            e = encoded(ordered, codes.__getitem__)
            number = self.kernel.add_block(stream, e.program, e.constants, e.paths, e.parents)
            self._numbers[key], self._written[number] = number, (key, [])
        self._written[number][1].append(block)
        self._known[block] = number, places
        return number, places

    def remove(self, number: int) -> None:
        self.kernel.remove_block(number)
        key, blocks = self._written.pop(number)
        del self._numbers[key]
        for block in blocks:
            del self._known[block]

    def _stream(self, name: str) -> tuple[int, StepCodes]:
        if name not in self._streams:
            number = self.kernel.add_stream()
            self._streams[name] = number, StepCodes(_Symbols(self.kernel, number))
        return self._streams[name]

    def streams(self, name: str, derived: bool) -> list[int]:
        """The kernel's streams that a message is for: the one it is on, and that of blocks which name none."""
        names = (name,) if derived else ("", name) if name else ("",)
        return [self._streams[one][0] for one in names if one in self._streams]

    def route(self, name: str, derived: bool) -> int:
        """A number for where a message came from."""
        return self._routes.setdefault((name, derived), len(self._routes))

    @property
    def routes(self) -> list[tuple[str, bool]]:
        return list(self._routes)


class Default:
    """Subscriptions by their numbers."""

    def __init__(
        self, *, lateness: int | None = None, max_bytes: int = MAX_BYTES, limits: Limits | None = None
    ) -> None:
        self.kernel = _kernel.Correlator()
        self.kernel.configure(lateness, max_bytes)
        self.blocks = Blocks(self.kernel)
        self._limits = (limits or Limits()).of_kernel()
        self._warned = 0

    def add(self, number: int, correlation: Correlation) -> None:
        try:
            blocks = [self.blocks.add(block) for block in correlation.blocks]
        except NotEncodable:
            hint = "name a namespace: {uri}name instead of *:name"
            raise QueryError("not-a-pattern", "a block is not a tree pattern that joins can use", hint=hint) from None

        def place(ref: Ref) -> tuple[int, int]:
            return ref.block, blocks[ref.block][1][ref.variable]

        self.kernel.subscribe(
            number,
            [block for block, _ in blocks],
            [link.kind == FOLLOWED for link in correlation.links],
            [link.window for link in correlation.links],
            sorted({(place(one.left), one.op, place(one.right)) for one in correlation.predicates}),
            [place(ref) for ref in correlation.shown],
        )

    def remove(self, number: int) -> None:
        for block in self.kernel.unsubscribe(number):
            self.blocks.remove(block)

    def push(
        self, stream: str, derived: bool, time: int, label: bytes, xml: bytes
    ) -> tuple[bool, list[Found], list[Cut]]:
        """Take a message in; return whether it was in time, what it completes, and who does not get all of that.
        Raises MessageError."""
        route = self.blocks.route(stream, derived)
        taken, found, labels, texts, cuts, error = self.kernel.push(
            self.blocks.streams(stream, derived), route, time, label, xml, self._limits
        )
        if error is not None:
            raise _refusal(*error)
        if not found:
            return taken, [], cuts
        kept = [Kept(label, text) for label, text in zip(labels, texts, strict=True)]
        results = [
            Found(number, tuple([kept[place] for place in places]), tuple(nodes))
            for _, places, nodes, numbers in found
            for number in numbers
        ]
        return taken, results, cuts

    def push_many(
        self, streams: list[str], times: list[int], labels: list[bytes], xml: list[bytes]
    ) -> Iterator[tuple[int, bool, list[Found], list[Cut], MessageError | None]]:
        """Do as ``push`` for messages that nobody derived, in order: yield (place, in time, found, cuts, refusal) of
        those of which there is something to tell. Results of as many messages are held as one message may have."""
        by_route, routes = self.columns(streams, [False] * len(streams))
        columns = pa.array(times, pa.int64()), pa.array(labels, pa.binary()), pa.array(xml, pa.large_binary())
        start, most = 0, self._limits["max_message_results"]
        while start < len(xml):
            pushed = self.kernel.push_column(by_route, routes, *columns, self._limits, start, most)
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
            self.kernel.restore(streams, routes, time, label, xml, self._limits)

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
        refusal = None if error is None else _refusal(**error)
        yield row, not late[row].as_py(), results.get(row, []), cut.get(row, []), refusal


def _refusal(code: str, text: str, line: int, column: int, offset: int) -> MessageError:
    if code == "too-much-to-transform":  # the kernel's word: blocks are matched as transforms are
        code, text = TOO_MUCH, "the message gives correlations more work than a message may"
    return MessageError(code, text, line=line, column=column, offset=offset)


def warn_of_eviction(count: int, subscription: object, max_bytes: int) -> None:
    warnings.warn(
        f"{count:,} messages were forgotten before their time: the state would take more than {max_bytes:,} bytes;"
        f" {subscription!r} has the longest window",
        StateWarning,
        stacklevel=4,
    )
