"""Correlations in a worker: one bucket of them, with its messages in Spark's state store.

Queries are spread over a few buckets, and every bucket sees every message: a message has many values that queries join
on, so to spread it by value would copy it as often, and a chain joins on several. A query is in one bucket, with all
that it reads from others, so each result comes from one.

The state of a bucket is one blob for each micro-batch, the messages that it added. The join index over them is kept in
this module between micro-batches: a worker that has it as of an earlier one takes in the blobs since, and only a new
worker all of them. What a failed attempt did is never taken for what happened: each blob has a token of its attempt.
"""

from __future__ import annotations

import gc
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from twigcast.correlate.default import MAX_BYTES, TOO_MUCH, Default
from twigcast.correlate.engine import Correlated, Correlations, Derived, Outcome
from twigcast.correlate.making import derived_id
from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.spark.stages.outcome import of_fragments
from twigcast.spark.stages.standing import Ready, Shipped, Standing

RESULT, DERIVED, LATE, REFUSED, EVICTED, FAILED = "result", "derived", "late", "refused", "evicted", "failed"
FOUND = pa.schema(
    [
        ("kind", pa.string()),
        ("subscription", pa.string()),
        ("stream", pa.string()),
        ("message", pa.string()),
        ("messages", pa.list_(pa.string())),
        ("time", pa.int64()),
        ("payload", pa.binary()),
        ("reason", pa.string()),
        ("text", pa.string()),
    ]
)
"""A result has a subscription, messages, a time, a payload, and an id (``message``) made of its subscription and those
of the messages; a derived message a stream, an id, a time, a payload, and the subscription that published it; one that
came late, or is too much for correlations, the same but for the payload. A correlation that failed on a message has its
subscription, the message and its time, a reason and a text. What had to be forgotten names the subscription with the
longest window, and counts the messages (``time``)."""
FOUND_SQL = (
    "kind string, subscription string, stream string, message string, messages array<string>, time long,"
    " payload binary, reason string, text string"
)


Query = Standing | Ready


class Incoming(NamedTuple):
    stream: str
    message: str
    time: int
    xml: bytes | None
    witness: bytes | None = None
    """What ``Seeing`` has found. Where that is nothing there is no XML."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """All correlations and how they are run; pickled with each task."""

    standing: tuple[tuple[Standing, ...], ...] | Shipped
    """By bucket."""
    lateness: int | None = None
    max_bytes: int = MAX_BYTES
    limits: Limits = field(default_factory=Limits)
    teller: int = 0
    """The bucket that tells of late messages: all see them."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Of this query of Spark: workers may outlive it."""
    seen: bool = False
    """Messages come with what correlations see of them, and are not read again."""


# -- a bucket's state, whoever stores it


class Stored(NamedTuple):
    """What a bucket's state says of itself."""

    token: str
    first: int
    last: int
    """Blobs of micro-batches ``first`` to ``last`` are there; none if ``last`` is less."""
    newest: int | None


class Blob(NamedTuple):
    token: str
    latest: int
    data: bytes


class Storage:
    """The state of a bucket between micro-batches: none, unless a subclass keeps it."""

    def stored(self) -> Stored | None:
        return None

    def store(self, stored: Stored) -> None: ...

    def blob(self, number: int) -> Blob | None:
        return None

    def put(self, number: int, blob: Blob) -> None: ...

    def drop(self, number: int) -> None: ...

    def since(self) -> str | None:
        return None

    def set_since(self, text: str) -> None: ...


@dataclass
class _Held:
    correlations: Correlations
    token: str
    last: int

    @property
    def backend(self) -> Default:
        assert isinstance(self.correlations.backend, Default)
        return self.correlations.backend


_held: dict[tuple[str, int], _Held] = {}
restored: list[int] = []
"""How many blobs this process has taken in, each time it did: the cache does its work if these are few."""


def process(task: Buckets, bucket: int, incoming: Iterable[Incoming], storage: Storage) -> Iterator[dict[str, Any]]:
    """A micro-batch of a bucket: its results, as rows of ``FOUND``; the state is brought up to date at the end."""
    stored = storage.stored() or Stored("", 1, 0, None)
    held = _current(task, bucket, stored, storage)
    token = uuid.uuid4().hex
    # What happens from here on is this attempt's, until it is known to have succeeded.
    held.token = ""
    before, _, _ = held.backend.position
    ordered = sorted(incoming, key=lambda one: (one.time, one.stream, one.message))
    messages = [(one.xml, one.message, one.time, one.stream) for one in ordered]
    witnesses = [one.witness for one in ordered] if task.seen else None
    evicted: list[dict[str, Any]] = []
    held.correlations.on_eviction = lambda count, id, _: evicted.append(_evicted(count, id))
    for place, outcome in held.correlations.publish_all(messages, witnesses):
        yield from _rows(ordered[place], outcome, bucket == task.teller)
    yield from evicted
    _, newest, oldest = held.backend.position
    added = held.backend.save(before)
    number = stored.last + 1
    latest = max(added.column("time").to_pylist(), default=-(2**62))
    storage.put(number, Blob(token, latest, _packed(added)))
    first = stored.first
    while first < number:
        blob = storage.blob(first)
        if blob is not None and oldest is not None and blob.latest >= oldest:
            break
        storage.drop(first)
        first += 1
    storage.store(Stored(token, first, number, newest))
    held.token, held.last = token, number


def _rows(one: Incoming, outcome: Outcome | TwigcastError, telling: bool) -> Iterator[dict[str, Any]]:
    if isinstance(outcome, TwigcastError):
        if outcome.code == TOO_MUCH:  # all else is refused where messages are read, and a dead letter there
            yield {"kind": REFUSED, "stream": one.stream, "message": one.message, "time": one.time}
        return
    if outcome.late and telling:
        yield {"kind": LATE, "stream": one.stream, "message": one.message, "time": one.time}
    count: Counter[tuple[str, tuple[str | int, ...]]] = Counter()
    for result in outcome.results:
        id = str(result.subscription)
        count[id, result.messages] += 1
        yield _result(result, one.time, derived_id(id, result.messages, count[id, result.messages]))
    for derived in outcome.derived:
        yield _derived(derived)
    for failure in outcome.failures:
        row = {"kind": FAILED, "subscription": str(failure.id), "message": one.message, "time": one.time}
        yield {**row, "reason": failure.error.code, "text": failure.error.text}


def _evicted(count: int, id: object) -> dict[str, Any]:
    return {"kind": EVICTED, "subscription": str(id), "time": count}


def _result(result: Correlated, time: int, id: str) -> dict[str, Any]:
    return {
        "kind": RESULT,
        "message": id,
        "subscription": str(result.subscription),
        "messages": [str(id) for id in result.messages],
        "time": time,
        "payload": of_fragments((), False, result.reason) if result.payload is None else result.payload,
    }


def _derived(derived: Derived) -> dict[str, Any]:
    return {
        "kind": DERIVED,
        "subscription": str(derived.subscription),
        "stream": derived.stream,
        "message": derived.id,
        "time": derived.time,
        "payload": derived.xml,
    }


def _current(task: Buckets, bucket: int, stored: Stored, storage: Storage) -> _Held:
    """The bucket's correlations with the messages of exactly this state."""
    key = task.run, bucket
    held = _held.get(key)
    if held is not None and held.token:
        if held.last == stored.last and held.token == stored.token:
            return held
        known = storage.blob(held.last) if stored.first <= held.last <= stored.last else None
        if known is not None and known.token == held.token:
            _take_in(held, range(held.last + 1, stored.last + 1), storage, {}, stored)
            return held
    for other in [other for other in _held if other[0] != task.run]:
        del _held[other]
        gc.unfreeze()
    held = _held[key] = _rebuilt(task, bucket, stored, storage)
    return held


def _rebuilt(task: Buckets, bucket: int, stored: Stored, storage: Storage) -> _Held:
    """From the blobs. A query sees the messages since it came (SEMANTICS 24): it is added where it came in."""
    standing = task.standing[bucket]
    since = _since(standing, stored.last + 1, storage)
    coming: dict[int, list[Query]] = {}
    for one in standing:
        coming.setdefault(max(since[one.id], stored.first), []).append(one)
    correlations = Correlations(
        lateness=task.lateness, max_bytes=task.max_bytes, limits=task.limits, portable=task.seen
    )
    held = _Held(correlations, "", 0)
    _take_in(held, range(stored.first, stored.last + 1), storage, coming, stored)
    for number in sorted(number for number in coming if number > stored.last):
        _add(held, coming[number])
    # Spark looks for garbage after each task, and would go through all queries each time.
    gc.collect()
    gc.freeze()
    return held


def _take_in(
    held: _Held, numbers: Iterable[int], storage: Storage, coming: Mapping[int, list[Query]], stored: Stored
) -> None:
    count = 0
    for number in numbers:
        _add(held, coming.get(number, ()))
        blob = storage.blob(number)
        if blob is not None:
            held.backend.restore(_unpacked(blob.data))
            count += 1
    held.backend.reach(stored.newest)
    held.last = stored.last
    restored.append(count)


def _add(held: _Held, standing: Iterable[Query]) -> None:
    for one in standing:
        held.correlations.add(one.id, one.parsed())


def _since(standing: Iterable[Query], now: int, storage: Storage) -> dict[str, int]:
    """The micro-batch that each query came in with; kept in the state while the query is there."""
    text = storage.since()
    known: dict[str, list[Any]] = {} if text is None else json.loads(text)
    every = {one.id: one.digest for one in standing}
    found: dict[str, list[Any]] = {}
    for id, digest in every.items():
        found[id] = known[id] if id in known and known[id][0] == digest else [digest, now]
    if found != known:
        storage.set_since(json.dumps(found))
    return {id: number for id, (_, number) in found.items()}


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
