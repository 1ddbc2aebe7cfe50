"""Publishers: their schemas can be read, and what these say of a subscription: that it can never match."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from twigcast.errors import OptionError, TwigcastError
from twigcast.lang.shape import Scope, Shapes, Template, scope_of
from twigcast.limits import ON_INVALID
from twigcast.schema import Schema, read_schema
from twigcast.schema.check import never_matches
from twigcast.store.checks import Problems, problems_of
from twigcast.store.records import PublisherRecord, SubscriptionRecord
from twigcast.subscription import CHECKS, check_subscriber_id

KINDS = ("dtd", "xsd")


def check_publisher(publisher: PublisherRecord) -> None:
    """Raises an OptionError."""
    try:
        check_subscriber_id(publisher.id)
    except OptionError as error:
        raise OptionError("bad-publisher", f"{publisher.id!r} cannot be a publisher's id", hint=error.hint) from None
    CHECKS["stream"](publisher.stream)
    if publisher.schema_kind not in KINDS:
        raise OptionError("bad-schema-kind", f"there is no schema kind {publisher.schema_kind!r}; it is dtd or xsd")
    if publisher.on_invalid not in ON_INVALID:
        text = f"there is no on_invalid {publisher.on_invalid!r}; it is reject, fallback or trust"
        raise OptionError("bad-on-invalid", text)
    _check_schema(publisher)


def _check_schema(publisher: PublisherRecord) -> None:
    # Alone in a folder, as a worker will find it: what it includes from other files is not there.
    with tempfile.TemporaryDirectory(prefix="twigcast-schema-") as folder:
        path = Path(folder) / f"schema.{publisher.schema_kind}"
        path.write_text(publisher.schema, encoding="utf-8")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is not there; it is an error next
                schema = read_schema(path, publisher.schema_kind)
            schema.prepare()
        except TwigcastError as error:
            said = error.text
            hint = "a schema in the store is one text: write what it includes from other files into it"
            text = said.replace(str(path), "the schema").replace(f"{folder}/", "")
            raise OptionError(error.code, text, hint=hint if "nclu" in said or "mport" in said else None) from None


# -- what schemas say of subscriptions


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
