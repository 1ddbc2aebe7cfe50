"""Whoever looks at a run sees its failures: in the status, in the live line, in the metrics and when it ends."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.cli.status import line_of, status, summary_of
from twigcast.spark.pipeline import Run
from twigcast.spark.watch import Observers, status_of

HOOK = """
[sinks.hooks]
kind = "webhook"
url = "http://127.0.0.1:9/nobody-listens"
allow = ["127.0.0.1/32"]
max_attempts = 2
backoff = "10 ms"
max_backoff = "10 ms"
[metrics]
port = 0
"""


def wait_for(condition: Callable[[], Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def shown(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CliRunner().invoke(status, [str(site.file)]).output)
    return found


def test_failures_and_missing_subscriptions_are_visible(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    site = Site(tmp_path, HOOK)
    with site.store():
        pass
    with Observers(site.settings) as observers, caplog.at_level(logging.WARNING, "twigcast"):
        run = Run(site.settings, spark=spark, stop=stop, watch=observers.watch())
        thread = threading.Thread(target=run)
        thread.start()
        try:
            wait_for(lambda: (tmp_path / "state/status.json").exists(), 60)
            assert "no active subscriptions in the store" in caplog.text and "store.db" in caplog.text
            line = line_of(status_of(run, True), 0)
            assert line.startswith("waiting for messages: 0 messages") and "NO ACTIVE SUBSCRIPTIONS" in line
            site.put("lost.xml", "<a/>")
            wait_for(lambda: run.total.messages == 1, 60)
            assert "1 messages reached nobody" in line_of(status_of(run, True), 0)
            with site.store() as store:
                store.subscribe("/a", id="all")
            site.put("good.xml", "<a/>")
            site.put("bad.xml", "<a>")
            wait_for(lambda: len(run.runner.dead.letters()) == 2, 60)
            wait_for(lambda: shown(site)["sinks"][2]["failed"] == 2, 2)
            found = shown(site)
            assert found["running"] and found["subscriptions"] == 1
            assert found["started"].endswith("Z") and found["streams"]["in"]["at"].endswith("Z")
            letters = {(one["kind"], one["stream"], one["sink"], one["reason"]) for one in found["dead_letters"]}
            assert letters == {
                ("message", "in", "", "unclosed-element"), ("delivery", "in", "hooks", "webhook-attempts"),
            }  # fmt: skip
            wait_for(lambda: line_of(status_of(run, True), 0).startswith("waiting for messages: 3 messages"), 60)
            line = line_of(status_of(run, True), 0)
            assert "2 dead letters (sink hooks: webhook-attempts 1; stream in: unclosed-element 1)" in line, line
            assert "hooks: 2 failed deliveries" in line
            with urllib.request.urlopen(f"http://127.0.0.1:{observers._metrics.port}/metrics", timeout=10) as read:
                metrics = read.read().decode()
            for words in (
                'twigcast_deliveries_failed_total{sink="hooks"} 2.0',
                'twigcast_deliveries_failed_total{sink="files"} 0.0',
                'letters_total{kind="message",reason="unclosed-element",sink="",stream="in"} 1.0',
                'letters_total{kind="delivery",reason="webhook-attempts",sink="hooks",stream="in"} 1.0',
                "twigcast_subscriptions 1.0",
            ):
                assert words in metrics, metrics
            ended = summary_of(status_of(run, False))
            assert ended[0].startswith("3 messages, 1 deliveries, 2 dead letters"), ended
            assert ended[-1].startswith("warning: 1 messages were consumed while the store had no active"), ended
            table = CliRunner().invoke(status, [str(site.file), "--format", "table"]).output
            assert "sink hooks: webhook-attempts 1" in table and "2 dead letters" in table
        finally:
            stop.set()
            thread.join(60)
    assert not thread.is_alive()
