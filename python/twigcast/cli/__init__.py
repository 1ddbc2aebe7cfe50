"""The command line. Commands are imported when they are called, so that ``twigcast --help`` answers at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword

import click

from twigcast.errors import TwigcastError

# command -> its line in --help; the function has its name, the module is twigcast.cli.<command> or in MODULES.
COMMANDS = {
    "match": "Match messages against subscriptions.",
    "chunk": "Match and split documents that are too large for memory.",
    "validate": "Check that messages are well-formed.",
    "explain": "Show how a query is evaluated.",
    "test": "Tell whether a query matches messages, and if not, why.",
    "generate": "Generate documents and queries from a DTD.",
    "init": "Write a configuration to start from.",
    "subscriber": "Add, list, change and remove subscribers.",
    "publisher": "Add, list and remove publishers and their schemas.",
    "subscribe": "Store a subscription.",
    "unsubscribe": "Remove subscriptions.",
    "pause": "Let subscriptions match nothing until resumed.",
    "resume": "Let paused subscriptions match again.",
    "subscriptions": "List subscriptions.",
    "import": "Store subscriptions from a file.",
    "export": "Write all subscriptions as JSON Lines.",
    "rules": "Keep subscriptions in a database, for the relational engine.",
    "run": "Run a pipeline, or the messages of a folder, on Spark.",
    "status": "Show what a pipeline is doing.",
    "replay": "Run archived messages through a pipeline again.",
    "dead": "List, show and redrive what could not be read or delivered.",
    "bench": "Run the experiments of the papers again.",
    "demo": "Run a whole pipeline on generated messages and subscriptions.",
}

MODULES = {
    "unsubscribe": "twigcast.cli.subscribe",
    "pause": "twigcast.cli.subscribe",
    "resume": "twigcast.cli.subscribe",
    "subscriptions": "twigcast.cli.subscribe",
    "import": "twigcast.cli.transfer",
    "export": "twigcast.cli.transfer",
    "bench": "twigcast.papers.bench",
}

INTERRUPTED = 130
BROKEN_PIPE = 141


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(MODULES.get(name, f"twigcast.cli.{name}"))
        command = getattr(module, f"{name}_" if iskeyword(name) else name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from twigcast.common.text import suggest

            ctx.fail(f"no command {args[0]!r}; {suggest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from twigcast._kernel import __version__

        click.echo(f"twigcast {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    epilog="""\b
Examples:
  twigcast match -s subscriptions.txt messages/
  twigcast COMMAND --help
""",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def cli() -> None:
    """Twigcast: standing queries over a stream of XML messages."""


def main() -> None:
    """Run the program. Exit status: as each command says; 2 for any mistake, 130 after Ctrl-C."""
    sys.exit(execute())


class Interrupted(Exception):
    """The user pressed Ctrl-C, and whatever came of that has ended."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn everything that an interrupt leads to into Interrupted.

    An interrupt may come while a module is imported or a value is deleted: libraries then raise errors of their own, or
    Python prints a traceback and goes on.
    """
    pressed = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def ignore(unraisable: sys.UnraisableHookArgs) -> None:
        if not pressed:
            report(unraisable)

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    report = sys.unraisablehook
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = ignore
    try:
        yield
    except BaseException as error:
        if pressed or isinstance(error, KeyboardInterrupt):
            raise Interrupted from None
        raise
    finally:
        if ours and signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = report


def execute() -> int:
    """Run the command line and return the exit status."""
    if sys.stdout is None:  # as `twigcast … >&-` leaves it
        click.echo("error: stdout is closed", err=True)
        return 2
    try:
        with _interruptible():
            result = cli.main(prog_name="twigcast", standalone_mode=False)
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except (Interrupted, click.Abort):
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return 2
    except TwigcastError as error:
        click.echo(str(error), err=True)
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more when it flushes at exit.
        _drop_output()
        return BROKEN_PIPE
    except (OSError, UnicodeError, OverflowError) as error:
        # A full disk, a folder where a file should be, a name that is not text: a mistake of the user, not of ours.
        click.echo(f"error: {error}", err=True)
        _drop_output()
        return 2


def _drop_output() -> None:
    """Drop what could not be written, so that Python does not try again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
