"""``twigcast init``: a configuration to start from."""

from __future__ import annotations

from pathlib import Path

import click

from twigcast.errors import OptionError


@click.command(
    epilog="""\b
Examples:
  twigcast init
  twigcast init feeds/pipeline.toml
  twigcast init - | less
"""
)
@click.argument("file", default="pipeline.toml")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: str, force: bool) -> None:
    """Write a configuration with comments to FILE, - for stdout.

    It runs as it is: twigcast run FILE takes messages from the folder inbox beside it, which is made too.
    """
    from twigcast.config import load, template

    if file == "-":
        click.echo(template(), nl=False)
        return
    path = Path(file)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as out:
            out.write(template())
        (path.parent / "inbox").mkdir(exist_ok=True)
    except FileExistsError:
        raise OptionError("file-exists", f"{file} is there already", hint="--force writes over it") from None
    except OSError as error:
        raise OptionError("unwritable", f"{file}: {error.strerror}") from error
    load(path)
    click.echo(f"{file} and the folder {path.parent / 'inbox'} are ready; next:\n")
    click.echo("  twigcast subscriber add alice")
    click.echo("  twigcast subscribe --subscriber alice '/order[total > 100]'")
    click.echo(f"  twigcast run {file}")
