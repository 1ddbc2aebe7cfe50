"""What the schemas of a stream's publishers say of a subscription: that it can never match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from twigcast.errors import OptionError
from twigcast.schema import Schema, read_schema
from twigcast.schema.check import never_matches
from twigcast.shape import Scope, Shapes, Template, scope_of
from twigcast.store.checks import Problems, problems_of
from twigcast.store.records import PublisherRecord, SubscriptionRecord


def check_against(publishers: Iterable[PublisherRecord], record: SubscriptionRecord) -> None:
    """Raises a QueryError for a subscription to a stream if no valid message of any of its publishers can match.

    One without a stream hears of all, those that have no schema too: of it nothing is known.
    """
    of_stream = [one for one in publishers if one.stream == record.stream]
    if record.stream is None or not of_stream:
        return
    errors = []
    for publisher in of_stream:
        try:
            schema = _schema(publisher.schema_kind, publisher.schema)
        except OptionError:
            return  # a schema that cannot be read says nothing
        error = never_matches(
            schema,
            record.query,
            namespaces=record.namespaces,
            default_namespace=record.default_namespace,
            dialect=record.dialect,
        )
        if error is None:
            return
        errors.append(error)
    raise errors[0]


class SchemaChecker:
    """The same of many; a shape of query that may match is asked about once, whatever its constants."""

    def __init__(self, publishers: Iterable[PublisherRecord]) -> None:
        self._publishers = list(publishers)
        self._streams = {one.stream for one in self._publishers}
        self._shapes = Shapes()
        self._fine: set[tuple[str | None, Scope, Template]] = set()

    def __call__(self, records: Sequence[SubscriptionRecord]) -> Problems:
        return problems_of(records, self._check) if self._streams else []

    def _check(self, record: SubscriptionRecord) -> None:
        if record.stream not in self._streams:
            return
        key = self._key(record)
        if key is None or key not in self._fine:
            check_against(self._publishers, record)
            self._fine.update([key] if key is not None else [])

    def _key(self, record: SubscriptionRecord) -> tuple[str | None, Scope, Template] | None:
        """What the answer depends on; None where that is the whole text."""
        if record.kind != "filter":
            return None
        scope = scope_of(record.namespaces or {}, record.default_namespace, record.dialect)
        template = self._shapes.split(record.query, scope)[0]
        return (record.stream, scope, template) if template.kept else None


@lru_cache(maxsize=16)
def _schema(kind: str, text: str) -> Schema:
    return read_schema(text.encode(), kind)
