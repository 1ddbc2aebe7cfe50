"""A subscription as it is given, before it is compiled, and its format as a JSON object.

The format is the same everywhere: in the files of ``match -s``, ``explain -s``, ``rules load`` and ``chunk -s``, in
``import`` and ``export``, and in the store. ``fields_of`` reads and checks an object, ``as_object`` makes one. A
command ignores the keys that it has no use for, such as the subscriber in ``match``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twigcast.common.text import shown, suggest
from twigcast.errors import OptionError, Span
from twigcast.units import duration_option, format_duration

SubscriptionId = str | int
STATES = ("active", "paused")
RESULTS = ("match", "nodes", "fragments")
"""Nothing more; the ids of the nodes it selects; these nodes as XML.

The id of a node is its place in document order: the document is 0, and elements, attributes (after their element),
text, comments and processing instructions count on from there; namespace declarations do not.

A fragment is well-formed on its own: an element with all namespaces that are in scope; the value of an attribute or
text, escaped; a comment or processing instruction as it is; the document without XML declaration and DTD.
"""

# Becomes the name of a folder, and part of a topic's.
_SUBSCRIBER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing query, and how it is read and answered."""

    id: SubscriptionId
    query: str
    namespaces: Mapping[str, str] | None = None
    default_namespace: str | None = None
    dialect: str = "w3c"
    """How a filter is read. ``tian``: a leading / or // in a predicate is relative to its node (SEMANTICS 1)."""
    result: str = "match"
    """What ``select`` gives for a match: one of ``RESULTS``."""
    deliver_empty: bool = False
    """For a transform: where nothing is bound, its outer element is delivered empty (SEMANTICS 15)."""
    stream: str | None = None
    """Only messages of this stream. An engine has one stream and does not look at it."""

    __repr__ = shown


def is_id(id: Any) -> bool:
    """Return whether a value can be the id of a subscription or message."""
    if isinstance(id, str):
        return id.isascii() or not any("\ud800" <= c <= "\udfff" for c in id)
    return isinstance(id, int) and not isinstance(id, bool) and -(2**63) <= id < 2**63


def fields_of(value: Any, number: int) -> dict[str, Any]:
    """Check a subscription as a JSON object, and return its fields without those that are null.

    ``number``, the number of the line, stands in for a missing id. ``max_delay`` becomes a number of milliseconds.
    """
    if not isinstance(value, dict):
        raise OptionError("bad-json", 'a subscription is an object such as {"id": 7, "query": "/a/b"}')
    if not value.keys() <= _KNOWN:
        unknown = next(key for key in value if key not in _KNOWN)
        raise OptionError("unknown-key", f"there is no key {unknown!r}", hint=suggest(unknown, KEYS))
    given = {key: of for key, of in value.items() if of is not None} if None in value.values() else value
    if "query" not in given:
        raise OptionError("bad-query", 'the key "query" is missing')
    given.setdefault("id", number)
    if "max_delay" in given:
        given["max_delay"] = delay(given["max_delay"])
    for key, of in given.items():
        CHECKS[key](of)
    return given


def parse_json(line: bytes) -> Any:
    """Return the JSON value on a line of a file, or None if it is blank. Raises OptionError, with the place."""
    text = decode_line(line).strip()
    try:
        return json.loads(text) if text else None
    except RecursionError:
        raise OptionError("bad-json", "nested too deeply") from None
    except json.JSONDecodeError as error:
        span = Span(error.pos, error.pos + 1)
        raise OptionError("bad-json", f"{error.msg} (column {error.pos + 1})", source=text, span=span) from None
    except ValueError as error:  # a number of more digits than Python reads
        raise OptionError("bad-json", str(error)) from None


def decode_line(line: bytes) -> str:
    """Return a line of a file as text, or raise an OptionError that says which byte is wrong."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise OptionError("bad-encoding", f"byte {error.start + 1} of the line is not UTF-8") from None


def as_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a subscription with these fields, without those that have their default."""
    found = {key: fields[key] for key in KEYS if key in fields and fields[key] != _DEFAULTS.get(key)}
    if "namespaces" in found:
        found["namespaces"] = dict(found["namespaces"])
        if not found["namespaces"]:
            del found["namespaces"]
    if "max_delay" in found:
        found["max_delay"] = format_duration(found["max_delay"] * 1_000)
    return found


def delay(value: Any) -> int:
    """Return ``max_delay`` in milliseconds."""
    return round(duration_option("max_delay", value) / 1_000)


def check_subscriber_id(id: Any) -> None:
    if not (isinstance(id, str) and _SUBSCRIBER.fullmatch(id)):
        text = f"{id!r} cannot be a subscriber's id"
        hint = "up to 128 letters, digits and . _ @ + -, of which the first is a letter or digit"
        raise OptionError("bad-subscriber", text, hint=hint)


def _check_id(id: Any) -> None:
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise OptionError("bad-id", f'"id" must be a string or a whole number, not {json.dumps(id)}')
    if isinstance(id, int) and not -(2**63) <= id < 2**63:
        raise OptionError("bad-id", f'"id" must fit into 64 bits: {id} does not')
    if not is_id(id):
        raise OptionError("bad-id", f'"id" must be text: {id!r} has half a surrogate pair')


def _check_query(value: Any) -> None:
    if not isinstance(value, str):
        raise OptionError("bad-query", '"query" must be a string')
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise OptionError("bad-query", '"query" has half of a surrogate pair, which is no character')


def _check_word(value: Any) -> None:
    """The compilers check which words there are."""
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
        hint = "up to 64 letters, digits and . _ -, of which the first is a letter or digit"
        raise OptionError("bad-stream", f"{value!r} cannot be the name of a stream", hint=hint)


def _check_max_delay(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError("bad-max-delay", "max_delay must be a number of milliseconds")


def _check_deliver_empty(value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionError("bad-deliver-empty", f'"deliver_empty" is true or false, not {json.dumps(value)}')


def _check_state(value: Any) -> None:
    if value not in STATES:
        raise OptionError("unknown-state", f"there is no state {value!r}", hint="it is active or paused")


def _check_reason(value: Any) -> None:
    # Errors that a reason quotes may have line ends. PostgreSQL cannot store NUL.
    if not isinstance(value, str) or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise OptionError("bad-reason", '"reason" must be a text: why the subscription was paused')


CHECKS: dict[str, Callable[[Any], None]] = {
    "id": _check_id,
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
    "reason": _check_reason,
}
"""The keys of the format, each with the check of its value; none of them needs a compiler."""
KEYS = tuple(CHECKS)
_KNOWN = frozenset(KEYS)
_DEFAULTS = {"kind": "filter", "dialect": "w3c", "result": "match", "deliver_empty": False, "state": "active"}


def check_query(query: object) -> None:
    """Raise OptionError if a query is not text."""
    if not isinstance(query, str):
        raise OptionError("bad-query", f"a query is a string, not {type(query).__name__}")


def subscriptions_of(subscriptions: object) -> list[Subscription]:
    """Return subscriptions as a list; raise OptionError if they are anything else."""
    hint = "twigcast.Subscription(id, query) makes one"
    if isinstance(subscriptions, (str, bytes)) or not isinstance(subscriptions, Iterable):
        text = f"subscriptions are an iterable of twigcast.Subscription, not {type(subscriptions).__name__}"
        raise OptionError("bad-subscription", text, hint=hint)
    found = list(subscriptions)
    for one in found:
        if not isinstance(one, Subscription):
            text = f"a subscription is a twigcast.Subscription, not {type(one).__name__}"
            raise OptionError("bad-subscription", text, hint=hint)
    return found
