"""A bad subscription never gets in: queries are compiled before anything is stored.

``CHECKERS`` is the one place to extend when this version learns another kind of subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twigcast.correlate.default import Default
from twigcast.correlate.engine import check_correlation
from twigcast.engine import DIALECTS, Engine
from twigcast.errors import OptionError, TwigcastError
from twigcast.lang.flwr import is_transform
from twigcast.lang.structural import compiler_for
from twigcast.lang.xscl import is_correlation, parse_correlation
from twigcast.results import check_deliver_empty, check_result
from twigcast.shape import Shapes, Template, scope_of
from twigcast.store.records import SubscriptionRecord

Problems = list[tuple[int, TwigcastError]]
"""Which of the records given, by its index, and what is wrong with it."""
MAX_SHAPES = 200_000
_PLAIN = scope_of({}, None)


class FilterChecker:
    """Accepts what ``Engine.add_many`` accepts.

    A query whose shape has been accepted already needs no more than a look-up: its constants cannot be wrong.
    """

    def __init__(self) -> None:
        self._shapes = Shapes()
        self._accepted: set[tuple[Template, bool]] = set()

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        problems: Problems = []
        unknown: dict[tuple[Template, bool], list[int]] = {}
        for i, record in enumerate(records):
            try:
                key = self._key(record)
            except TwigcastError as error:
                problems.append((i, error))
                continue
            if key is not None and key not in self._accepted:
                unknown.setdefault(key, []).append(i)
        try:
            Engine().add_many(records[indexes[0]].to_subscription() for indexes in unknown.values())
        except TwigcastError:
            # Only now one by one: to tell all that is wrong, not only what came first.
            every = [i for indexes in unknown.values() for i in indexes]
            return problems + _one_by_one(records, every)
        if len(self._accepted) + len(unknown) > MAX_SHAPES:
            self._accepted.clear()
        self._accepted.update(unknown)
        return problems

    def _key(self, record: SubscriptionRecord) -> tuple[Template, bool] | None:
        """What the acceptance of a query depends on; None for a plain path, of which nothing more can be wrong."""
        if is_transform(record.query):
            hint = 'leave "kind" out, or say transform'
            raise OptionError("wrong-kind", "this query is a transform, not a filter", hint=hint)
        if is_correlation(record.query):
            hint = 'leave "kind" out, or say correlate'
            raise OptionError("wrong-kind", "this query is a correlation, not a filter", hint=hint)
        if record.dialect not in DIALECTS:
            hint = f"the dialects are {', '.join(DIALECTS)}"
            raise OptionError("unknown-dialect", f"there is no dialect {record.dialect!r}", hint=hint)
        check_result(record.result)
        check_deliver_empty(record.deliver_empty, is_transform=False)
        namespaces, selects = record.namespaces or {}, record.result != "match"
        compiler = compiler_for(namespaces, record.default_namespace)
        if not selects and "[" not in record.query and compiler.fast(record.query) is not None:
            return None
        plain = not namespaces and not record.default_namespace and record.dialect == "w3c"
        scope = _PLAIN if plain else scope_of(namespaces, record.default_namespace, record.dialect)
        return self._shapes.split(record.query, scope)[0], selects


class TransformChecker:
    """Accepts what ``Engine.add_many`` accepts, of transforms."""

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        problems: Problems = []
        engine = Engine()
        for i, record in enumerate(records):
            try:
                if not is_transform(record.query):
                    hint = "a transform is an element around a FLWR expression: <r>{ for $x in //a return $x }</r>"
                    raise OptionError("wrong-kind", "this query is a filter, not a transform", hint=hint)
                engine.check(record.to_subscription())
            except TwigcastError as error:
                problems.append((i, error))
        return problems


class CorrelationChecker:
    """Accepts what ``Broker.subscribe`` accepts, of correlations; whether streams form a cycle is for the whole set."""

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        problems: Problems = []
        for i, record in enumerate(records):
            try:
                if not is_correlation(record.query):
                    hint = "a correlation ties blocks: S//a->x FOLLOWED BY{x = y, 5 min} S//b->y"
                    raise OptionError("wrong-kind", "this query is not a correlation", hint=hint)
                check_correlation(record.result, record.stream)
                Default().add(0, parse_correlation(record.query, record.namespaces, record.default_namespace))
            except TwigcastError as error:
                problems.append((i, error))
        return problems


def _one_by_one(records: Sequence[SubscriptionRecord], indexes: Iterable[int]) -> Problems:
    problems: Problems = []
    for i in indexes:
        try:
            Engine().add_many([records[i].to_subscription()])
        except TwigcastError as error:
            problems.append((i, error))
    return problems


CHECKERS: dict[str, Callable[[], Callable[[Sequence[SubscriptionRecord]], Problems]]] = {
    "filter": FilterChecker,
    "transform": TransformChecker,
    "correlate": CorrelationChecker,
}
"""By kind of subscription: what makes a checker, which may remember what it has seen."""


class Checker:
    """Checks subscriptions of every kind that this version has."""

    def __init__(self) -> None:
        self._of = {kind: make() for kind, make in CHECKERS.items()}

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        by_kind: dict[str, list[int]] = {}
        for i, record in enumerate(records):
            by_kind.setdefault(record.kind, []).append(i)
        problems: Problems = []
        for kind, indexes in by_kind.items():
            checker = self._of.get(kind)
            if checker is None:
                problems += [(i, unknown_kind(kind)) for i in indexes]
            else:
                problems += [(indexes[i], error) for i, error in checker([records[i] for i in indexes])]
        return sorted(problems, key=lambda problem: problem[0])

    def one(self, record: SubscriptionRecord) -> None:
        for _, error in self([record]):
            raise error


def unknown_kind(kind: str) -> OptionError:
    return OptionError(
        "unknown-kind", f"there is no kind {kind!r}", hint=f"the kinds of this version: {', '.join(CHECKERS)}"
    )
