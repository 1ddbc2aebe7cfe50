"""A compiled set of subscriptions in one file: the kernel's part, the ids by number, and what only some have."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twigcast.common.arrow import pa
from twigcast.engine.delta import History, as_dict
from twigcast.engine.ids import Ids
from twigcast.engine.sealed import Format
from twigcast.errors import QueryError
from twigcast.lang.program import encode
from twigcast.lang.xpath import parse
from twigcast.limits import Limits

if TYPE_CHECKING:
    from twigcast.engine.engine import Engine

FORMAT = Format("snapshot", b"TWIGCAST", 7, oldest=4)

_LOG = logging.getLogger(__name__)


class Extra(NamedTuple):
    """Something that only some subscriptions have: by number, as JSON takes it."""

    save: Callable[[Engine], Iterable[tuple[int, Any]]]
    open: Callable[[Engine, int, Any], None]


def _open_residual(engine: Engine, number: int, value: Any) -> None:
    """Compile the query of a residual subscription, which snapshots of earlier versions have as text."""
    xpath, prefixes, _ = value
    if not isinstance(xpath, str) or not all(isinstance(text, str) for pair in prefixes for text in pair):
        raise ValueError("a residual that is no XPath")
    try:
        expr = parse(xpath, dict(prefixes))
    except QueryError as error:
        # written out, it had become too long to be a query
        _LOG.warning("subscription %r matches nothing any more: %s", engine._ids.at([number])[0], error)
        expr = parse("false()")
    program = encode(expr, engine.kernel)
    engine.kernel.add_query(number, program.words, program.strings)


def _open_result(engine: Engine, number: int, value: Any) -> None:
    """Compile what a subscription selects, which snapshots of earlier versions have as text."""
    from twigcast.subscription import Subscription

    s = Subscription(**value)
    engine._wanting.add(number)
    if engine.kernel.has_query(number):
        engine.kernel.want_query(number, s.result == "fragments")
    else:
        template, literals = engine._compiler.split(s)
        engine._register.want(number, template, literals, s.result)


def _save_transforms(engine: Engine) -> Iterable[tuple[int, Any]]:
    for number, s in engine._transforming.items():
        yield number, {**as_dict(s), "in_kernel": engine._has_in_kernel()}


def _open_transform(engine: Engine, number: int, value: Any) -> None:
    from twigcast.subscription import Subscription

    value.pop("code", None)  # earlier versions had no transforms, or not all, in the kernel's part: texts are parsed
    in_kernel = value.pop("in_kernel", None)
    engine._open_transform(number, Subscription(**value), bool(in_kernel))


# Whatever else is kept per subscription belongs here; what it is called must not change.
EXTRAS = {
    "residual": Extra(lambda engine: (), _open_residual),
    "result": Extra(lambda engine: (), _open_result),
    "transform": Extra(_save_transforms, _open_transform),
}


def save(engine: Engine, path: Path) -> None:
    """Write all subscriptions to a file, which becomes the base of later deltas if there is none yet."""
    with engine._lock:
        kernel = pa.array(engine.kernel.save()).buffers()[1]
        ids, whole = engine._ids.array, engine._ids.whole
        extras = [(number, kind, json.dumps(value, separators=(",", ":"))) for number, kind, value in _extras(engine)]
        # The checksum of the kernel's part identifies this base.
        engine._history.begin(zlib.crc32(kernel))
        meta = {
            "namespaces": engine.namespaces,
            "limits": engine.limits.as_dict(),
            "options": engine._options(),
            "next_id": engine._next_id,
            "version": engine._history.version,
            "tag": engine._history.tag,
        }
    numbers = pa.table({"id": ids} if whole is None else {"id": ids, "whole": whole})
    few = pa.table([[extra[i] for extra in extras] for i in range(3)], _extras_schema())
    FORMAT.write(path, [json.dumps(meta).encode(), kernel, _ipc(numbers), _ipc(few)])


def _extras(engine: Engine) -> Iterable[tuple[int, str, Any]]:
    """Yield number, kind and value of everything that only some subscriptions have."""
    for kind, extra in EXTRAS.items():
        for number, value in extra.save(engine):
            yield number, kind, value


def compact(engine: Engine) -> None:
    """Give back the memory of names and constants that only removed subscriptions used.

    A saved set has no others, so the engine goes on with a copy of itself. Matching in other threads is not held up.
    """
    with engine._lock:
        copy = engine._like()
        copy._adopt(engine._open_kernel(engine.kernel.save()), engine._ids, engine._history)
        for number, kind, value in _extras(engine):
            EXTRAS[kind].open(copy, number, value)
        engine._replace_compiled(copy)


def _extras_schema() -> pa.Schema:
    return pa.schema([("number", pa.uint32()), ("kind", pa.string()), ("value", pa.string())])


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


_DAMAGED = (
    pa.ArrowException,
    AttributeError,
    LookupError,
    OSError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def load(path: Path, kind: type[Engine], **schema: Any) -> Engine:
    """Open a snapshot as an engine of this kind."""
    parts = FORMAT.read(path)
    try:
        meta, kernel, numbers, few = parts
        return _engine(kind, json.loads(meta.to_pybytes()), kernel, _table(numbers), _table(few), schema)
    except _DAMAGED as error:
        raise FORMAT.damaged(path, error) from error


def _table(part: pa.Buffer) -> pa.Table:
    table = pa.ipc.open_file(part).read_all().combine_chunks()
    table.validate(full=True)
    return table


def _engine(
    kind: type[Engine],
    meta: dict[str, Any],
    part: pa.Buffer,
    numbers: pa.Table,
    few: pa.Table,
    schema: dict[str, Any],
) -> Engine:
    if not all(isinstance(text, str) for pair in meta["namespaces"].items() for text in pair):
        raise ValueError("namespaces that are no names")
    if not all(isinstance(meta[key], int) for key in ("next_id", "version", "tag")):
        raise ValueError("a version that is no number")
    options = kind._saved_options(meta)
    engine = kind(namespaces=meta["namespaces"], limits=Limits.of_saved(meta["limits"]), **options, **schema)
    data = pa.Array.from_buffers(pa.uint8(), part.size, [None, part])
    engine._adopt(engine._open_kernel(data), _ids(numbers), History(meta["version"], meta["tag"]))
    engine._next_id = meta["next_id"]
    used = pa.array(engine.kernel.subscriptions())
    known = engine._ids.array.is_valid()
    if used.true_count != known.true_count or not used.slice(0, len(known)).equals(known):
        raise ValueError("a subscription without an id")
    for number, what, value in zip(*(few.column(name).to_pylist() for name in _extras_schema().names), strict=True):
        if number >= len(known) or not known[number].as_py():
            raise ValueError(f"{what} of no subscription")
        EXTRAS[what].open(engine, number, json.loads(value))
    return engine


def _ids(table: pa.Table) -> Ids:
    columns = {name: _flat(table.column(name)) for name in table.schema.names}
    ids, whole = columns.pop("id"), columns.pop("whole", None)
    if columns or ids.type not in (pa.int64(), pa.string()):
        raise ValueError("ids of an unknown type")
    if whole is not None:
        if whole.type != pa.bool_() or whole.null_count or ids.type != pa.string():
            raise ValueError("ids of an unknown type")
        ids.filter(whole).cast(pa.int64())  # all of them are numbers
    return Ids(ids, whole)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
