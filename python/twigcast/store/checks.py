"""Checks of subscriptions before they are stored: each query is compiled, and refused if it can never match.

``CHECKERS`` is the one place to extend when this version learns another kind of subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twigcast.correlate.default import Default
from twigcast.correlate.engine import check_correlation
from twigcast.engine import Engine
from twigcast.engine.results import check_deliver_empty, check_result
from twigcast.errors import TwigcastError
from twigcast.lang.kinds import check_dialect_of, check_kind
from twigcast.lang.shape import Shapes, Template, scope_of
from twigcast.lang.structural import compiler_for
from twigcast.lang.unsatisfiable import NeverMatches
from twigcast.lang.xscl import parse_correlation
from twigcast.store.records import SubscriptionRecord

Problems = list[tuple[int, TwigcastError]]
"""Which of the records given, by its index, and what is wrong with it."""
MAX_SHAPES = 200_000
_PLAIN = scope_of({}, None)


def problems_of(records: Iterable[SubscriptionRecord], check: Callable[[SubscriptionRecord], object]) -> Problems:
    """Call ``check`` with each record, and return the errors that it raises, by index."""
    problems: Problems = []
    for i, record in enumerate(records):
        try:
            check(record)
        except TwigcastError as error:
            problems.append((i, error))
    return problems


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
            found = problems_of([records[i] for i in every], lambda one: Engine().add_many([one.to_subscription()]))
            return problems + [(every[i], error) for i, error in found]
        if len(self._accepted) + len(unknown) > MAX_SHAPES:
            self._accepted.clear()
        self._accepted.update(unknown)
        return problems

    def _key(self, record: SubscriptionRecord) -> tuple[Template, bool] | None:
        """Return what the acceptance of a query depends on; None for a plain path, which is always accepted."""
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
    """Accepts the transforms that ``Engine.add_many`` accepts."""

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        engine = Engine()
        return problems_of(records, lambda record: engine.check(record.to_subscription()))


class CorrelationChecker:
    """Accepts the correlations that ``Broker.subscribe`` accepts. Cycles of streams are for the whole set to find."""

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        return problems_of(records, self._check)

    def _check(self, record: SubscriptionRecord) -> None:
        check_correlation(record.result, record.stream)
        Default().add(0, parse_correlation(record.query, record.namespaces, record.default_namespace))


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
        self._never = NeverMatches()

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        """Return what is wrong with the records, in their order."""
        problems = problems_of(records, _check_words)
        bad = {i for i, _ in problems}
        by_kind: dict[str, list[int]] = {}
        for i, record in enumerate(records):
            if i not in bad:
                by_kind.setdefault(record.kind, []).append(i)
        for kind, indexes in by_kind.items():
            problems += [(indexes[i], error) for i, error in self._of[kind]([records[i] for i in indexes])]
        return sorted(problems, key=lambda problem: problem[0])

    def never(self, record: SubscriptionRecord) -> TwigcastError | None:
        """Return why no message can match a subscription that has passed the other checks; None if some may."""
        return self._never(
            record.query,
            record.namespaces,
            record.default_namespace,
            dialect=record.dialect,
            deliver_empty=record.deliver_empty,
        )

    def one(self, record: SubscriptionRecord, *, allow_never: bool = False) -> None:
        """Raise what is wrong with a subscription."""
        for _, error in self([record]):
            raise error
        never = None if allow_never else self.never(record)
        if never is not None:
            raise never


def _check_words(record: SubscriptionRecord) -> None:
    """Check that the kind and the dialect are those of the query."""
    # most are filters that start with a slash, and these have no braces and no arrows
    if record.kind != "filter" or record.query[:1] != "/" or "{" in record.query or "->" in record.query:
        check_kind(record.kind, record.query)
    if record.dialect != "w3c":
        check_dialect_of(record.query, record.dialect)
