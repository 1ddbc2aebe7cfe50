"""Which configuration, and which subscription store, a command works with.

Every command takes the configuration as ``-c FILE`` (``--config FILE``); without it, it uses ``pipeline.toml`` of the
current folder. ``run``, ``status`` and ``replay`` also take it as an argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from twigcast.store import Store

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_CONFIG = Path("pipeline.toml")
# The same as in twigcast.store.urls, whose import would load the database library for --help.
DEFAULT_STORE = "sqlite:///twigcast.db"
STORE_VARIABLE = "TWIGCAST_STORE"
_CONFIG = "twigcast.config"


def config_option(command: F) -> F:
    """Add ``-c FILE``. The command gets the parameter ``config``, a path."""
    return _config_option(default=DEFAULT_CONFIG, show_default=True, help="The pipeline's configuration.")(command)


def config_argument(command: F) -> F:
    """Add ``-c FILE`` and an argument with the same meaning. The command gets ``config``, a path or None."""
    argument = click.argument(
        "file",
        required=False,
        metavar="[FILE]",
        type=click.Path(path_type=Path),
        expose_value=False,
        is_eager=True,  # before -c, wherever that stands
        callback=_remember,
    )
    option = _config_option(callback=_named_once, help=f"The same as FILE.  [default: {DEFAULT_CONFIG}]")
    return argument(option(command))


def store_option(command: F) -> F:
    """Add ``--store URL`` and ``-c FILE``. The command gets ``url``, the URL of the store to use."""
    store = click.option(
        "--store",
        "url",
        envvar=STORE_VARIABLE,
        show_envvar=True,
        metavar="URL",
        callback=_store_url,
        help="The subscription store: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE."
        f"  [default: the store of the configuration, else {DEFAULT_STORE}]",
    )
    config = _config_option(
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help=f"Use the store of this configuration.  [default: {DEFAULT_CONFIG}, if there is one]",
    )
    return store(config(command))


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Store]:
    """Open a store. Commands that only read or remove do not create one: an empty store would hide a mistyped name."""
    from twigcast.store import Store

    with Store.open(url, create=create) as store:
        yield store


def configured_streams() -> list[str] | None:
    """Return the names of the streams in the configuration that a store command uses; None if there is none."""
    ctx = click.get_current_context(silent=True)
    config = _used(None if ctx is None else ctx.meta.get(_CONFIG))
    if config is None:
        return None
    from twigcast.config import stream_names

    return stream_names(config)


def _used(named: Path | None) -> Path | None:
    """Return the configuration that was named, else the one in the current folder, if there is one."""
    return named or (DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None)


def _config_option(**options: Any) -> Callable[[F], F]:
    return click.option("-c", "--config", "config", type=click.Path(path_type=Path), metavar="FILE", **options)


def _remember(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    ctx.meta[_CONFIG] = value
    return value


def _named_once(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    argument: Path | None = ctx.meta.get(_CONFIG)
    if argument is not None and value is not None and argument != value:
        raise click.UsageError(f"two configurations, {argument} and {value}; give one of them")
    return argument or value


def _store_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the store to use: --store, TWIGCAST_STORE, the store of -c, that of ./pipeline.toml, or the default.

    ``run`` uses the store of the configuration, so a variable, or an option beside -c, that names another one is
    reported.
    """
    named: Path | None = ctx.meta.get(_CONFIG)
    from_variable = ctx.get_parameter_source("url") is ParameterSource.ENVIRONMENT
    if value is not None and not from_variable and named is None:
        return value
    config = _used(named)
    if config is None:
        return value or DEFAULT_STORE
    if value is None:
        return _store_of(config)
    _report_other_store(value, STORE_VARIABLE if from_variable else "--store", config, must_read=named is not None)
    return value


def _store_of(config: Path) -> str:
    from twigcast.config import store_settings

    return store_settings(config).url


def _report_other_store(url: str, named_by: str, config: Path, *, must_read: bool) -> None:
    from twigcast.errors import TwigcastError
    from twigcast.store.urls import check_url, resolve, shown

    try:
        other = shown(_store_of(config))
    except TwigcastError:
        if must_read:
            raise
        return
    used = shown(resolve(check_url(url), Path.cwd()))
    if os.path.normpath(used) != os.path.normpath(other):
        click.echo(f"note: using the store of {named_by}, {used}; {config} names another one, {other}", err=True)
