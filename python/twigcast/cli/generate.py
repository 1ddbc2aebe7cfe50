"""``twigcast generate``: the papers' workloads, from a DTD."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from twigcast.cli.options import OneOf, Parsed
from twigcast.cli.progress import Progress
from twigcast.schema.dtd import Dtd, read_dtd
from twigcast.workload.documents import DocumentGenerator, Repeats
from twigcast.workload.queries import QueryGenerator, QuerySettings
from twigcast.workload.vocabularies import VOCABULARIES, vocabulary

F = TypeVar("F", bound=Callable[..., Any])
option = partial(click.option, show_default=True)
Probability = click.FloatRange(0, 1)


@click.group()
def generate() -> None:
    """Generate documents and queries from a DTD, the same for the same seed."""


# Documents or queries of one call.
MOST = 10_000_000


def _dtd_options(command: F) -> F:
    for add in (
        option("--seed", type=int, default=0, help="The same seed gives the same output."),
        click.option("--root", metavar="NAME", help="The root element.  [default: the first that no other contains]"),
        click.option(
            "--vocabulary", type=OneOf(VOCABULARIES), help="A DTD that comes with Twigcast, instead of --dtd."
        ),
        click.option("--dtd", type=click.Path(path_type=Path), metavar="FILE", help="The DTD."),
    ):
        command = add(command)
    return command


def _dtd(path: Path | None, name: str | None) -> Dtd:
    if (path is None) == (name is None):
        raise click.UsageError(f"give either --dtd FILE or --vocabulary {'|'.join(VOCABULARIES)}")
    return vocabulary(name) if name is not None else read_dtd(path or "")


def _repeats(text: str) -> tuple[str | None, Repeats]:
    parts = re.fullmatch(r"(?:([^=]+)=)?(?:(\d+)\.\.)?(\d+)", text)
    if not parts or (parts[2] and (not parts[1] or int(parts[2]) > int(parts[3]))):
        raise ValueError("must be of the form N, element=N or element=N..N")
    most = int(parts[3])
    return parts[1], (int(parts[2]), most) if parts[2] else most


RepeatsType = Parsed("repeats", _repeats)
"""``3``, or for one element ``book=20`` or ``book=5..20``."""


@generate.command(
    epilog="""\b
Examples:
  twigcast generate documents --vocabulary book -n 100 -o books
  twigcast generate documents --dtd nitf.dtd -n 1 --depth 8 --seed 7
  twigcast generate documents --vocabulary bib --depth 4 --max-repeats book=20..20 --max-repeats author=5
"""
)
@_dtd_options
@option("-n", "--count", type=click.IntRange(0, MOST), default=1, help="How many documents.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="DIR", help="One file each, here.  [default: stdout]"
)
@option("--depth", type=click.IntRange(1), default=6, help="Most levels (DocDepth).")
@click.option(
    "--max-repeats",
    type=RepeatsType,
    multiple=True,
    default=["3"],
    help="Most repeats of what a DTD marks with * or +; for one element: NAME=N or NAME=LEAST..MOST. May be repeated.",
)
@option("--max-value", type=click.IntRange(1), default=20, help="Values are 1 to this.")
@option("--attributes", type=Probability, default=0.5, help="Odds of an optional attribute.")
@option("--max-elements", type=click.IntRange(1), default=20_000, help="Then only what the DTD requires.")
def documents(
    dtd: Path | None,
    vocabulary: str | None,
    count: int,
    out: Path | None,
    max_repeats: tuple[tuple[str | None, Repeats], ...],
    **settings: Any,
) -> None:
    """Documents after IBM's XML Generator: valid, random, of bounded depth.

    On stdout each document takes one line.
    """
    common = [most for name, most in max_repeats if name is None]
    settings["max_repeats"] = common[-1] if common else 3
    settings["repeats"] = {name: repeats for name, repeats in max_repeats if name is not None}
    generator = DocumentGenerator(_dtd(dtd, vocabulary), **settings)
    stdout = sys.stdout.buffer
    width = len(str(count))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    # A line of progress would mix with documents on the same terminal.
    shown = out is not None or not sys.stdout.isatty()
    made = generator.documents(count)
    for number, document in enumerate(Progress(count, "documents").over(made) if shown else made, start=1):
        if out is not None:
            (out / f"{number:0{width}d}.xml").write_bytes(document)
        else:
            stdout.write(document)


@generate.command(
    epilog="""\b
Examples:
  twigcast generate queries --vocabulary book -n 10000 -o queries.txt
  twigcast generate queries --dtd nitf.dtd -n 1000 --depth 8 --descendant 0.3 --wildcard 0.1
  twigcast generate queries --vocabulary bib -n 100 --predicates 1 --nested 1 --repeated
"""
)
@_dtd_options
@option("-n", "--count", type=click.IntRange(0, MOST), default=10, help="How many queries (Q).")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="[default: stdout]")
@option("--depth", type=click.IntRange(1), default=6, help="Most steps of a query (D).")
@option("--descendant", type=Probability, default=0.2, help="Odds of // per step (W).")
@option("--wildcard", type=Probability, default=0.2, help="Odds of * per step.")
@option("--predicates", type=click.IntRange(0), default=0, help="Value predicates per query.")
@option("--predicate-depth", type=click.IntRange(0), default=0, help="Most steps down to a value.")
@option("--inequalities", type=Probability, default=0.0, help="Share of predicates with < <= > >=.")
@option("--max-value", type=click.IntRange(1), default=20, help="Values are 1 to this.")
@option("--nested", type=click.IntRange(0), default=0, help="Nested paths per query.")
@option("--nested-depth", type=click.IntRange(1), default=3, help="Most steps of a nested path.")
@option("--distinct/--repeated", default=True, help="No query twice, or as chance has it.")
@option("--skew", type=click.FloatRange(0, 10), default=0.0, help="Zipf skew in the choice of children.")
@click.option("--prefix", metavar="PREFIX", help="Put this namespace prefix before element names.")
def queries(
    dtd: Path | None,
    vocabulary: str | None,
    root: str | None,
    count: int,
    out: Path | None,
    prefix: str | None,
    **settings: Any,
) -> None:
    """Path queries after YFilter's generator: random walks over the DTD. One query per line."""
    generator = QueryGenerator(_dtd(dtd, vocabulary), QuerySettings(**settings), root=root, prefix=prefix)
    # All of them first: where there are not enough, a file cut short would pass for a whole one.
    text = "".join(f"{query}\n" for query in list(Progress(count, "queries").over(generator.queries(count))))
    if out is not None:
        out.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)
