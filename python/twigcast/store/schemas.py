"""What the schemas of a stream's publishers say of a subscription: that it can never match."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from twigcast.errors import OptionError
from twigcast.schema import Schema, dtd_schema, xsd_schema
from twigcast.schema.check import never_matches
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


@lru_cache(maxsize=16)
def _schema(kind: str, text: str) -> Schema:
    return dtd_schema(text.encode()) if kind == "dtd" else xsd_schema(text.encode())
