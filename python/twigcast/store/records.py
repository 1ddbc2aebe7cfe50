"""What a store holds, as Python objects, rows and JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from twigcast.engine import Subscription
from twigcast.errors import OptionError
from twigcast.lang.kinds import kind_of
from twigcast.subscription import CHECKS, as_object, fields_of

_OPTIONS = ("default_namespace", "dialect", "result", "stream", "max_delay", "deliver_empty")
_LONGEST_ID = 255
_REQUIRED = ("id", "query", "kind", "dialect", "result", "state")


class SubscriptionRecord(NamedTuple):
    """A tuple, because a million of them are made when a store is loaded; a frozen data class takes twice as long."""

    id: str
    query: str
    subscriber: str | None = None
    kind: str = "filter"
    namespaces: Mapping[str, str] | None = None
    default_namespace: str | None = None
    dialect: str = "w3c"
    result: str = "match"
    stream: str | None = None
    """Only messages of this stream; of every stream if there is none."""
    max_delay: int | None = None
    """Milliseconds: matches are collected into one delivery for up to so long. None: each at once."""
    state: str = "active"
    version: int = 0
    """The store's version that made it what it is."""
    deliver_empty: bool = False
    """Of a transform: its empty outer element is delivered where nothing is bound."""
    reason: str | None = None
    """Why it was paused, if it kept failing."""

    def to_subscription(self) -> Subscription:
        """Return the subscription as an engine takes it."""
        return Subscription(
            self.id,
            self.query,
            self.namespaces,
            self.default_namespace,
            # Version f693179 accepted a dialect for other kinds, and ignored it.
            dialect=self.dialect if self.kind == "filter" else "w3c",
            result=self.result,
            deliver_empty=self.deliver_empty,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the subscription as a JSON object; ``version`` belongs to the store and is left out."""
        return as_object(self._asdict())

    def options(self) -> dict[str, Any]:
        """Return the options that differ from the defaults."""
        defaults = self._field_defaults
        return {name: value for name in _OPTIONS if (value := getattr(self, name)) != defaults[name]}

    def row(self) -> tuple[str, str | None, str, str, str | None, str | None, str, str | None]:
        """Return the values for the columns of ``tables.subscriptions``, but for the version."""
        options = self.options()
        return (
            self.id,
            self.subscriber,
            self.query,
            self.kind,
            json.dumps(dict(self.namespaces), sort_keys=True) if self.namespaces else None,
            json.dumps(options, sort_keys=True) if options else None,
            self.state,
            self.reason,
        )


@dataclass(frozen=True, slots=True)
class SubscriberRecord:
    id: str
    name: str
    created: datetime
    targets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """By kind of sink: ``{"webhook": {"url": …, "secret": …}, "kafka": {"topic": …}}``. Not in ``repr``: secrets."""

    def shown_targets(self) -> dict[str, dict[str, str]]:
        """For people: secrets are told to be there, no more."""
        hidden = {"secret": "(set)"}
        return {kind: {key: hidden.get(key, value) for key, value in of.items()} for kind, of in self.targets.items()}


@dataclass(frozen=True, slots=True)
class PublisherRecord:
    id: str
    stream: str
    schema: str = field(repr=False)
    """The text of the schema itself."""
    schema_kind: str
    on_invalid: str = "fallback"


@dataclass(frozen=True, slots=True)
class Changes:
    """How to get from one version to ``version``: take ``removed`` out, then put ``added`` in.

    A subscription that was replaced is in both. One that came and went in between is in neither.
    """

    version: int
    added: list[SubscriptionRecord]
    removed: list[str]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def from_row(row: Sequence[Any]) -> SubscriptionRecord:
    """From all columns of ``tables.subscriptions``, in order."""
    id, subscriber, query, kind, namespaces, options, state, version, reason = row
    if namespaces is None and options is None:
        return SubscriptionRecord(id, query, subscriber, kind, state=state, version=version, reason=reason)
    given = json.loads(options) if options else {}
    return SubscriptionRecord(
        id,
        query,
        subscriber,
        kind,
        json.loads(namespaces) if namespaces else None,
        **{key: given[key] for key in _OPTIONS if key in given},
        state=state,
        version=version,
        reason=reason,
    )


def from_json(value: Any, number: int) -> SubscriptionRecord:
    """Return the subscription of a line of a file; ``number`` stands in for a missing id."""
    given = fields_of(value, number)
    given["id"] = str(given["id"])
    check_id(given["id"])
    given.setdefault("kind", kind_of(given["query"]))
    return _with_reason(SubscriptionRecord(**given))


def check(record: SubscriptionRecord) -> SubscriptionRecord:
    """Check everything about a subscription that needs no compiler, and return it. Raises OptionError."""
    check_id(record.id)
    for key, check_value in CHECKS.items():
        value = getattr(record, key)
        if value is not None or key in _REQUIRED:
            check_value(value)
    return _with_reason(record)


def _with_reason(record: SubscriptionRecord) -> SubscriptionRecord:
    """Check that only a paused subscription has a reason, and return it."""
    if record.reason is not None and record.state != "paused":
        text = f'"reason" says why a subscription was paused, and {record.id!r} is {record.state}'
        raise OptionError("bad-reason", text, hint='leave it out, or set "state" to "paused"')
    return record


def check_id(id: Any) -> None:
    """Check an id as the store can keep it. Raises OptionError."""
    if not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID and id.isprintable()):
        shown = repr(id)[:80]
        raise OptionError("bad-id", f"a subscription's id is 1 to {_LONGEST_ID} printable characters, not {shown}")
