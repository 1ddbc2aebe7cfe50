"""``twigcast demo``: a small newsroom, bank and weather service through Spark, from nothing to a table of results."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.cli.run import Display
    from twigcast.engine import Engine
    from twigcast.spark import Counts

EPILOG = """\b
Examples:
  twigcast demo
  twigcast demo --messages 20000 --subscriptions 100000 --out /tmp/demo
"""

MARK = "twigcast-demo.json"
"""Lies in a folder the demo has made, which it may thus clear away."""
BATCHES = 8
"""Micro-batches to cut the messages into: enough to see it move."""


@click.command(epilog=EPILOG, short_help="Generate messages and subscriptions and run them on Spark.")
@click.option(
    "--out", type=click.Path(path_type=Path), default="demo-out", show_default=True, help="Folder to work in."
)
@click.option("--messages", type=click.IntRange(min=1), default=3_000, show_default=True)
@click.option("--subscriptions", type=click.IntRange(min=1), default=30_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same messages.")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
def demo(out: Path, messages: int, subscriptions: int, seed: int, cores: int | None) -> None:
    """Generate realistic messages of three vocabularies (payments, news, weather alerts; a few of them broken) and
    subscriptions to them, run them through Spark on this machine, and show what came out.
    """
    from rich.console import Console

    from twigcast.cli.run import Display
    from twigcast.spark import run_directory, session

    inbox, outbox, listed = out / "inbox", out / "outbox", out / "subscriptions.jsonl"
    screen = Console(stderr=True)
    _clear(out)
    with Display(screen, f"writing {messages:,} messages to {inbox}", total=messages) as display:
        _write_messages(inbox, messages, seed)
        display.say(f"compiling {subscriptions:,} subscriptions")
        engine = _subscribe(listed, subscriptions, seed)
        display.say("starting Spark")

        def start() -> Any:
            started = session(app="twigcast demo", cores=cores, quick=True, log=out / "spark.log")
            display.spark_is_up("matching")
            return started

        began = time.monotonic()
        counts = run_directory(
            inbox,
            outbox,
            engine,
            once=True,
            max_files=-(-messages // BATCHES),
            spark=start,
            on_batch=display.on_batch,
        )
        elapsed = time.monotonic() - began
    console = Console()
    _show(console, counts, len(engine), display, elapsed)
    _peek(console, outbox)
    console.print(
        f"Messages are in {inbox}, results in {outbox}/matches and {outbox}/dead. For what else you put there:\n"
        f"  twigcast run --inbox {inbox} --outbox {outbox} -s {listed} --once",
        soft_wrap=True,
        highlight=False,
    )


def _clear(out: Path) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise OptionError("folder-in-use", f"{out} holds something that is not a demo", hint="give another --out")
    try:
        if out.exists():
            shutil.rmtree(out)
        out.mkdir(parents=True)
        (out / MARK).write_text("{}\n")
    except OSError as error:
        raise OptionError(
            "bad-folder", f"cannot write to {out}: {error.strerror}", hint="give another --out"
        ) from error


def _write_messages(inbox: Path, count: int, seed: int) -> None:
    from twigcast.workload.feeds import FEEDS

    for name in FEEDS:
        (inbox / name).mkdir(parents=True)
    damages = itertools.cycle(DAMAGES)
    every = max(2, count // 10)
    every += every % len(FEEDS) == 0  # so that each kind of message has its turn
    for number, feed in zip(range(count), itertools.cycle(FEEDS.values()), strict=False):
        content = feed.message(number, seed)
        # A few arrive broken, as they do.
        if number % every == every - 1:
            content = next(damages)(content)
        (inbox / feed.name / f"{number:06d}.xml").write_bytes(content)


def _cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def _mismatch(content: bytes) -> bytes:
    return content[: content.rindex(b"</")] + b"</end>\n"


def _bad_byte(content: bytes) -> bytes:
    middle = content.index(b">", len(content) // 2) + 1
    return content[:middle] + b"\xff" + content[middle:]


def _bare_ampersand(content: bytes) -> bytes:
    end = content.rindex(b"</")
    return content[:end] + b"Marks & Spencer" + content[end:]


DAMAGES = (_cut, _mismatch, _bad_byte, _bare_ampersand)


def _subscribe(listed: Path, count: int, seed: int) -> Engine:
    from twigcast.engine import Engine, Subscription
    from twigcast.workload.feeds import FEEDS

    def generated() -> Iterator[Subscription]:
        share, rest = divmod(count, len(FEEDS))
        with listed.open("w", encoding="utf-8") as file:
            for place, feed in enumerate(FEEDS.values()):
                for found in feed.subscriptions(share + (place < rest), seed):
                    line = {"id": found.id, "query": found.query, "namespaces": dict(found.namespaces or {})}
                    file.write(json.dumps(line) + "\n")
                    yield found

    engine = Engine()
    engine.add_many(generated())
    return engine


def _show(console: Console, counts: Counts, subscriptions: int, display: Display, elapsed: float) -> None:
    from rich.table import Table

    table = Table(title="Twigcast demo", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    busy = max(display.seconds, 1e-6)
    rows = {
        "messages": f"{counts.messages:,}",
        "bytes": f"{counts.bytes:,}",
        "subscriptions": f"{subscriptions:,}",
        "matches": f"{counts.matches:,}",
        "rejects": f"{counts.rejects:,}",
        "throughput": f"{counts.messages / busy:,.0f} messages/s, {counts.matches / busy:,.0f} matches/s",
        "time": f"{busy:.1f} s once Spark was up, {elapsed:.1f} s with its start",
    }
    cold_messages, cold_seconds = display.first or (0, 0.0)
    if cold_messages and counts.messages > cold_messages:
        rows["once warm"] = f"{(counts.messages - cold_messages) / (busy - cold_seconds):,.0f} messages/s"
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _peek(console: Console, outbox: Path) -> None:
    from rich.table import Table

    matches = Table("message", "subscription", title="Some matches", title_justify="left")
    for line in itertools.islice(_lines(outbox / "matches"), 0, 4000, 1000):
        matches.add_row(line["message"], str(line["subscription"]))
    dead = Table("message", "at", "reason", "text", title="Dead letters", title_justify="left")
    for line in itertools.islice(_lines(outbox / "dead"), 5):
        dead.add_row(line["message"], f"{line['line']}:{line['column']}", line["reason"], line["text"])
    for table in (matches, dead):
        if table.row_count:
            console.print(table)


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)
