"""``twigcast status``: what a pipeline is doing, or was when it ended."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from twigcast.cli.configuration import DEFAULT_CONFIG, config_argument
from twigcast.config import StateSettings, outline

EPILOG = """\b
Examples:
  twigcast status pipeline.toml
  twigcast status pipeline.toml --format json | jq .sinks
\b
Exit status: 0 the pipeline runs and no sink fails, 1 it does not run, 2 a sink or the store fails.
"""
STALE = 10.0
"""A run that has not written its status for so long has ended without a word, or hangs."""


@click.command(epilog=EPILOG)
@config_argument
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def status(ctx: click.Context, config: Path | None, form: str) -> None:
    """Show what the pipeline of the configuration FILE is doing: streams, sinks, dead letters."""
    found = gather(outline(config or DEFAULT_CONFIG).state)
    if form == "json":
        click.echo(json.dumps(found, indent=2))
    else:
        show(found)
    failing = found["store"] or any(sink["failing_since"] for sink in found["sinks"])
    ctx.exit(1 if not found["running"] else 2 if failing else 0)


def gather(state: StateSettings) -> dict[str, Any]:
    """From the state folder alone: nothing of the running pipeline is asked or held up."""
    from twigcast.delivery.dead import DeadLetters
    from twigcast.spark.watch import status_file

    found: dict[str, Any] = {"running": False, "store": None, "streams": {}, "sinks": [], "dead": 0}
    try:
        found |= json.loads(status_file(state.path).read_bytes())
    except FileNotFoundError:
        return found
    found["running"] = found["running"] and time.time() - found["written"] < STALE
    if state.dead.exists():
        letters = DeadLetters(state.dead)
        found["dead"] = letters.count()
        letters.close()
    return found


def show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if "started" not in found:
        click.echo("it has not run yet")
        return
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found["started"]))
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found["written"]))
    click.echo(f"running since {since} (process {found['pid']})" if found["running"] else f"ended at {until}")
    if found["store"]:
        click.echo(f"the store cannot be reached: {found['store']}")
    for id, reason in found.get("paused", {}).items():
        click.echo(f"the subscription {id!r} is paused: {reason}")
    streams = Table("stream", "batch", "messages", "deliveries", "refused", "messages/s", "version", "subscriptions")
    for name, of in found["streams"].items():
        if of is None:
            streams.add_row(name, *["-"] * 7)
            continue
        total, rate = of["total"], of["counts"]["messages"] / max(of["seconds"], 1e-6)
        numbers = (total["messages"], total["deliveries"], total["rejects"], rate)
        texts = [f"{number:,.0f}" for number in numbers]
        streams.add_row(name, str(of["batch"]), *texts, str(of["version"]), f"{of['subscriptions']:,}")
    console.print(streams)
    sinks = Table("sink", "behind", "waiting", "held back", "state")
    for sink in found["sinks"]:
        failing = sink["failing_since"]
        state = "ok" if not failing else f"failing for {time.time() - failing:,.0f} s: {sink['error']}"
        sinks.add_row(sink["sink"], f"{sink['lag']:,} batches", f"{sink['waiting']:,}", f"{sink['held']:,}", state)
    console.print(sinks)
    click.echo(f"dead letters: {found['dead']:,}")
