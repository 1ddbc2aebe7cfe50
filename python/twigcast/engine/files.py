"""Subscription files: one query per line (``.txt``), or one JSON object per line (``.jsonl``).

A file with bad lines is refused as a whole, and the error lists all of them, as a compiler does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twigcast.common.files import read_bytes
from twigcast.engine.engine import Engine
from twigcast.engine.results import check_result
from twigcast.errors import OptionError, QueryError, TwigcastError
from twigcast.lang.kinds import check_dialect_of, check_kind, kind_of
from twigcast.lang.unsatisfiable import NeverMatches
from twigcast.limits import Limits
from twigcast.subscription import Subscription, decode_line, fields_of, parse_json

_OWN = tuple(field.name for field in dataclasses.fields(Subscription))
# Beyond this many bad lines the file as a whole is the mistake.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """The subscriptions of a file in its order. Paused ones match nothing, so they are counted and left out."""

    name: str
    subscriptions: list[Subscription]
    lines: list[int]
    """The line of each subscription, from 1."""
    paused: int = 0


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
    """Read a file, ``-`` for stdin. Where the name does not tell, a first character ``{`` means JSON.

    In a ``.txt`` file blank lines and lines that start with ``#`` are skipped, and the id of a query is the number of
    its line. A ``.jsonl`` file has the format of ``twigcast.subscription``, as ``twigcast export`` writes it;
    ``result`` stands in where a line has none.
    """
    name = str(path)
    data = read_bytes(path)
    is_json = name.endswith((".jsonl", ".ndjson")) or (not name.endswith(".txt") and data.lstrip().startswith(b"{"))
    subscriptions: list[Subscription] = []
    lines: list[int] = []
    problems: list[tuple[int, TwigcastError]] = []
    first_line: dict[str | int, int] = {}
    paused = 0
    # Lines of bytes end with LF, CR LF or CR; those of a str also at characters that no editor takes for an end.
    for number, raw in enumerate(data.splitlines(), start=1):
        try:
            line = decode_line(raw).strip()
            if not line or (not is_json and line.startswith("#")):
                continue
            subscription, state = Subscription(number, line, result=result), "active"
            if is_json:
                subscription, state = _from_json(raw, number, result)
            earlier = first_line.setdefault(subscription.id, number)
            if earlier != number:
                raise OptionError("duplicate-id", f"the id {subscription.id!r} is that of line {earlier} already")
        except TwigcastError as error:
            problems.append((number, error))
        else:
            if state == "paused":
                paused += 1
                continue
            subscriptions.append(subscription)
            lines.append(number)
    if problems:
        raise SubscriptionFileError(name, problems)
    return SubscriptionFile(name, subscriptions, lines, paused)


def compile_file(
    file: SubscriptionFile,
    *,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> Engine:
    """Return an engine with the subscriptions of a file. ``options`` are those of ``Engine``."""
    engine = Engine(namespaces=namespaces, limits=limits, **options)
    try:
        engine.add_many(file.subscriptions)
    except (QueryError, OptionError):
        # Only now is it worth going line by line: to tell all that is wrong, not only what came first.
        single = Engine(namespaces=namespaces)
        check_each(file, lambda s: single.add_many([s]))
        raise
    return engine


def check_each(file: SubscriptionFile, check: Callable[[Subscription], object]) -> None:
    """Call ``check`` with each subscription; raise a SubscriptionFileError with all lines that it refuses."""
    problems: list[tuple[int, TwigcastError]] = []
    for s, line in zip(file.subscriptions, file.lines, strict=True):
        try:
            check(s)
        except (QueryError, OptionError) as error:
            problems.append((line, error))
    if problems:
        raise SubscriptionFileError(file.name, problems) from None


def never_matching(
    file: SubscriptionFile, namespaces: Mapping[str, str] | None = None
) -> Iterator[tuple[int, QueryError]]:
    """Yield the lines of a file whose queries no message can match, with the reason. The queries must be correct."""
    never = NeverMatches()
    for s, line in zip(file.subscriptions, file.lines, strict=True):
        scope = {**(namespaces or {}), **(s.namespaces or {})}
        if "$" in s.query and kind_of(s.query) == "filter":
            continue  # compares with reference data, which may be anything
        error = never(s.query, scope, s.default_namespace, dialect=s.dialect, deliver_empty=s.deliver_empty)
        if error is not None:
            yield line, error


def _from_json(line: bytes, number: int, result: str) -> tuple[Subscription, str]:
    """Return the subscription of a line, and its state."""
    fields = fields_of(parse_json(line), number)
    query = fields["query"]
    check_dialect_of(query, fields.get("dialect", "w3c"))
    if "kind" in fields:
        check_kind(fields["kind"], query)
    check_result(fields.get("result", result))
    own = {key: fields[key] for key in _OWN if key in fields}
    return Subscription(**{"result": result, **own}), fields.get("state", "active")
