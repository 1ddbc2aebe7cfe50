"""``twigcast replay``: archived messages through a pipeline again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from twigcast.cli.configuration import DEFAULT_CONFIG, config_argument
from twigcast.cli.options import Parsed
from twigcast.config import load
from twigcast.units import parse_duration, parse_time, to_datetime

EPILOG = """\b
Examples:
  twigcast replay pipeline.toml --since 2h
  twigcast replay pipeline.toml --since 2026-01-01 --until 2026-01-02T12:00 --subscription big-orders
\b
The configuration must have an [archive]. Deliveries have the ids that they had, or would have had, from the stream.
\b
Exit status: 0, or 2 if it failed or deliveries still wait; the next run goes on with those.
"""


def _moment(text: str) -> datetime:
    time = parse_time(text)
    if time is not None:
        return to_datetime(time)
    try:
        return datetime.now(UTC) - timedelta(microseconds=parse_duration(text))
    except ValueError:
        raise ValueError("must be a time: 2026-01-01T12:00:00Z, 2026-01-01, or 2h for two hours ago") from None


Moment = Parsed("time", _moment)
"""``2026-01-01T12:00:00Z``, ``2026-01-01``, or how long ago: ``2h``, ``3 days``."""


@click.command(epilog=EPILOG)
@config_argument
@click.option("--since", required=True, type=Moment, help="Messages of this time (UTC) and later.")
@click.option("--until", type=Moment, help="Messages before this time.")
@click.option("--stream", "streams", multiple=True, help="Of this stream only; may be repeated.")
@click.option("--subscription", metavar="ID", help="For this subscription only.")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
def replay(
    config: Path | None,
    since: datetime,
    until: datetime | None,
    streams: tuple[str, ...],
    subscription: str | None,
    cores: int | None,
) -> None:
    """Run archived messages through the subscriptions of now, and deliver what they match.

    Beside a running pipeline, its sinks deliver; else they are started for the time of the replay.
    """
    from rich.console import Console

    from twigcast.cli.run import undelivered
    from twigcast.cli.screen import Screen
    from twigcast.cli.signals import Signals
    from twigcast.delivery import Counts
    from twigcast.spark.pipeline import pipeline_session
    from twigcast.spark.replay import Replay
    from twigcast.spark.replay import replay as run

    file = config or DEFAULT_CONFIG
    settings = load(file)
    wanted = Replay(since, until, streams, subscription)

    so_far = Counts()

    def start() -> Any:
        screen.say("starting Spark")
        log = settings.state.path / "spark-replay.log"
        session = signals.start(lambda: pipeline_session(settings, cores=cores, once=True, log=log))
        screen.say("replaying")
        return session

    def on_batch(stream: str, counts: Counts) -> None:
        so_far.add(counts)
        screen.say(f"replaying: {so_far.messages:,} messages, {stream}")

    with Screen(Console(stderr=True)) as screen, Signals() as signals:
        done = run(settings, wanted, start, on_batch)
    total = done.total
    click.echo(f"{total.messages:,} messages, {total.deliveries:,} deliveries, {total.rejects:,} dead letters")
    if done.undelivered:
        raise undelivered(done.undelivered, file)
    if not done.ours:
        click.echo(f"the pipeline that runs delivers them: twigcast status {file}", err=True)
