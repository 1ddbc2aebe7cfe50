"""What a store holds, as Python objects, rows and JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from twigcast.durations import WORDS, duration_text, milliseconds
from twigcast.engine import Subscription
from twigcast.errors import OptionError
from twigcast.lang.flwr import is_transform
from twigcast.lang.xscl import is_correlation
from twigcast.subscriptions import suggest

STATES = ("active", "paused")
_OPTIONS = ("default_namespace", "dialect", "result", "stream", "max_delay", "deliver_empty")
_LONGEST_ID = 255
# Becomes the name of a folder, and part of a topic's.
_SUBSCRIBER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


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

    def to_subscription(self) -> Subscription:
        return Subscription(
            self.id,
            self.query,
            self.namespaces,
            self.default_namespace,
            dialect=self.dialect,
            result=self.result,
            deliver_empty=self.deliver_empty,
        )

    def to_json(self) -> dict[str, Any]:
        """Without what has its default; ``version`` belongs to the store and is left out."""
        shown: dict[str, Any] = {"id": self.id}
        if self.subscriber is not None:
            shown["subscriber"] = self.subscriber
        shown["query"] = self.query
        if self.kind != "filter":
            shown["kind"] = self.kind
        if self.namespaces:
            shown["namespaces"] = dict(self.namespaces)
        options = self.options()
        if options:
            if "max_delay" in options:
                options["max_delay"] = duration_text(options["max_delay"])
            shown.update(options)
        if self.state != "active":
            shown["state"] = self.state
        return shown

    def options(self) -> dict[str, Any]:
        """What differs from the defaults."""
        found: dict[str, Any] = {}
        if self.default_namespace is not None:
            found["default_namespace"] = self.default_namespace
        if self.dialect != "w3c":
            found["dialect"] = self.dialect
        if self.result != "match":
            found["result"] = self.result
        if self.stream is not None:
            found["stream"] = self.stream
        if self.max_delay is not None:
            found["max_delay"] = self.max_delay
        if self.deliver_empty:
            found["deliver_empty"] = True
        return found

    def row(self) -> tuple[str, str | None, str, str, str | None, str | None, str]:
        """For the columns of ``tables.subscriptions``, but for the version."""
        options = self.options()
        return (
            self.id,
            self.subscriber,
            self.query,
            self.kind,
            json.dumps(dict(self.namespaces), sort_keys=True) if self.namespaces else None,
            json.dumps(options, sort_keys=True) if options else None,
            self.state,
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
    id, subscriber, query, kind, namespaces, options, state, version = row
    if namespaces is None and options is None:
        return SubscriptionRecord(id, query, subscriber, kind, state=state, version=version)
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
    )


def from_json(value: Any, number: int) -> SubscriptionRecord:
    """A line of a file; ``number`` stands in where there is no id."""
    if not isinstance(value, dict):
        raise OptionError("bad-json", 'a subscription is an object such as {"id": "a7", "query": "/a/b"}')
    if not value.keys() <= _KNOWN:
        unknown = next(key for key in value if key not in KEYS)
        raise OptionError("unknown-key", f"there is no key {unknown!r}", hint=suggest(unknown, KEYS))
    # null is the same as not there
    given = {key: of for key, of in value.items() if of is not None} if None in value.values() else value
    if "query" not in given:
        raise OptionError("bad-query", 'the key "query" is missing')
    id = given.setdefault("id", number)
    if isinstance(id, int) and not isinstance(id, bool):
        given["id"] = str(id)
    if "max_delay" in given:
        given["max_delay"] = delay(given["max_delay"])
    for key, of in given.items():
        CHECKS[key](of)
    given.setdefault("kind", kind_of(given["query"]))
    return SubscriptionRecord(**given)


def kind_of(query: str) -> str:
    """What a query is, by its looks."""
    if is_transform(query):
        return "transform"
    return "correlate" if is_correlation(query) else "filter"


def delay(value: Any) -> int:
    try:
        return milliseconds(value)
    except ValueError:
        raise OptionError("bad-max-delay", f"max_delay must be {WORDS}") from None


def check(record: SubscriptionRecord) -> SubscriptionRecord:
    """Everything about a subscription that needs no compiler. Raises OptionError."""
    for key, check_value in CHECKS.items():
        value = getattr(record, key)
        if value is not None or key in _REQUIRED:
            check_value(value)
    return record


def check_id(id: Any) -> None:
    if not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID and id.isprintable()):
        shown = repr(id)[:80]
        raise OptionError("bad-id", f"a subscription's id is 1 to {_LONGEST_ID} printable characters, not {shown}")


def check_subscriber_id(id: Any) -> None:
    if not (isinstance(id, str) and _SUBSCRIBER.fullmatch(id)):
        text = f"{id!r} cannot be a subscriber's id"
        hint = "up to 128 letters, digits and . _ @ + -, of which the first is a letter or digit"
        raise OptionError("bad-subscriber", text, hint=hint)


def _check_query(value: Any) -> None:
    if not isinstance(value, str):
        raise OptionError("bad-query", '"query" must be a string')
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise OptionError("bad-query", '"query" has half of a surrogate pair, which is no character')


def _check_word(value: Any) -> None:
    """What it may be is told by the checks of queries."""
    if not isinstance(value, str):
        raise OptionError("bad-option", '"kind", "dialect" and "result" are strings')


def _check_namespaces(value: Any) -> None:
    if not (isinstance(value, Mapping) and all(_is_text(x) for pair in value.items() for x in pair)):
        raise OptionError("bad-namespaces", '"namespaces" must map prefixes to URIs: {"p": "http://…"}')


def _check_default_namespace(value: Any) -> None:
    if not _is_text(value):
        raise OptionError("bad-namespaces", '"default_namespace" must be a URI')


def _is_text(value: Any) -> bool:
    # isprintable: neither NUL, which PostgreSQL cannot store, nor half of a surrogate pair
    return isinstance(value, str) and value.isprintable()


def _check_stream(value: Any) -> None:
    if not (isinstance(value, str) and _STREAM.fullmatch(value)):
        raise OptionError("bad-stream", '"stream" must be the name of a stream')


def _check_max_delay(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError("bad-max-delay", "max_delay must be a number of milliseconds")


def _check_deliver_empty(value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionError("bad-deliver-empty", f'"deliver_empty" is true or false, not {value!r}')


def _check_state(value: Any) -> None:
    if value not in STATES:
        raise OptionError("unknown-state", f"there is no state {value!r}", hint="it is active or paused")


CHECKS: dict[str, Callable[[Any], None]] = {
    "id": check_id,
    "subscriber": check_subscriber_id,
    "query": _check_query,
    "kind": _check_word,
    "namespaces": _check_namespaces,
    "default_namespace": _check_default_namespace,
    "dialect": _check_word,
    "result": _check_word,
    "stream": _check_stream,
    "max_delay": _check_max_delay,
    "deliver_empty": _check_deliver_empty,
    "state": _check_state,
}
KEYS = tuple(CHECKS)
"""Of a subscription as a JSON object."""
_KNOWN = frozenset(KEYS)
_REQUIRED = ("id", "query", "kind", "dialect", "result", "state")
