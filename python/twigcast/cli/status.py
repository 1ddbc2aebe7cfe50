"""``twigcast status``: what a pipeline is doing, or was when it ended."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from twigcast.cli.configuration import DEFAULT_CONFIG, config_argument
from twigcast.cli.options import format_option
from twigcast.cli.output import print_table
from twigcast.config import StateSettings, outline
from twigcast.units import format_time

EPILOG = """\b
Examples:
  twigcast status
  twigcast status -c pipeline.toml --format json | jq .sinks
\b
Exit status: 0 the pipeline runs and no sink fails, 1 it does not run, 2 a sink or the store fails.
"""
STREAMS = ("stream", "batch", "messages", "deliveries", "dead letters", "messages/s", "version", "subscriptions")
SINKS = ("sink", "behind", "waiting", "held back", "failed", "dead letters", "state")
STALE = 10.0
"""A run that has not written its status for so long has ended without a word, or hangs."""


@click.command(epilog=EPILOG)
@config_argument
@format_option("json", "table")
@click.pass_context
def status(ctx: click.Context, config: Path | None, format: str) -> None:
    """Show what the pipeline of the configuration FILE is doing: streams, sinks, dead letters."""
    found = gather(outline(config or DEFAULT_CONFIG).state)
    if format == "json":
        click.echo(json.dumps(_with_iso_times(found)))
    else:
        show(found)
    failing = found["store"] or any(sink["failing_since"] for sink in found["sinks"])
    ctx.exit(1 if not found["running"] else 2 if failing else 0)


def gather(state: StateSettings) -> dict[str, Any]:
    """Read the status from the state folder alone: nothing of a running pipeline is asked or held up."""
    from twigcast.delivery.dead import DeadLetters
    from twigcast.spark.watch import dead_letters, status_file

    found: dict[str, Any] = {"running": False, "store": None, "streams": {}, "sinks": [], "dead_letters": []}
    try:
        found |= json.loads(status_file(state.path).read_bytes())
    except FileNotFoundError:
        return found
    found["running"] = found["running"] and time.time() - found["written"] < STALE and _is_alive(found)
    if state.dead.exists():
        with closing(DeadLetters(state.dead)) as letters:
            found["dead_letters"] = dead_letters(letters.counts())
    return found


def _is_alive(found: dict[str, Any]) -> bool:
    """Return whether the process of a run is there, as far as one can tell: it may be on another machine."""
    if found.get("host") != socket.gethostname():
        return True
    try:
        os.kill(found["pid"], 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is another user's
    return True


def show(found: dict[str, Any]) -> None:
    """Print a status for people."""
    if "started" not in found:
        click.echo("it has not run yet")
        return
    since, until = format_time(found["started"]), format_time(found["written"])
    click.echo(f"running since {since} (process {found['pid']})" if found["running"] else f"ended at {until}")
    if found["store"]:
        click.echo(f"the store cannot be reached: {found['store']}")
    for id, reason in found.get("paused", {}).items():
        click.echo(f"the subscription {id!r} is paused: {reason}")
    if found.get("subscriptions") == 0:
        click.echo("no active subscriptions: messages reach nobody")
    print_table(STREAMS, _streams(found))
    print_table(SINKS, _sinks(found))
    letters = found["dead_letters"]
    click.echo(f"{sum(one['count'] for one in letters):,} dead letters")
    for one in letters:
        click.echo(f"  {place_of(one)}: {one['reason']} {one['count']:,}")


def line_of(found: dict[str, Any], rate: float) -> str:
    """Return the status of a run in one line; ``rate`` is in messages per second."""
    total = found["total"]
    text = f"{_doing(found)}: {total['messages']:,} messages"
    text += f", {rate:,.0f}/s" if found["busy"] else ""
    text += f", {total['deliveries']:,} deliveries, {_dead_count(found):,} dead letters"
    causes = "; ".join(f"{place_of(one)}: {one['reason']} {one['count']:,}" for one in found["new_dead_letters"])
    text += f" ({causes})" if causes else ""
    text += f", {total['failures']:,} failures of subscriptions" if total.get("failures") else ""
    if found["subscriptions"]:
        text += f", {found['subscriptions']:,} subscriptions (version {found['version']})"
    else:
        text += ", NO ACTIVE SUBSCRIPTIONS"
        text += f": {found['unmatched']:,} messages reached nobody" if found["unmatched"] else ""
    return "; ".join([text, *_trouble(found)])


def summary_of(found: dict[str, Any]) -> list[str]:
    """Return what a run has done, in a few lines for people."""
    total = found["total"]
    lines = [f"{total['messages']:,} messages, {total['deliveries']:,} deliveries, {_dead_count(found):,} dead letters"]
    lines += [f"dead letters of {place_of(one)}: {one['reason']} {one['count']:,}" for one in found["new_dead_letters"]]
    lines += [f"{sink['sink']}: {sink['failed']:,} failed deliveries" for sink in found["sinks"] if sink["failed"]]
    if found["unmatched"]:
        count = f"{found['unmatched']:,} messages were consumed"
        lines.append(f"warning: {count} while the store had no active subscriptions: they reached nobody")
    return lines


def failures_of(found: dict[str, Any]) -> dict[str, Any]:
    """Return the dead letters and failed deliveries of a status."""
    return {
        "dead_letters": found.get("new_dead_letters", []),
        "failed_deliveries": {sink["sink"]: sink["failed"] for sink in found.get("sinks", []) if sink["failed"]},
    }


def place_of(letter: dict[str, Any]) -> str:
    """Return where dead letters were made: at a sink, on a stream, or by subscriptions on a stream."""
    if letter["kind"] == "subscription":
        return f"subscriptions on {letter['stream']}"
    return f"sink {letter['sink']}" if letter["sink"] else f"stream {letter['stream']}"


def _doing(found: dict[str, Any]) -> str:
    if found["busy"]:
        return f"matching {', '.join(found['busy'])}"
    if any(sink["lag"] or sink["waiting"] for sink in found["sinks"]):
        return "delivering"
    return "waiting for messages"


def _dead_count(found: dict[str, Any]) -> int:
    """Count the dead letters of a run. Those of messages are known before their reasons are."""
    counts = [one["count"] for one in found["new_dead_letters"] if one["kind"] != "message"]
    return sum([found["total"]["dead_letters"], *counts])


def _trouble(found: dict[str, Any]) -> Iterator[str]:
    for sink in found["sinks"]:
        words = []
        if sink["failed"]:
            words.append(f"{sink['failed']:,} failed deliveries")
        if sink["failing_since"] is not None:
            words.append(f"failing for {_since(sink['failing_since'])}: {sink['error']}")
        elif sink["lag"] > 1:
            words.append(f"{sink['lag']:,} batches behind")
        if sink["waiting"]:
            words.append(f"{sink['waiting']:,} waiting")
        if words:
            yield f"{sink['sink']}: {', '.join(words)}"
    if found.get("paused"):
        yield f"{len(found['paused']):,} subscriptions are paused because they kept failing"
    if found["store"]:
        yield f"the store cannot be reached: {found['store']}"


def _since(moment: float) -> str:
    return f"{max(0.0, time.time() - moment):,.0f} s"


def _streams(found: dict[str, Any]) -> Iterator[list[str]]:
    for name, of in found["streams"].items():
        if of is None:
            yield [name, *["-"] * 7]
            continue
        total, rate = of["total"], of["counts"]["messages"] / max(of["seconds"], 1e-6)
        # A status of an earlier version counts "rejects".
        dead = total.get("dead_letters", total.get("rejects", 0))
        numbers = [f"{number:,.0f}" for number in (total["messages"], total["deliveries"], dead, rate)]
        yield [name, str(of["batch"]), *numbers, str(of["version"]), f"{of['subscriptions']:,}"]


def _sinks(found: dict[str, Any]) -> Iterator[list[str]]:
    for sink in found["sinks"]:
        dead = sum(one["count"] for one in found["dead_letters"] if one["sink"] == sink["sink"])
        failing = sink["failing_since"]
        state = "ok" if not failing else f"failing for {_since(failing)}: {sink['error']}"
        numbers = [f"{number:,}" for number in (sink["waiting"], sink["held"], sink.get("failed", 0), dead)]
        yield [sink["sink"], f"{sink['lag']:,} batches", *numbers, state]


def _with_iso_times(found: dict[str, Any]) -> dict[str, Any]:
    """Return a status with its times as people and programs read them."""
    shown = dict(found)
    for name in ("started", "written"):
        if name in shown:
            shown[name] = _moment(shown[name])
    shown["streams"] = {name: of and {**of, "at": _moment(of["at"])} for name, of in found["streams"].items()}
    shown["sinks"] = [{**sink, "failing_since": _moment(sink["failing_since"])} for sink in found["sinks"]]
    return shown


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else format_time(seconds, "milliseconds")
