"""Options for how transforms are evaluated, and for the schema of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from twigcast.cli.options import OneOf
from twigcast.transform.options import ON_INVALID, OPTIMIZE
from twigcast.transform.plan import SHARING

F = TypeVar("F", bound=Callable[..., Any])
NAMES = ("sharing", "optimize", "share_plans", "schema", "on_invalid")


def plan_options(command: F) -> F:
    """The command gets them as keyword arguments, by ``NAMES``; they are options of ``Engine`` too."""
    for option in reversed(
        (
            click.option(
                "--sharing",
                type=OneOf(SHARING),
                default="FWR",
                show_default=True,
                help="What of transforms is matched once for all: the paths of for, where and return clauses.",
            ),
            click.option(
                "--optimize",
                type=OneOf(OPTIMIZE),
                default="schema",
                show_default=True,
                help="What the plans of transforms are simplified by: nothing, the query, or the schema as well.",
            ),
            click.option(
                "--share-plans/--no-share-plans",
                default=True,
                show_default=True,
                help="Whether transforms share the rest of their plans. The answers are the same.",
            ),
            click.option("--schema", metavar="FILE", help="The messages' schema: a DTD (.dtd) or an XML Schema."),
            click.option(
                "--on-invalid",
                type=OneOf(ON_INVALID),
                default=ON_INVALID[0],
                show_default=True,
                help="An invalid message is matched as if there were no schema, rejected, or not looked for.",
            ),
        )
    ):
        command = option(command)
    return command
