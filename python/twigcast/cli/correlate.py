"""``twigcast match`` over streams: messages in event time, and correlations among the subscriptions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twigcast.cli.inputs import Message, decompressed, expand, printable, read, readable
from twigcast.cli.matches import output_of
from twigcast.cli.options import Duration
from twigcast.cli.output import Report
from twigcast.engine.files import SubscriptionFile, check_each
from twigcast.engine.shares import measure
from twigcast.errors import MessageError, QueryError
from twigcast.lang.xscl import is_correlation
from twigcast.limits import Limits
from twigcast.subscription import Subscription
from twigcast.units import SECOND, parse_time, to_datetime

if TYPE_CHECKING:
    from twigcast.broker import Broker, Failure, Read
    from twigcast.engine import TextPath

F = TypeVar("F", bound=Callable[..., Any])

HELD = 1 << 26
"""Bytes of matches and results, roughly, that are held until their messages are published. Further messages are read
again then."""


def correlation_options(command: F) -> F:
    for option in (
        click.option(
            "--lateness",
            type=Duration,
            metavar="TIME",
            help="Take messages in the order given, and leave those out of correlations that are late by more.",
        ),
        click.option(
            "--time",
            metavar="PATH",
            help="Where a message tells its time: a number, or a date and time. Without it, the n-th one happens at n.",
        ),
        click.option(
            "--stream",
            multiple=True,
            metavar="NAME[=MESSAGES]",
            help="The stream that the messages are; or, several times, streams with their folders or files.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Streams:
    """Messages by stream, as the command line has them."""

    sources: tuple[tuple[str, str], ...]
    """(stream, message or folder)"""
    time: str | None
    lateness: float | None
    are_asked_for: bool

    @classmethod
    def of(
        cls,
        ctx: click.Context,
        messages: tuple[str, ...],
        streams: tuple[str, ...],
        time: str | None,
        lateness: float | None,
    ) -> Streams:
        own = [name for name in streams if "=" not in name]
        if len(own) > 1:
            raise click.UsageError("name a folder for each of several streams: --stream S=DIR --stream T=DIR")
        sources = [(own[0] if own else "", message) for message in messages]
        for text in streams:
            name, equals, source = text.partition("=")
            if not name or (equals and not source):
                raise click.UsageError(f"--stream is NAME or NAME=MESSAGES, not {text!r}")
            if equals:
                sources.append((name, source))
        if not sources:
            raise click.MissingParameter(ctx=ctx, param=next(p for p in ctx.command.params if p.name == "messages"))
        return cls(tuple(sources), time, lateness, bool(streams) or time is not None or lateness is not None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(message for _, message in self.sources)


def reads_streams(file: SubscriptionFile) -> bool:
    return any(s.stream is not None or is_correlation(s.query) for s in file.subscriptions)


def compile_broker(file: SubscriptionFile, streams: Streams, *, limits: Limits, **options: Any) -> Broker:
    """Return a broker with the subscriptions of a file, or raise a SubscriptionFileError with all bad lines."""
    from twigcast.broker import Broker

    broker = Broker(lateness=streams.lateness, limits=limits, pause_after=0, **options)

    def subscribe(s: Subscription) -> None:
        options = {field.name: getattr(s, field.name) for field in fields(s)}
        if is_correlation(s.query):  # the option --result is for those that can have one
            options["result"] = "match"
        broker.subscribe(**options, allow_never=True)  # the command warns of them

    check_each(file, subscribe)
    return broker


@dataclass(frozen=True, slots=True)
class _Timed:
    stream: str
    time: int
    message: Message
    read: Read | None = None
    """What was found in the message when it was read for its time; None if that was too much to be held."""


class _Clock:
    """Reads the times of messages, and what the broker finds in them in the same go."""

    def __init__(self, path: str | None, broker: Broker) -> None:
        self._count = 0
        self._held = 0
        self._broker = broker
        self._path: TextPath | None = None
        if path is not None:
            from twigcast.engine import TextPath

            self._path = TextPath(path, tuple(broker.engine.namespaces.items()))
            try:
                self._path.expression  # noqa: B018 - raises if it is none
            except QueryError as error:
                error.hint = error.hint or "--time is a path, such as '/*/@t'"
                raise

    def read(self, message: Message, stream: str) -> _Timed | str:
        """Return the message with its time, or why it has none. Raises MessageError."""
        self._count += 1
        if self._path is None:
            return _Timed(stream, self._count * SECOND, message)
        read = self._broker.read(message.data, stream, self._path)
        if read.text is None:
            return f"there is nothing at {self._path.query}"
        text = read.text.decode()
        time = parse_time(text)
        if time is None:
            return f"{text[:100]!r} is not a time"
        size = _size(read)
        if self._held + size > HELD:
            return _Timed(stream, time, message)
        self._held += size
        return _Timed(stream, time, message, read)


def _size(read: Read) -> int:
    """Return how many bytes the matches and results of a message take, roughly."""
    size = 8 * len(read.ids)
    for result in read.results.values():
        size += 32 * len(result[0] or ()) + 64 + measure(result)[1]
    return size


def match_streams(broker: Broker, file: SubscriptionFile, streams: Streams, format: str) -> int:
    """Publish the messages of streams in event time and print what they match; return the exit status."""
    from twigcast.correlate.default import StateWarning

    output = output_of(format, file)
    places = {s.id: place for place, s in enumerate(file.subscriptions)}
    timed = list(_read(streams, _Clock(streams.time, broker), broker.engine.limits.max_bytes, output))
    if streams.lateness is None:
        timed.sort(key=lambda one: one.time)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StateWarning)
        for one in timed:
            name = one.message.name
            failures: list[Failure] = []
            try:
                time = to_datetime(one.time)
                found = broker.publish(
                    one.message.data, id=name, time=time, stream=one.stream, failures=failures, read=one.read
                )
            except MessageError as error:
                output.refused(name, error)
                continue
            # those that name the stream and those that do not come one after the other
            own = sum(1 for _ in takewhile(lambda match: match.messages is None, found))
            for match in sorted(found[:own], key=lambda match: places[match.subscription]) + found[own:]:
                output.add(match)
            for failure in failures:
                output.failed(name, failure.id, failure.error.code, failure.error.text)
    status = output.finish()
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)
    late = broker.correlations.stats()["late"]
    if late:
        click.echo(f"warning: {late:,} messages were late, and joined with nothing", err=True)
    return status


def _read(streams: Streams, clock: _Clock, most: int, report: Report) -> Iterator[_Timed]:
    for stream, source in streams.sources:
        for message in readable(decompressed(read(expand([source])), most), report.unreadable):
            try:
                timed = clock.read(message, stream)
            except MessageError as error:
                report.refused(message.name, error)
                continue
            if isinstance(timed, str):
                report.say(f"{printable(message.name)}: no-time: {timed}")
            else:
                yield timed
