"""A subscription that fails in a pipeline: the others get their deliveries, it is reported and paused."""

from __future__ import annotations

import json
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.cli.dead import dead as dead_command
from twigcast.cli.status import line_of, status
from twigcast.delivery.dead import DeadLetters
from twigcast.engine import Engine
from twigcast.limits import Limits
from twigcast.spark import match
from twigcast.spark.pipeline import Run
from twigcast.spark.stages.correlate import FAILED, Buckets, Incoming, Storage, process
from twigcast.spark.stages.standing import Standing
from twigcast.spark.watch import Observers, status_of

RESIDUAL = "//b[following-sibling::b]"
TRANSFORM = "<r>{ for $b in //b[following-sibling::b] return $b }</r>"
MORE = """
[limits]
max_query_steps = 1
[subscriptions]
pause_after = 4
pause_within = 10
[metrics]
port = 0
"""


def run_once(site: Site, spark: SparkSession) -> Run:
    run = Run(site.settings, spark=spark, once=True)
    run()
    return run


def run_and_look(site: Site, spark: SparkSession) -> tuple[Run, str, str]:
    """Run once; return the run, and its live line and its metrics when two subscriptions have been paused."""
    looks: list[tuple[str, str]] = []
    with Observers(site.settings) as observers:
        watch = observers.watch()

        def on_end(run: Run) -> None:
            until = time.monotonic() + 30
            while len(run.paused.reasons()) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            with urllib.request.urlopen(f"http://127.0.0.1:{observers._metrics.port}/metrics", timeout=10) as read:
                looks.append((line_of(status_of(run, True), 0), read.read().decode()))
            watch.on_end(run)

        run = Run(site.settings, spark=spark, once=True, watch=replace(watch, on_end=on_end))
        run()
    return run, *looks[0]


def test_a_failing_subscription_is_reported_and_paused(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, MORE)
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe(RESIDUAL, id="filter", subscriber="ann")
        store.subscribe(TRANSFORM, id="transform", subscriber="ann")
        store.subscribe(RESIDUAL, id="elsewhere", subscriber="ann", stream="other")
        store.subscribe("//b", id="plain", subscriber="ann")
    for number in range(5):
        site.put(f"{number}.xml", f"<a><b>{number}</b><b/></a>")
    run, line, metrics = run_and_look(site, spark)
    assert "2 dead letters" in line and "10 failures of subscriptions" in line, line
    assert "2 subscriptions are paused because they kept failing" in line, line
    for words in (
        'twigcast_subscription_failures_total{stream="in"} 10.0',
        "twigcast_subscriptions_paused 2.0",
        'letters_total{kind="subscription",reason="query-too-costly",sink="",stream="in"} 2.0',
    ):
        assert words in metrics, metrics
    shown = json.loads(CliRunner().invoke(status, [str(site.file)]).output)
    assert set(shown["paused"]) == {"filter", "transform"} and shown["total"]["failures"] == 10
    assert (run.total.messages, run.total.rejects, run.total.failures) == (5, 0, 10)
    assert sorted(site.in_lake()) == [(f"{n}.xml", "plain") for n in range(5)]
    letters = DeadLetters(site.settings.state.dead)
    found = {one.subscription: one for one in letters.letters()}
    assert {id: (one.kind, one.reason, one.attempts) for id, one in found.items()} == {
        "filter": ("subscription", "query-too-costly", 5),
        "transform": ("subscription", "query-too-costly", 5),
    }
    shown = CliRunner().invoke(dead_command, ["list", "--kind", "subscription", "-c", str(site.file)])
    assert shown.exit_code == 0 and "query-too-costly" in shown.output
    with site.store() as store:
        paused = {one.id: one.reason for one in store.subscriptions(state="paused")}
        assert set(paused) == {"filter", "transform"}
        assert (paused["filter"] or "").startswith("failed on 5 of 5 messages: query-too-costly")
    # A paused subscription is not evaluated; one that is resumed is, and its count starts at zero.
    for number in range(5, 8):
        site.put(f"{number}.xml", "<a><b/><b/></a>")
    assert run_once(site, spark).total.failures == 0
    with site.store() as store:
        store.resume("filter")
    for number in range(8, 11):
        site.put(f"{number}.xml", "<a><b/><b/></a>")
    assert run_once(site, spark).total.failures == 3
    with site.store() as store:
        record = store.subscription("filter")
        assert (record.state, record.reason) == ("active", None)
    assert {one.subscription: one.attempts for one in letters.letters()} == {"filter": 8, "transform": 5}
    letters.close()


def test_failures_of_the_match_stage_are_rows_of_their_own(spark: SparkSession) -> None:
    engine = Engine(limits=Limits(max_query_steps=1))
    engine.add(RESIDUAL, id="filter")
    engine.add("//b", id="plain")
    frame = spark.createDataFrame([(1, "<a><b/><b/></a>"), (2, "<a>")], "id int, xml string")
    matched = match(frame, engine)
    assert [tuple(row) for row in matched.matches.collect()] == [(1, "plain")]
    assert [row.message for row in matched.dead.collect()] == [2]
    assert [tuple(row)[:3] for row in matched.failures.collect()] == [(1, "filter", "query-too-costly")]


def test_a_failing_correlation_fails_alone() -> None:
    pair = "S//a->x FOLLOWED BY{x = y, 1 h} S//b->y"
    costly = Standing("failing", f"SELECT <r>{{ $x//d }}</r> FROM {pair}")
    cheap = Standing("other", f"SELECT <r>{{ $y }}</r> FROM {pair}")
    task = Buckets(((costly, cheap),), limits=Limits(max_query_steps=3))
    messages = [Incoming("S", "1", 1, b"<m><a><c/><c/><c/><c/>1</a></m>"), Incoming("S", "2", 2, b"<m><b>1</b></m>")]
    rows = list(process(task, 0, messages, Storage()))
    assert [(row["kind"], row["subscription"]) for row in rows] == [("result", "other"), (FAILED, "failing")]
    assert rows[1]["reason"] == "query-too-costly" and rows[1]["message"] == "2"
