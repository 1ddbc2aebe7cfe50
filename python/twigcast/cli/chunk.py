"""``twigcast chunk``: documents too large for memory, in parts that subscriptions and schema lay down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from twigcast.chunk.chunker import Chunker
from twigcast.chunk.run import Options, cores
from twigcast.chunk.scheme import Chunk, Fragment, Scheme, path_text
from twigcast.chunk.source import blocks
from twigcast.cli.inputs import Unreadable, as_json, expand, printable, refuse_stdin_twice
from twigcast.cli.large import CHUNKS, LargeFiles
from twigcast.cli.matches import output_of
from twigcast.cli.options import (
    OneOf,
    Size,
    format_option,
    limit_options,
    namespace_options,
    result_option,
    schema_option,
    take_limits,
)
from twigcast.cli.output import print_table
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.engine.files import SubscriptionFile, compile_file
from twigcast.errors import MessageError, OptionError, TwigcastError
from twigcast.lang.xscl import is_correlation
from twigcast.limits import Limits
from twigcast.subscription import RESULTS

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  twigcast chunk plan -s subscriptions.txt --chunks 4 --schema catalogue.dtd
  twigcast chunk split -s subscriptions.txt --chunks 4 --output parts/ catalogue.xml
  twigcast chunk match -s subscriptions.txt --chunks 4 catalogue.xml.gz
"""

MATCH_EPILOG = """\b
Examples:
  twigcast chunk match -s subscriptions.txt --chunks 4 catalogue.xml
  zcat catalogue.xml.gz | twigcast chunk match -s subscriptions.txt -
\b
What comes out is what "twigcast match" would print, in the same order.
Exit status: 0 something matched, 1 nothing did, 2 there was an error (what was found before it comes out nevertheless).
"""


@click.group(epilog=EPILOG)
def chunk() -> None:
    """Work on documents that are too large for memory.

    The document is cut where the subscriptions, and the schema if there is one, allow it; each part keeps the elements
    around it, and goes to the subscriptions that can match there.
    """


def scheme_options(beside: str) -> Callable[[F], F]:
    """Add the options that a scheme depends on, for `_files`. ``beside`` is the default of that option."""

    def add(command: F) -> F:
        for option in (
            namespace_options,
            click.option(
                "--beside",
                type=OneOf(("potpourri", "filters")),
                default=beside,
                show_default=True,
                help="Where a condition on what lies beside a chunk is checked: in the potpourri, or in the chunk, "
                "which then has filter nodes and is not cut into batches.",
            ),
            schema_option("The documents' schema: a DTD or an XML Schema."),
            click.option(
                "--chunks", type=click.IntRange(0), default=CHUNKS, show_default=True, help="How many chunks to aim at."
            ),
            click.option(
                "-s", "--subscriptions", required=True, metavar="FILE", help="The subscriptions; - for stdin."
            ),
        ):
            command = option(command)
        return command

    return add


@chunk.command()
@scheme_options("potpourri")
@format_option("jsonl", "table")
def plan(format: str, **settings: Any) -> None:
    """Show the chunks that the subscriptions lead to."""
    scheme = _files(Options(), **settings).scheme()
    _say_notices(scheme, settings["subscriptions"])
    if format == "jsonl":
        for one in scheme.fragments:
            click.echo(json.dumps(_described(scheme, one), ensure_ascii=False))
    else:
        _show(scheme)


def _described(scheme: Scheme, chunk: Chunk) -> dict[str, object]:
    return {
        "chunk": chunk.number,
        "prefix": path_text(chunk.prefix) if chunk.prefix else None,
        "subscriptions": _at_home(scheme, chunk),
        "expressions": [one.query for one in chunk.subscriptions],
        "filters": [str(keep) for keep in chunk.filters],
        "batches": chunk.batchable,
        "whole": chunk.whole,
    }


def _at_home(scheme: Scheme, chunk: Chunk) -> list[object]:
    return [one.id for one in scheme.answers if chunk.number in scheme.homes[one.id]]


def _show(scheme: Scheme) -> None:
    rows = []
    for one in scheme.fragments:
        besides = "the whole document" if one.whole else ", ".join(map(str, one.filters))
        name = str(one.number) if one.number else "potpourri"
        counts = (f"{len(_at_home(scheme, one)):,}", f"{len(one.numbers):,}")
        rows.append((name, path_text(one.prefix), *counts, besides))
    print_table(("chunk", "prefix", "subscriptions", "expressions", "keeps besides"), rows)


@chunk.command()
@scheme_options("filters")
@click.option("--output", "-o", required=True, metavar="FOLDER", help="Where the fragments go; made if need be.")
@click.option(
    "--batch-bytes", type=Size, metavar="N", help="Cut chunks into batches of about so many bytes.  [default: do not]"
)
@limit_options
@click.argument("file", metavar="FILE")
@click.pass_context
def split(ctx: click.Context, /, file: str, output: str, batch_bytes: int | None, **settings: Any) -> None:
    """Write the fragments of FILE, plain or compressed (gzip, Zstandard), - for stdin.

    Each is a document of its own. fragments.jsonl in the folder says of each which chunk it is of, the subscriptions to
    match it against, and which nodes of FILE its nodes are: lists of [id in the fragment, id in FILE, byte offset in
    FILE], from each of which both ids count on to the next.
    """
    limits = take_limits(settings)
    scheme = _files(Options(limits=limits), **settings).scheme()
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
        error = _split(scheme, file, Path(output), batch_bytes, limits)
    except OSError as problem:
        raise OptionError("unwritable", f"{output}: {problem.strerror}") from problem
    for line in error:
        click.echo(line, err=True)
    ctx.exit(2 if error else 0)


def _split(scheme: Scheme, name: str, folder: Path, batch_bytes: int | None, limits: Limits) -> list[str]:
    """Write the fragments; return what is wrong."""
    chunker = Chunker(scheme, batch_bytes=batch_bytes, limits=limits)
    folder_ = _Folder(folder, scheme, numbered=batch_bytes is not None)
    shown = printable(name)
    with (folder / "fragments.jsonl").open("w", encoding="utf-8") as index:
        try:
            for block in blocks(name):
                folder_.write(chunker.feed(block), index)
                if chunker.error is not None or chunker.foreign is not None:
                    break
            else:
                folder_.write(chunker.finish(), index)
        except TwigcastError as error:
            return [f"{shown}: {error.code}: {error.text}"]
    wrong = []
    if isinstance(chunker.error, MessageError):
        wrong.append(f"{shown}:{chunker.error}")
    if chunker.foreign is not None:
        path = path_text(chunker.foreign) or "too many tag paths"
        wrong.append(f"{shown}: not-of-schema: the document has {path}, and the schema does not; go without --schema")
    for chunk in chunker.overfull:
        what = f"chunk {chunk.number}" if chunk.number else "the potpourri"
        text = f"{what} has more than {limits.max_bytes} bytes; see --batch-bytes and --max-bytes"
        wrong.append(f"{shown}: fragment-too-large: {text}")
    return wrong


class _Folder:
    def __init__(self, folder: Path, scheme: Scheme, *, numbered: bool) -> None:
        self._folder, self._scheme, self._numbered = folder, scheme, numbered
        self._chunks = {chunk.number: chunk for chunk in scheme.fragments}
        self._counts: dict[int, int] = {}

    def write(self, fragments: list[Fragment], index: Any) -> None:
        for one in fragments:
            chunk = self._chunks[one.chunk]
            stem = f"chunk-{one.chunk}" if one.chunk else "potpourri"
            if self._numbered and chunk.batchable:
                self._counts[one.chunk] = self._counts.get(one.chunk, 0) + 1
                stem += f"-{self._counts[one.chunk]:06}"
            (self._folder / f"{stem}.xml").write_bytes(one.xml)
            entry = {
                "file": f"{stem}.xml",
                "chunk": one.chunk,
                "prefix": path_text(chunk.prefix) if chunk.prefix else None,
                "subscriptions": _at_home(self._scheme, chunk),
                "nodes": [[*run, offset] for run, offset in zip(one.runs, one.offsets, strict=True)],
            }
            index.write(as_json(entry) + "\n")


@chunk.command(epilog=MATCH_EPILOG)
@scheme_options("potpourri")
@click.option("--jobs", "-j", type=click.IntRange(1), help="Parts matched at the same time.  [default: one per core]")
@click.option("--batch-bytes", type=Size, default="8M", show_default=True, metavar="N", help="The size of a part.")
@click.option("--max-document", type=Size, metavar="N", help="Most bytes of a document.  [default: any]")
@result_option
@format_option("jsonl", "table")
@limit_options
@click.argument("messages", nargs=-1, required=True, metavar="FILE...")
@click.pass_context
def match(
    ctx: click.Context,
    /,
    messages: tuple[str, ...],
    jobs: int | None,
    batch_bytes: int,
    max_document: int | None,
    format: str,
    **settings: Any,
) -> None:
    """Match large files, plain or compressed (gzip, Zstandard), against all subscriptions.

    A folder stands for every file in it and below, - for stdin. A file is read once, in parts; --max-bytes is the limit
    of a part, and of what must not be cut.
    """
    refuse_stdin_twice(settings["subscriptions"], *messages)
    limits = take_limits(settings)
    files = _files(
        Options(jobs=jobs or cores(), limits=limits, batch_bytes=batch_bytes, max_document=max_document), **settings
    )
    _say_notices(files.scheme(), settings["subscriptions"])
    names = list(expand(messages))
    output = output_of(format, files.file, len(names))
    for name in names:
        if isinstance(name, Unreadable):
            output.unreadable(name)
        else:
            files.match(name, output)
        output.progress.advance(1)
    ctx.exit(output.finish())


def _say_notices(scheme: Scheme, subscriptions: str) -> None:
    for notice in scheme.notices:
        click.echo(f"{subscriptions}: subscription {notice.id}: {notice.text}", err=True)


def _files(
    options: Options, *, subscriptions: str, namespaces: dict[str, str], result: str = RESULTS[0], **scheme: Any
) -> LargeFiles:
    """Return what matches large files against a file of subscriptions. ``scheme``: options of ``LargeFiles``."""
    file = _read(subscriptions, namespaces, result)
    return LargeFiles(file, options, namespaces=namespaces, **scheme)


def _read(name: str, namespaces: dict[str, str], result: str) -> SubscriptionFile:
    file = read_file(name, result=result)
    for s, line in zip(file.subscriptions, file.lines, strict=True):
        if s.stream is not None or is_correlation(s.query):
            text = f"{name}:{line}: a large document is on no stream, and is not correlated"
            raise OptionError("streams", text, hint="twigcast match reads streams: see --stream")
    compile_file(file, namespaces=namespaces)  # tells all that is wrong with it, by line
    warn_of_never(file, namespaces)
    return file
