"""Large files on Spark: each is read once, as a stream, and becomes a DataFrame of fragments, which any number of tasks
match; what they find is put together to one answer per file and subscription.

A file may be plain, gzip or Zstandard. All work on files is on the executors, which have to see them at these paths.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twigcast.chunk.chunker import Chunker
from twigcast.chunk.filter import Filter, Merge, Outcome, Reason
from twigcast.chunk.prepare import prepare
from twigcast.chunk.scheme import Fragment, Scheme
from twigcast.chunk.source import blocks
from twigcast.engine import Subscription, SubscriptionId
from twigcast.engine.failures import FATAL, Failed
from twigcast.errors import MessageError, OptionError, TwigcastError
from twigcast.lang.flwr import is_transform
from twigcast.limits import Limits
from twigcast.rows import MATCH
from twigcast.schema import Schema
from twigcast.spark.stages.match import Matched
from twigcast.spark.stages.messages import check_workers
from twigcast.spark.stages.outcome import payloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 4 << 20
"""Bytes of a fragment, where it may be cut: enough for a task to be worth it, little enough to be sent about."""

WRONG_SQL = "reason string, line bigint, column bigint, offset bigint, text string"
FRAGMENTS_SQL = (
    "document string, chunk int, scheme int, priority int, xml binary, here array<bigint>, there array<bigint>, "
    f"offsets array<bigint>, {WRONG_SQL}"
)
"""``chunk`` is null in the last row of a document; ``reason`` and what follows then say what is wrong, if anything."""

OUTCOMES_SQL = (
    "document string, scheme int, number int, nodes array<bigint>, fragments array<binary>, complete boolean, "
    f"payload binary, missing string, {WRONG_SQL}"
)
_TYPES = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_(),
    "array<bigint>": pa.list_(pa.int64()), "array<binary>": pa.list_(pa.binary()),
}  # fmt: skip


def _arrow(sql: str) -> pa.Schema:
    """Return the Arrow schema of columns as SQL declares them."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, sql.split(", "))])


_FRAGMENTS, _OUTCOMES, _WRONG = _arrow(FRAGMENTS_SQL), _arrow(OUTCOMES_SQL), _arrow(WRONG_SQL).names
FOREIGN = "not-of-schema"
TOO_LARGE = "fragment-too-large"


@dataclass(frozen=True)
class Schemes:
    """The scheme to go by and, if that relies on a schema, one for documents that do not follow it."""

    first: Scheme
    plain: Scheme | None = None

    def __getitem__(self, number: int) -> Scheme:
        return self.plain if number and self.plain is not None else self.first


@dataclass(frozen=True)
class ReadFiles:
    """Paths of files -> rows of fragments, as they come out of one streaming read."""

    schemes: Schemes
    limits: Limits
    batch_bytes: int
    urgent: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                yield from self.read(path)

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        foreign = yield from self._read(path, 0)
        if foreign and self.schemes.plain is not None:
            yield from self._read(path, 1)

    def _read(self, path: str, number: int) -> Generator[pa.RecordBatch, None, bool]:
        scheme = self.schemes[number]
        chunker = Chunker(scheme, batch_bytes=self.batch_bytes, limits=self.limits)
        wrong: dict[str, object] = {}
        try:
            for block in blocks(path):
                yield from self._rows(path, number, chunker.feed(block))
                if chunker.error is not None or chunker.foreign is not None:
                    break
            else:
                yield from self._rows(path, number, chunker.finish())
            if chunker.error is not None:
                wrong = _described(chunker.error)
        except TwigcastError as error:
            wrong = _described(error)
        if chunker.foreign is not None:
            wrong = {"reason": FOREIGN, "text": "the document does not follow the schema"}
        last = {"document": path, "scheme": number, "priority": 0, **wrong}
        last["here"] = [one.number for one in chunker.overfull]
        yield pa.RecordBatch.from_pylist([last], _FRAGMENTS)
        return chunker.foreign is not None

    def _rows(self, path: str, number: int, fragments: list[Fragment]) -> Iterator[pa.RecordBatch]:
        for one in fragments:
            row = {
                "document": path,
                "chunk": one.chunk,
                "scheme": number,
                "priority": self.urgent.index(one.chunk) if one.chunk in self.urgent else len(self.urgent),
                "xml": one.xml,
                "here": [here for here, _ in one.runs],
                "there": [there for _, there in one.runs],
                "offsets": one.offsets,
            }
            yield pa.RecordBatch.from_pylist([row], _FRAGMENTS)


def _described(error: TwigcastError) -> dict[str, object]:
    wrong: dict[str, object] = {"reason": error.code, "text": error.text}
    if isinstance(error, MessageError):
        wrong |= {"line": error.line, "column": error.column, "offset": error.offset}
    return wrong


@dataclass(frozen=True)
class Evaluate:
    """Rows of fragments -> rows of outcomes; the last rows of documents go through."""

    schemes: Schemes
    limits: Limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filters: dict[int, Filter] = {}
        for batch in batches:
            for row in range(len(batch)):
                one = {name: batch.column(name)[row] for name in _FRAGMENTS.names}
                number = one["scheme"].as_py()
                if number not in filters:
                    filters[number] = Filter(self.schemes[number], limits=self.limits)
                rows = list(self._rows(one, filters[number]))
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, _OUTCOMES)

    def _rows(self, row: Mapping[str, pa.Scalar], filter: Filter) -> Iterator[dict[str, object]]:
        known = {"document": row["document"].as_py(), "scheme": row["scheme"].as_py()}
        chunk = row["chunk"].as_py()
        if chunk is None:
            wrong = {name: row[name].as_py() for name in _WRONG}
            yield {**known, **wrong, "complete": True}
            for overfull in row["here"].as_py() or ():
                yield from (
                    {**known, "number": number, "reason": TOO_LARGE} for number in _expressions(filter.scheme, overfull)
                )
            return
        runs = tuple(zip(row["here"].as_py(), row["there"].as_py(), strict=True))
        try:
            outcomes = filter.evaluate(Fragment(chunk, row["xml"].as_py(), runs))
        except FATAL:
            raise
        except BaseException as error:  # the fragment cannot be evaluated at all
            failed = Failed.of(0, error, "internal")
            refused = failed.code, failed.text
            outcomes = [Outcome(number, refused=refused) for number in _expressions(filter.scheme, chunk)]
        for one in outcomes:
            made = one._asdict()
            made["reason"], made["text"] = made.pop("refused") or (None, None)
            yield {**known, **made}


def _expressions(scheme: Scheme, chunk: int) -> list[int]:
    return [number for some in scheme.fragments if some.number == chunk for number in some.numbers]


@dataclass(frozen=True)
class MergeDocument:
    """All outcomes of a document -> one row per subscription that matches, and one for what is wrong with it."""

    schemes: Schemes
    limits: Limits
    schema: pa.Schema

    def __call__(self, table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        last = max((row for row in rows if row["number"] is None), key=lambda row: row["scheme"])
        scheme = self.schemes[last["scheme"]]
        merge = Merge(scheme, self.limits)
        problems: dict[int, Reason] = {}
        for row in rows:
            if row["scheme"] != last["scheme"] or row["number"] is None:
                continue
            if row["reason"] is not None:
                text = row["text"] or f"a part has more than {self.limits.max_bytes} bytes"
                problems[row["number"]] = row["reason"], text
                continue
            names = ("number", "nodes", "fragments", "complete", "payload", "missing")
            merge.add([Outcome(**{name: row[name] for name in names})])
        document = last["document"]
        answers, undecided = merge.known(problems, whole=last["reason"] is None)
        made: list[dict[str, object]] = [
            {"message": document, "subscription": self._id(one.id), "reason": one.code, "text": one.text}
            for one in undecided
        ]
        if last["reason"] is not None:
            made.append({"message": document, **{name: last[name] for name in _WRONG}})
        return pa.concat_tables([self._matches(document, answers), pa.Table.from_pylist(made, self.schema)])

    def _id(self, id: SubscriptionId) -> SubscriptionId:
        return id if self.schema.field("subscription").type == pa.int64() else str(id)

    def _matches(self, document: str, answers: Sequence[Any]) -> pa.Table:
        kind = self.schema.field("subscription").type
        columns: dict[str, Any] = {
            "message": pa.array([document] * len(answers), pa.string()),
            "subscription": pa.array([self._id(one.id) for one in answers], kind),
        }
        if "payload" in self.schema.names:
            rows = [
                {
                    "subscription": 0,
                    "nodes": one.nodes if one.fragments is None else None,
                    "fragments": one.fragments,
                    "complete": one.complete,
                    "payload": one.payload,
                    "reason": one.reason,
                }
                for one in answers
            ]
            columns["payload"] = payloads(pa.array(rows, MATCH))
        filled = [columns.get(f.name, pa.nulls(len(answers), f.type)) for f in self.schema]
        return pa.Table.from_arrays(filled, schema=self.schema)


def _paths(spark: SparkSession, paths: str | Sequence[str] | DataFrame) -> DataFrame:
    """One row and one partition per file: each is a stream of its own."""
    if isinstance(paths, str):
        paths = [paths]
    if isinstance(paths, Sequence):
        if not paths:
            raise OptionError("no-files", "there is no file to read")
        return spark.createDataFrame([(str(path),) for path in paths], "path string").repartition(len(paths))
    return paths.select(paths.columns[0])


def fragments(
    spark: SparkSession,
    paths: str | Sequence[str] | DataFrame,
    scheme: Scheme,
    *,
    plain: Scheme | None = None,
    batch_bytes: int = BATCH,
    limits: Limits | None = None,
    first: Iterable[SubscriptionId] = (),
) -> DataFrame:
    """Return the fragments of files: ``document``, ``chunk``, ``xml``, ids and offsets of the original.

    The last row of a file says what is wrong with it. ``paths``: a path, several, or a DataFrame whose first column has
    them.

    Raises
    ------
    OptionError
        ``worker-python`` if the workers of the session cannot run the stage, ``no-files`` if there is no path.
    """
    check_workers(spark.sparkContext)
    task = ReadFiles(Schemes(scheme, plain), limits or Limits(), batch_bytes, urgent(scheme, first))
    return _paths(spark, paths).mapInArrow(task, FRAGMENTS_SQL)


def urgent(scheme: Scheme, first: Iterable[SubscriptionId]) -> tuple[int, ...]:
    """The chunks that have to be done for some subscriptions to be answered, in the order of these."""
    numbers: list[int] = []
    for id in first:
        if id not in scheme.homes:
            raise OptionError("unknown-subscription", f"there is no subscription {id!r}")
        numbers += sorted(scheme.homes[id])
    return tuple(dict.fromkeys(numbers))


def match(
    spark: SparkSession,
    paths: str | Sequence[str] | DataFrame,
    subscriptions: Sequence[Subscription],
    *,
    chunks: int = 4,
    schema: Schema | None = None,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    batch_bytes: int = BATCH,
    first: Iterable[SubscriptionId] = (),
    tasks: int | None = None,
) -> Matched:
    """Match large files against subscriptions: one row per file and subscription that matches.

    A file that is not well-formed, or cannot be read to its end, is in ``dead`` with the reason and the position; its
    matches are those that hold whatever the rest had been. Fragments that subscriptions in ``first`` wait for are
    evaluated before others that have come to the same task. ``tasks``: how many match at the same time.
    """
    limits = limits or Limits()
    scheme = prepare(subscriptions, chunks=chunks, schema=schema, namespaces=namespaces)
    plain = None if schema is None else prepare(subscriptions, chunks=chunks, namespaces=namespaces)
    schemes = Schemes(scheme, plain)
    made = fragments(spark, paths, scheme, plain=plain, batch_bytes=batch_bytes, limits=limits, first=first)
    spread = made.repartition(tasks or spark.sparkContext.defaultParallelism).sortWithinPartitions("priority")
    outcomes = spread.mapInArrow(Evaluate(schemes, limits), OUTCOMES_SQL)
    numbers = all(isinstance(one.id, int) for one in subscriptions)
    selects = any(one.result != "match" or is_transform(one.query) for one in subscriptions)
    sql = f"message string, subscription {'bigint' if numbers else 'string'}, {WRONG_SQL}, original binary"
    sql += ", payload binary" * selects
    task = MergeDocument(schemes, limits, _arrow(sql))

    def merged(table: pa.Table) -> pa.Table:  # Spark counts the arguments, of which a method has one more
        return task(table)

    return Matched(outcomes.groupBy("document").applyInArrow(merged, sql))


__all__ = ["FRAGMENTS_SQL", "fragments", "match", "urgent"]
