"""A compiled set of subscriptions: queries in, batches of messages in, matches out as Arrow columns."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from twigcast import _kernel
from twigcast.common.arrow import pa, pc
from twigcast.common.forking import refuse_if_forked_in_use
from twigcast.common.removed import refuse_removed
from twigcast.engine.columns import (
    Rejected,
    as_matches,
    columns_of,
    cut_lists,
    message_of,
    raise_if,
    reject,
    results_of,
)
from twigcast.engine.compiler import Compiler, TextPath, is_transform_of, parse_transform_of, undecided
from twigcast.engine.delta import History
from twigcast.engine.failures import Failed, FailedRows, Failure, exceeded_rows
from twigcast.engine.ids import Ids, are_ids
from twigcast.engine.jobs import Filter, check_jobs, compile_all
from twigcast.engine.register import Register
from twigcast.engine.results import NOTHING, Selected
from twigcast.engine.shares import Result, within_budget
from twigcast.errors import MessageError, OptionError
from twigcast.ir.pattern import LinearPath
from twigcast.lang.names import check_namespaces
from twigcast.lang.program import encode as encode_query
from twigcast.lang.shape import Shapes, Template
from twigcast.limits import ON_INVALID, Limits
from twigcast.plan.access import ValuePath
from twigcast.plan.encode import NotEncodable
from twigcast.subscription import Subscription, SubscriptionId, is_id, subscriptions_of

if TYPE_CHECKING:  # only those who transform or validate pay for importing these
    from twigcast.ir.transform import Transform
    from twigcast.schema import Schema
    from twigcast.schema.gate import Gate
    from twigcast.transform.encode import Encoded
    from twigcast.transform.templates import Templates

_LOG = logging.getLogger(__name__)

Order = Literal["ascending", "any"]
Alike = tuple[Template, Sequence[SubscriptionId], Sequence[str]]
"""Filters of one shape without results: their ids, and all literals of the first, of the second, and so on."""


class Processed(NamedTuple):
    """What ``Engine.process`` finds: subscriptions, results by place, what correlations see, and a text."""

    ids: list[SubscriptionId]
    results: dict[int, Result]
    witness: _kernel.Witness | None
    text: bytes | None


# Removals after which the engine is compacted; more if it has more subscriptions.
COMPACT_AFTER = 10_000

# A batch's result is cut here, so that messages with very many matches cannot exhaust memory.
MAX_MATCHES = 1 << 24
MAX_RESULT_BYTES = 1 << 26


class Engine:
    """All subscriptions, matched at once.

    ``cache_bytes`` bounds what each matching thread keeps of tag paths that it has seen.

    ``schema`` is that of the messages, a DTD or XML Schema or the file with it; ``on_invalid`` says what becomes of one
    that is not valid: ``fallback`` (answered as if there were no schema), ``reject`` or ``trust`` (nobody looks).

    Any thread may call any method at any time; matching does not hold the interpreter up.
    """

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        cache_bytes: int | None = None,
        schema: Schema | str | Path | None = None,
        on_invalid: str = "fallback",
        **removed: Any,
    ) -> None:
        refuse_removed("Engine", removed)
        if limits is not None and not isinstance(limits, Limits):
            raise OptionError("bad-limits", f"limits are a twigcast.Limits, not {type(limits).__name__}")
        if cache_bytes is not None and not (isinstance(cache_bytes, int) and 0 <= cache_bytes < 2**63):
            raise OptionError("bad-cache", f"cache_bytes is a number of bytes, not {cache_bytes!r}")
        check_namespaces(namespaces)
        if on_invalid not in ON_INVALID:
            hint = f"on_invalid is one of {', '.join(ON_INVALID)}"
            raise OptionError("unknown-on-invalid", f"there is no on_invalid {on_invalid!r}", hint=hint)
        self.schema: Schema | None = None
        self._gate: Gate | None = None
        self.on_invalid = on_invalid
        if schema is not None:
            from twigcast.schema import schema_of
            from twigcast.schema.gate import Gate

            self.schema = schema_of(schema)
            self._gate = Gate([self.schema]) if self.schema is not None and on_invalid == "reject" else None
        self.namespaces = dict(namespaces or {})
        self.limits = limits or Limits()
        self._limits = _kernel.Limits(self.limits.as_dict())
        self._cache = {} if cache_bytes is None else {"cache_bytes": cache_bytes}
        self.kernel = self._make_kernel()
        self._compiler = Compiler(self.namespaces, self._make_shapes())
        self._register = Register(self.kernel)
        # numbers of subscriptions that ask for nodes or fragments
        self._wanting: set[int] = set()
        # transforms, by number
        self._transforming: dict[int, Subscription] = {}
        self._ids = Ids()
        self._removed = 0  # since the engine was compacted
        self._history = History()
        self._next_id = 1
        # Held while the kernel's numbers and our ids differ, and while the one is turned into the other.
        self._lock = RLock()
        refuse_if_forked_in_use(self, "_lock", "kernel")
        self._attached: list[Callable[[_kernel.Engine], None]] = []
        # the numbers of paths to texts in a kernel
        self._texts: tuple[_kernel.Engine, dict[TextPath, int]] = self.kernel, {}
        # A number may come to mean another subscription while a message is being matched.
        self._reuses = 0
        self._reused_at: dict[int, int] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._ids)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return is_id(id) and id in self._ids  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"<Engine: {len(self):,} subscriptions>"

    # What ``twigcast.papers.Engine`` makes otherwise.

    def _make_kernel(self) -> _kernel.Engine:
        return _kernel.Engine(**self._cache)

    def _open_kernel(self, data: object) -> _kernel.Engine:
        """Return the kernel that a snapshot has saved."""
        return _kernel.Engine.open(data, **self._cache)

    def _make_shapes(self) -> Shapes:
        return Shapes()

    def _add_planned(
        self, xml: bytes, numbers: list[int], results: dict[int, Result], failed: list[Failed]
    ) -> list[int]:
        """Return the numbers with those of what is evaluated elsewhere; add the results and failures of that."""
        return numbers

    def _add_planned_rows(self, xml: pa.Array, lists: pa.Array, error: pa.Array, failed: FailedRows) -> pa.Array:
        """Return the lists of matches with those of what is evaluated elsewhere; add the failures of that."""
        return lists

    def _options(self) -> dict[str, Any]:
        """Return the options beyond those of every engine, for a snapshot and for a copy."""
        return {}

    @classmethod
    def _saved_options(cls, meta: dict[str, Any]) -> dict[str, Any]:
        """Return the same options from what a snapshot has. Earlier versions saved those of the papers for all."""
        return {}

    @property
    def ids(self) -> pa.Array:
        """The subscriptions' ids by number: int64 if all are numbers, else strings; null where a number is free."""
        with self._lock:
            return self._ids.array

    def numbers(self, ids: Sequence[SubscriptionId]) -> list[int]:
        """The numbers of subscriptions that are there: their places in ``ids``."""
        with self._lock:
            return self._ids.numbers(ids)

    def may_fail(self, id: SubscriptionId) -> bool:
        """Return whether a subscription is evaluated by itself, so that it can fail by itself."""
        with self._lock:
            number = self._ids.numbers([id])[0]
            return self.kernel.has_query(number) or number in self._transforming

    @property
    def selects(self) -> bool:
        """Whether some subscription asks for more than the match itself."""
        return bool(self._wanting or self._transforming)

    @property
    def version(self) -> int:
        """Grows with every subscription added or removed."""
        return self._history.version

    def add(
        self,
        query: str,
        *,
        id: SubscriptionId | None = None,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
        result: str = "match",
        deliver_empty: bool = False,
    ) -> SubscriptionId:
        """Add a subscription and return its id. Without an ``id`` it gets the next free number.

        ``result`` says what ``select`` tells of a match beyond the match itself: nothing (``match``), the ids of the
        nodes that the query selects (``nodes``), or these nodes as XML (``fragments``). ``deliver_empty`` is for
        transforms: where nothing is bound, the empty outer element is made.
        """
        with self._lock:
            if id is None:
                id = self._free_id()
            self.add_many([Subscription(id, query, namespaces, default_namespace, dialect, result, deliver_empty)])
        return id

    def _free_id(self) -> int:
        while self._next_id in self._ids:
            self._next_id += 1
        return self._next_id

    def add_many(self, subscriptions: Iterable[Subscription], alike: Sequence[Alike] = (), *, jobs: int = 1) -> None:
        """Add all of them or, if one cannot be accepted, none. ``alike``: those of shapes that ``learn`` gave.

        With ``jobs`` filters are compiled in so many processes, which pays from tens of thousands of shapes on. The
        engine is the same with any number of them.
        """
        subscriptions = subscriptions_of(subscriptions)
        check_jobs(jobs)
        with self._lock:
            ids = [s.id for s in subscriptions]
            for _, some, _ in alike:
                ids += some
            self._check_ids(ids)
            register = self._register
            transforms, wanting = [], []
            elsewhere: Sequence[Filter | None] = ()
            if jobs > 1 and type(self) is Engine:
                elsewhere = compile_all(subscriptions, self.namespaces, register.codes.__getitem__, jobs)
            try:
                for i, s in enumerate(subscriptions):
                    if elsewhere and (compiled := elsewhere[i]) is not None:
                        register.queue_encoded(i, *compiled)
                        continue
                    if is_transform_of(s):
                        transforms.append((i, self._transform(s)))
                        continue
                    template, literals = self._compiler.split(s)
                    try:
                        register.queue(i, template, literals, s.result)
                    except NotEncodable:
                        register.queue(i, Template(undecided(s, self.namespaces)), (), s.result)
                    if s.result != "match":
                        wanting.append(i)
                at = len(subscriptions)
                for template, some, literals in alike:
                    register.queue_alike(range(at, at := at + len(some)), template, literals)
                numbers = register.flush(len(ids))
            except BaseException:
                register.clear()
                raise
            self._wanting.update(numbers[i] for i in wanting)
            for i, prepared in transforms:
                self._add_transform(numbers[i], subscriptions[i], prepared)
            self._enter(ids, numbers)
            if alike:
                self._history.advanced(len(ids))
            else:
                self._history.added(subscriptions)

    def _transform(self, s: Subscription) -> Encoded:
        return self._templates.prepare(s.query, self._compiler.scope_of_transform(s))

    @cached_property
    def _templates(self) -> Templates[Transform, Encoded]:
        """The shapes of transforms, encoded for the kernel in use."""
        from twigcast.transform.encode import compiled, condition
        from twigcast.transform.templates import Templates

        codes = self._register.codes
        return Templates(parse_transform_of, lambda transform: compiled(transform, codes), condition)

    def _add_transform(self, number: int, s: Subscription, e: Encoded) -> None:
        self._transforming[number] = s
        if e.query is None:
            self.kernel.add_transform(number, e.program, e.constants, e.making, s.deliver_empty)
        else:
            self.kernel.add_residual_transform(number, e.query[:2], e.making, s.deliver_empty)

    def _has_in_kernel(self) -> bool:
        """Return whether the kernel's part of a snapshot has the transforms."""
        return True

    def _open_transform(self, number: int, s: Subscription, in_kernel: bool) -> None:
        """Add a transform from a snapshot. It is parsed where the kernel's part of the snapshot does not have it."""
        if in_kernel:
            self._transforming[number] = s
        else:
            self._add_transform(number, s, self._transform(s))

    def learn(self, s: Subscription, constants: set[int]) -> Template | None:
        """Return the shape of a filter, for ``add_many``; None if some of these literals are more than constants."""
        with self._lock:
            template = self._compiler.split(s)[0]
            if not template.kept:  # a shape is learnt the second time that it is seen
                template = self._compiler.split(s)[0]
            if template.plan.residual is not None or template.slots is None:
                return None
            if not constants <= {i for i, _ in template.slots}:
                return None
            try:
                self._register.prepare(template)
            except NotEncodable:
                return None
            return template

    def check(self, s: Subscription) -> tuple[Template, Sequence[str]] | None:
        """Raise what ``add`` would raise for its query. Return the shape and the literals of a filter."""
        if not isinstance(s, Subscription):
            subscriptions_of([s])
        if is_transform_of(s):
            self._transform(s)
            return None
        template, literals = self._compiler.split(s)
        self._register.query(template, literals)
        return template, literals

    def _check_ids(self, ids: list[SubscriptionId]) -> None:
        if are_ids(ids) and self._ids.are_new(ids):
            return
        seen = set()
        for id in ids:
            if not is_id(id):
                raise OptionError("bad-id", f"a subscription's id is a string or a whole number of 64 bits, not {id!r}")
            if id in self._ids or id in seen:
                raise OptionError("duplicate-id", f"there is a subscription {id!r} already")
            seen.add(id)

    def _enter(self, ids: list[SubscriptionId], numbers: list[int]) -> None:
        known = self._ids.bound
        if min(numbers, default=known) < known:
            for number in numbers:
                if number < known:
                    self._reuses += 1
                    self._reused_at[number] = self._reuses
        self._ids.enter(ids, numbers)

    def remove(self, id: SubscriptionId) -> None:
        with self._lock:
            if not is_id(id) or id not in self._ids:
                raise OptionError("unknown-subscription", f"there is no subscription {id!r}")
            number = self._ids.pop(id)
            self.kernel.remove(number)
            self._transforming.pop(number, None)
            self._wanting.discard(number)
            self._history.removed(id)
            self._removed += 1
            if self._removed >= max(COMPACT_AFTER, len(self._ids)):
                self._compact()

    def match(self, xml: bytes, *, failures: list[Failure] | None = None) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that one message satisfies, in the order of their numbers.

        A subscription that cannot be evaluated on the message does not keep the others from theirs: it is appended to
        ``failures``, or logged if there is no list.
        """
        xml = message_of(xml)
        began = self._reuses
        numbers, exceeded, error = self.kernel.match_one(xml, self._limits)
        raise_if(error)
        self._validate(xml)
        failed = [Failed.exceeded(number, what, self.limits) for number, what in exceeded]
        numbers = self._add_planned(xml, numbers, {}, failed)
        if failed:
            self._report(failed, failures)
        with self._lock:
            if self._reuses != began:
                numbers = [n for n in numbers if self._reused_at.get(n, 0) <= began]
            return self._ids.at(numbers)

    def _report(self, failed: list[Failed], failures: list[Failure] | None) -> None:
        """Append the failures to the caller's list, or log them if there is none."""
        with self._lock:
            found = [Failure(id, one.error) for one in failed for id in self._ids.at([one.number])]
        if failures is not None:
            failures += found
            return
        for failure in found:
            _LOG.warning("the subscription %r failed: %s", failure.id, failure.error)

    def select(self, xml: bytes, *, failures: list[Failure] | None = None) -> list[Selected]:
        """Do as ``match`` does, with what each of the subscriptions selects, if it asked for that."""
        ids, results = self.find(message_of(xml), failures)
        return [Selected(id, *results.get(place, NOTHING)) for place, id in enumerate(ids)]

    def find(self, xml: bytes, failures: list[Failure] | None) -> tuple[list[SubscriptionId], dict[int, Result]]:
        """Do as ``select`` does, in columns: the ids of the subscriptions, and by place the results that there are."""
        processed = self.process(xml, failures, None)
        return processed.ids, processed.results

    def process(
        self, xml: bytes, failures: list[Failure] | None, streams: list[int] | None, text: TextPath | None = None
    ) -> Processed:
        """Do as ``find`` does, and find in the same reading what correlations see of a message on these streams, and
        the text at a path."""
        began = self._reuses
        results: dict[int, Result] = {}
        witness: _kernel.Witness | None = None
        found: bytes | None = None
        selecting = bool(self._wanting or self._transforming)
        if selecting or streams is not None or text is not None:
            path = None if text is None else self._text(text)
            processed = self.kernel.process_one(xml, streams or [], selecting, self._limits, path)
            numbers, results, witness, found, exceeded, error = processed
        else:
            numbers, exceeded, error = self.kernel.match_one(xml, self._limits)
        if error is not None:
            raise MessageError.of_kernel(error)
        if self._gate is not None:
            self._validate(xml)
        failed: list[Failed] = []
        numbers = self._add_planned(xml, numbers, results, failed)
        ids, by_place = self.finish(numbers, results, exceeded, failures, began, failed)
        return Processed(ids, by_place, None if streams is None else witness, found)

    @property
    def reads_alone(self) -> bool:
        """Whether the kernel alone decides what matches, so that many messages can be given to it at once."""
        return type(self) is Engine and self._gate is None

    @property
    def reuses(self) -> int:
        """How often a number has come to mean another subscription."""
        return self._reuses

    def finish(
        self,
        numbers: list[int],
        results: dict[int, Result],
        exceeded: Sequence[tuple[int, str]],
        failures: list[Failure] | None,
        began: int,
        failed: Sequence[Failed] = (),
    ) -> tuple[list[SubscriptionId], dict[int, Result]]:
        """Return what ``find`` does for what the kernel found when ``reuses`` was ``began``."""
        if results and self._transforming:
            results = dict(within_budget([(n, results[n]) for n in numbers if n in results], self.limits))
        if exceeded or failed:
            every = [*(Failed.exceeded(number, what, self.limits) for number, what in exceeded), *failed]
            self._report(every, failures)
        with self._lock:
            if self._reuses != began:
                numbers = [n for n in numbers if self._reused_at.get(n, 0) <= began]
            ids = self._ids.at(numbers)
            if not results:
                return ids, results
            if len(ids) < len(numbers):  # some were removed meanwhile
                numbers = [n for n in numbers if self._ids.at([n])]
        return ids, {place: results[n] for place, n in enumerate(numbers) if n in results}

    def _text(self, path: TextPath) -> int:
        """Return the kernel's number of a path."""
        with self._lock:
            kernel, numbers = self._texts
            if kernel is not self.kernel:
                kernel, numbers = self._texts = self.kernel, {}
            if path not in numbers:
                program = encode_query(path.expression, kernel)
                numbers[path] = kernel.add_text(program.words, program.strings)
            return numbers[path]

    def _validate(self, xml: bytes) -> None:
        error = self._gate and self._gate.error(xml, self.limits)
        if error:
            raise error

    def _rejected(self, xml: pa.Array, error: pa.Array) -> Rejected:
        """Return the messages that can be read and that the schema rejects, by row."""
        if self._gate is None:
            return {}
        rejected = {}
        for row in pc.indices_nonzero(error.is_null()).to_pylist():
            data = xml[row].as_py()
            found = self._gate.error(data.encode() if isinstance(data, str) else data, self.limits)
            if found is not None:
                rejected[row] = found
        return rejected

    def match_units(
        self, xml: pa.Array, units: _kernel.Units, free: int, failed: list[Failed]
    ) -> tuple[list[int], MessageError | None]:
        """Return the numbers of the filters that some unit of a document satisfies, or what lies between the units, and
        why the document cannot be read. It is the first of a column; its outermost ``free`` elements are no units.
        Subscriptions that could not be evaluated are appended to ``failed``."""
        # A piece ends after what must not be cut, so it may have more than that may have.
        limits = replace(self.limits, max_bytes=min(4 * self.limits.max_bytes, 2**32 - 1))
        numbers, exceeded, error = units.match_one(xml, free, limits.as_dict())
        if error is not None:
            return [], MessageError.of_kernel(error)
        failed += [Failed.exceeded(number, what, limits) for number, what in exceeded]
        return numbers, None

    def match_batch(self, batch: pa.RecordBatch, *, order: Order = "ascending") -> pa.RecordBatch:
        """Match the column ``xml`` of a batch, row by row.

        Returns ``id`` (as given), ``matches`` (list of subscription numbers, see ``ids``), ``error`` (a struct of
        code, line, column, offset and text; null where the message could be read) and ``failures`` (list of structs of
        subscription, code and text: those that could not be evaluated on the message; null where there are none). With
        ``order="any"`` the numbers of a row come in no particular order, which is faster where there are very many.
        """
        parts = list(self.match_batches(batch, order=order, max_matches=2**31 - 2**26))
        if len(parts) == 1:
            return parts[0]
        raise OptionError("batch-too-large", "more than 2^31 matches in one batch", hint="use match_batches")

    def match_batches(
        self, batch: pa.RecordBatch, *, order: Order = "ascending", max_matches: int = MAX_MATCHES
    ) -> Iterator[pa.RecordBatch]:
        """As ``match_batch``, in slices of about ``max_matches`` matches, so that memory stays bounded."""
        if order not in get_args(Order):
            raise OptionError("unknown-order", f"there is no order {order!r}", hint="the orders are ascending and any")
        if not (isinstance(max_matches, int) and 0 < max_matches < 2**31):
            raise OptionError("bad-max-matches", f"max_matches is a number from 1 to 2^31 - 1, not {max_matches!r}")
        return self.process_batches(batch, order=order, max_matches=max_matches)

    def select_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As ``match_batch``, with what subscriptions select.

        ``matches`` is a list of structs: ``subscription`` (its number), ``nodes`` (list of ids), ``fragments`` (list of
        binary), ``complete`` (false if some results are missing), ``payload`` (the new message of a transform) and
        ``reason`` (why results are missing, one of ``twigcast.engine.shares.REASONS``). What was not asked for is null.
        """
        parts = list(self.select_batches(batch, max_matches=2**31 - 2**26, max_bytes=1 << 30))
        if len(parts) == 1:
            return parts[0]
        raise OptionError("batch-too-large", "more than 1 GB of results in one batch", hint="use select_batches")

    def select_batches(
        self, batch: pa.RecordBatch, *, max_matches: int = MAX_MATCHES, max_bytes: int = MAX_RESULT_BYTES
    ) -> Iterator[pa.RecordBatch]:
        """As ``select_batch``, in slices of about ``max_matches`` matches and ``max_bytes`` bytes of results."""
        return self.process_batches(batch, select=True, max_matches=max_matches, max_bytes=max_bytes)

    def process_batches(
        self,
        batch: pa.RecordBatch,
        *,
        select: bool = False,
        order: Order = "ascending",
        max_matches: int = MAX_MATCHES,
        max_bytes: int = MAX_RESULT_BYTES,
        text: TextPath | None = None,
        streams: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Do as ``match_batches`` or ``select_batches`` does, and read each message once.

        With ``text`` there is a column with the string value of the first node at the path, null if there is none. With
        ``streams``, those of the kernel that messages come by, there is a column ``witness`` with what correlations see
        of them, null where that is nothing.
        """
        ids, xml = columns_of(batch)
        path = None if text is None else self._text(text)
        start = 0
        while True:
            data, end, exceeded = self.kernel.process(
                xml, start, max_matches, max_bytes, select, order, path, streams, self._limits
            )
            own, answer = xml.slice(start, end - start), pa.array(data)
            answer = reject(answer, self._rejected(own, answer.field("error")))
            matches, error = answer.field("matches"), answer.field("error")
            if select:
                matches = as_matches(matches)
            failed = exceeded_rows(exceeded, self.limits)
            matches = self._add_planned_rows(own, matches, error, failed)
            if select and self._transforming:
                matches = cut_lists(matches, self.limits)
            more = {name: answer.field(name) for name in ("text", "witness") if answer.type.get_field_index(name) >= 0}
            yield results_of(ids.slice(start, end - start), matches, error, failed, more)
            start = end
            if start >= len(xml):
                return

    def sharers(self, path: LinearPath) -> int:
        """How many subscriptions have this path and nothing else."""
        codes = self._register.codes.path(ValuePath(path.steps), ())
        return max(self.kernel.sharers(array("I", one).tobytes()) for one in codes)

    def save(self, path: str | Path) -> None:
        """Writes the compiled set to one file, whole or not at all."""
        from twigcast.engine import snapshot

        snapshot.save(self, Path(path))

    @classmethod
    def open(
        cls, path: str | Path, *, schema: Schema | str | Path | None = None, on_invalid: str = "fallback"
    ) -> Engine:
        """Open what ``save`` wrote. The schema of messages is not in it and has to be given again."""
        from twigcast.engine import snapshot

        if schema is not None:
            from twigcast.schema import schema_of

            schema = schema_of(schema)
        return snapshot.load(Path(path), cls, schema=schema, on_invalid=on_invalid)

    def _adopt(self, kernel: _kernel.Engine, ids: Ids, history: History) -> None:
        """Goes on from what a snapshot held."""
        self.kernel, self._register = kernel, Register(kernel)
        self.__dict__.pop("_templates", None)
        self._wanting = set(kernel.selecting())
        self._ids, self._history = ids, history

    def _compact(self) -> None:
        """Give back what removed subscriptions have left behind."""
        from twigcast.engine import snapshot

        snapshot.compact(self)
        self._removed = 0

    def _like(self) -> Engine:
        """Return an engine with the options of this one and no subscriptions."""
        return type(self)(
            namespaces=self.namespaces,
            limits=self.limits,
            cache_bytes=self._cache.get("cache_bytes"),
            schema=self.schema,
            on_invalid=self.on_invalid,
            **self._options(),
        )

    def attach(self, enter: Callable[[_kernel.Engine], None]) -> Any:
        """Let correlations put their blocks into the kernel, under the lock that this returns. ``enter`` is called with
        a kernel that is about to take the place of this one."""
        self._attached.append(enter)
        return self._lock

    def _replace_compiled(self, copy: Engine) -> None:
        """Go on with the kernel of a copy, which numbers its subscriptions as this one does."""
        for enter in self._attached:
            enter(copy.kernel)
        self.kernel, self._register, self._compiler = copy.kernel, copy._register, copy._compiler
        self.__dict__.pop("_templates", None)

    def save_delta(self, path: str | Path, since_version: int) -> None:
        """Writes what has changed since a version. Changes are known since the set was first saved or opened."""
        from twigcast.engine import delta

        delta.save_delta(self, Path(path), since_version)

    def apply(self, path: str | Path) -> None:
        """Makes the changes that ``save_delta`` wrote, all or none; they must be for the version that this set has."""
        from twigcast.engine import delta

        delta.apply(self, Path(path))
