"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from twigcast.common.removed import removed_error
from twigcast.common.text import suggest
from twigcast.errors import OptionError
from twigcast.lang.names import check_namespaces
from twigcast.limits import ON_INVALID, Limits
from twigcast.subscription import RESULTS
from twigcast.units import SECOND, parse_duration, parse_size

if TYPE_CHECKING:
    from twigcast.schema import Schema

F = TypeVar("F", bound=Callable[..., Any])


class OneOf(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A choice that says what was probably meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            self.fail(f"there is no {value!r}; {suggest(str(value), [str(c) for c in self.choices])}", param, ctx)
        return value


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A value that a function reads from a text. What it refuses is a mistake of the user."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; other values are defaults, and stay as they are."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(f"{error}, not {value!r}", param, ctx)
        except OptionError as error:
            self.fail(error.text + (f"; {error.hint}" if error.hint else ""), param, ctx)


def _namespace(text: str) -> tuple[str, str]:
    prefix, equals, uri = text.partition("=")
    if not (prefix and equals and uri):
        raise ValueError("must be of the form prefix=uri")
    check_namespaces({prefix: uri})
    return prefix, uri


def _schema(name: str) -> Schema:
    from twigcast.schema import read_schema

    return read_schema(name)


Namespace = Parsed("prefix=uri", _namespace)
Size = Parsed("number", parse_size)
"""A size in bytes, or a whole number, with K, M or G for powers of 1024."""
Duration = Parsed("duration", lambda text: parse_duration(text) / SECOND)
"""A duration, in seconds."""
SchemaFile = Parsed("file", _schema)
"""A DTD or an XML Schema."""


def namespace_options(command: F) -> F:
    """Add ``--ns``. The command gets ``namespaces``, a dictionary."""
    return click.option(
        "--ns",
        "namespaces",
        type=Namespace,
        multiple=True,
        callback=lambda ctx, param, value: dict(value),
        help="A namespace prefix for the queries. May be repeated.",
    )(command)


def result_option(command: F) -> F:
    """Add the option for what is told of a match."""
    return click.option(
        "--result",
        type=OneOf(RESULTS),
        default=RESULTS[0],
        show_default=True,
        help="What to tell of a match: nothing more, the ids of the selected nodes, or these nodes as XML.",
    )(command)


def format_option(*formats: str) -> Callable[[F], F]:
    """The first one where the output goes to a file or pipe, the second on a terminal."""
    return click.option(
        "--format",
        "format",
        type=OneOf(formats),
        default=lambda: formats[1] if sys.stdout.isatty() else formats[0],
        help=f"Output: {' or '.join(formats)}.  [default: {formats[1]} on a terminal, else {formats[0]}]",
    )


def schema_option(help: str) -> Callable[[F], F]:
    return click.option("--schema", type=SchemaFile, metavar="FILE", help=help)


def invalid_option(command: F) -> F:
    """Add the option that says what becomes of invalid messages."""
    return click.option(
        "--on-invalid",
        type=OneOf(ON_INVALID),
        default=ON_INVALID[0],
        show_default=True,
        help="Match an invalid message as without a schema (fallback), reject it, or do not look for it (trust).",
    )(command)


class GroupedCommand(click.Command):
    """A command whose help shows its options under headings, and that tells where removed options are."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By heading the names of options; the others come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        grouped = {name for names in self.groups.values() for name in names}
        every = [(param.name, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        shown = [(name, record) for name, record in every if record is not None]
        with formatter.section("Options"):
            formatter.write_dl([record for name, record in shown if name not in grouped])
        for heading, names in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl([record for name, record in shown if name in names])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and refuse options that an earlier version had."""
        for arg in args:
            name = arg.partition("=")[0]
            if name == "--":
                break
            known = any(name in param.opts for param in self.params)
            error = removed_error(f"twigcast {self.name}", name) if name.startswith("--") and not known else None
            if error is not None:
                raise error
        return super().parse_args(ctx, args)


def hidden_limit_options(command: F) -> F:
    """Add the options of ``limit_options`` without showing them in the help."""
    return limit_options(command, hidden=True)


def limit_options(command: F, *, hidden: bool = False) -> F:
    """Add an option per field of `Limits`; the command gets them as keyword arguments of the same names."""
    words = {
        "max_bytes": "Most bytes of a message",
        "max_depth": "Most elements open at one time",
        "max_attributes": "Most attributes of one element",
        "max_name": "Most bytes of a name",
        "max_expansion": "Most bytes that entities and attribute defaults may add",
        "max_amplification": "Most times its own size that a message may expand to",
        "max_entity_depth": "Most entities open inside each other",
        "max_result_nodes": "Most results that one subscription gets of a message; the rest is left out",
        "max_result_bytes": "Most bytes of results that one subscription gets of a message; the rest is left out",
        "max_message_results": "Most results that all subscriptions get of a message; the largest are cut first",
        "max_message_result_bytes": "Most bytes of results that all subscriptions get of a message; likewise",
        "max_query_steps": "Most steps that one query beyond tree patterns may take on a message",
        "max_query_bytes": "Most bytes of strings that such a query may make and compare",
    }
    for field in reversed(fields(Limits)):
        option = f"--{field.name.replace('_', '-')}"
        command = click.option(
            option, type=Size, metavar="N", hidden=hidden, help=f"{words[field.name]}.  [default: {field.default}]"
        )(command)
    return command


def take_limits(options: dict[str, Any]) -> Limits:
    """Return the limits among the options of a command, and remove them there."""
    return Limits(**take_given_limits(options))


def take_given_limits(options: dict[str, Any]) -> dict[str, int]:
    """Return the limits that were given among the options of a command, by name, and remove all of them there."""
    found = {field.name: options.pop(field.name) for field in fields(Limits)}
    given = {name: value for name, value in found.items() if value is not None}
    try:
        Limits(**given)
    except OptionError as error:
        raise click.UsageError(error.text) from error
    return given
