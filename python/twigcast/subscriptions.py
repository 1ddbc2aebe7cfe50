"""Subscription files: one query per line (``.txt``), or one JSON object per line (``.jsonl``).

A bad line never gets in, and all bad lines are told at once, as a compiler does.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twigcast.engine import Engine, Subscription
from twigcast.errors import OptionError, QueryError, Span, TwigcastError
from twigcast.ids import is_id
from twigcast.limits import Limits
from twigcast.results import check_result

KEYS = ("id", "query", "namespaces", "default_namespace", "result", "deliver_empty", "stream")
# Beyond this many bad lines the file as a whole is the mistake.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """What a file holds, in its order; ``lines`` gives the line each subscription stands on, from 1."""

    name: str
    subscriptions: list[Subscription]
    lines: list[int]


class SubscriptionFileError(TwigcastError):
    """A file with lines that cannot be accepted; ``problems`` has (line, error) for each of them."""

    def __init__(self, name: str, problems: list[tuple[int, TwigcastError]], shown: int = SHOWN) -> None:
        super().__init__("bad-subscriptions", f"{name}: {len(problems)} bad lines")
        self.name = name
        self.problems = problems
        self.shown = shown

    def __str__(self) -> str:
        shown = [f"{self.name}:{line}: {error}" for line, error in self.problems[: self.shown]]
        if len(self.problems) > self.shown:
            shown.append(f"{self.name}: … and {len(self.problems) - self.shown:,} more bad lines")
        return "\n".join(shown)


def read_subscriptions(path: str | Path, *, result: str = "match") -> SubscriptionFile:
    """Reads a file, ``-`` for stdin. Where the name does not tell, a first character ``{`` means JSON.

    In a ``.txt`` file blank lines and lines that start with ``#`` are skipped; an id is always the line's number in the
    file. In a ``.jsonl`` file the line's number stands in where there is no ``id``, and ``result`` where there is none.
    """
    name = str(path)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(path).read_bytes()
    except OSError as error:
        raise OptionError("unreadable", f"{name}: {error.strerror}") from error
    data = data.removeprefix(b"\xef\xbb\xbf")
    is_json = name.endswith((".jsonl", ".ndjson")) or (not name.endswith(".txt") and data.lstrip().startswith(b"{"))
    subscriptions: list[Subscription] = []
    lines: list[int] = []
    problems: list[tuple[int, TwigcastError]] = []
    first_line: dict[str | int, int] = {}
    # Lines of bytes end with LF, CR LF or CR; those of a str also at characters that no editor takes for an end.
    for number, raw in enumerate(data.splitlines(), start=1):
        try:
            line = _decode(raw).strip()
            if not line or (not is_json and line.startswith("#")):
                continue
            subscription = _from_json(line, number, result) if is_json else Subscription(number, line, result=result)
            earlier = first_line.setdefault(subscription.id, number)
            if earlier != number:
                raise OptionError("duplicate-id", f"the id {subscription.id!r} is that of line {earlier} already")
        except TwigcastError as error:
            problems.append((number, error))
        else:
            subscriptions.append(subscription)
            lines.append(number)
    if problems:
        raise SubscriptionFileError(name, problems)
    return SubscriptionFile(name, subscriptions, lines)


def load_engine(
    path: str | Path,
    *,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    mode: str = "trie",
    predicates: str = "shared",
) -> Engine:
    """The subscriptions of a file, compiled; numbered in the order of the file."""
    file = read_subscriptions(path)
    return compile_file(file, namespaces=namespaces, limits=limits, mode=mode, predicates=predicates)


def compile_file(
    file: SubscriptionFile,
    *,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    mode: str = "trie",
    predicates: str = "shared",
    **plans: Any,
) -> Engine:
    engine = Engine(namespaces=namespaces, limits=limits, mode=mode, predicates=predicates, **plans)
    try:
        engine.add_many(file.subscriptions)
    except (QueryError, OptionError):
        # Only now is it worth going line by line: to tell all that is wrong, not only what came first.
        problems = _problems(file, namespaces)
        if not problems:
            raise
        raise SubscriptionFileError(file.name, problems) from None
    return engine


def _problems(file: SubscriptionFile, namespaces: Mapping[str, str] | None) -> list[tuple[int, TwigcastError]]:
    engine = Engine(namespaces=namespaces)
    problems: list[tuple[int, TwigcastError]] = []
    for subscription, line in zip(file.subscriptions, file.lines, strict=True):
        try:
            engine.add_many([subscription])
        except (QueryError, OptionError) as error:
            problems.append((line, error))
    return problems


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise OptionError("bad-encoding", f"byte {error.start + 1} of the line is not UTF-8") from None


def _from_json(line: str, number: int, result: str) -> Subscription:
    try:
        value = json.loads(line)
    except ValueError as error:
        at = getattr(error, "pos", 0)
        text = getattr(error, "msg", str(error))
        raise OptionError("bad-json", f"{text} (column {at + 1})", source=line, span=Span(at, at + 1)) from None
    except RecursionError:
        raise OptionError("bad-json", "nested too deeply") from None
    if not isinstance(value, dict):
        raise OptionError("bad-json", 'a subscription is an object such as {"id": 7, "query": "/a/b"}')
    unknown = [key for key in value if key not in KEYS]
    if unknown:
        raise OptionError("unknown-key", f"there is no key {unknown[0]!r}", hint=suggest(unknown[0], KEYS))
    query = value.get("query")
    if not isinstance(query, str):
        raise OptionError("bad-query", 'the key "query" is missing' if query is None else '"query" must be a string')
    id = value.get("id", number)
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise OptionError("bad-id", f'"id" must be a string or a whole number, not {json.dumps(id)}')
    if isinstance(id, int) and not -(2**63) <= id < 2**63:
        raise OptionError("bad-id", f'"id" must fit into 64 bits: {id} does not')
    if not is_id(id):
        raise OptionError("bad-id", f'"id" must be text: {id!r} has half a surrogate pair')
    result = value.get("result", result)
    check_result(result)
    stream = value.get("stream")
    if stream is not None and not (isinstance(stream, str) and stream):
        raise OptionError("bad-stream", '"stream" must be the name of a stream')
    return Subscription(
        id,
        query,
        _namespaces(value.get("namespaces")),
        _default_namespace(value),
        result=result,
        deliver_empty=_flag(value, "deliver_empty"),
        stream=stream,
    )


def _flag(value: dict[str, Any], key: str) -> bool:
    flag = value.get(key)
    if flag is not None and not isinstance(flag, bool):
        raise OptionError(f"bad-{key.replace('_', '-')}", f'"{key}" is true or false, not {json.dumps(flag)}')
    return bool(flag)


def _namespaces(value: Any) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(uri, str) for uri in value.values()):
        raise OptionError("bad-namespaces", '"namespaces" must map prefixes to URIs: {"p": "http://…"}')
    return value


def _default_namespace(value: dict[str, Any]) -> str | None:
    uri = value.get("default_namespace")
    if uri is not None and not isinstance(uri, str):
        raise OptionError("bad-namespaces", '"default_namespace" must be a URI')
    return uri


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint for a mistyped word: the nearest one known, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
