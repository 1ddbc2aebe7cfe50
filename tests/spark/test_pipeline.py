"""The whole pipeline in this process: folder in; directory and Parquet out; a store that changes."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.cli.replay import replay as replay_command
from twigcast.cli.status import status as status_command
from twigcast.delivery.dead import DeadLetters
from twigcast.errors import OptionError, StateDamaged, TwigcastError
from twigcast.spark.pipeline import Progress, Run, Watch
from twigcast.spark.watch import Observers
from twigcast.store import PublisherRecord, import_jsonl


def run_once(site: Site, spark: SparkSession, **options: object) -> Run:
    run = Run(site.settings, spark=spark, once=True, **options)  # type: ignore[arg-type]
    run()
    return run


def test_transforms_deliver_what_they_make(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe("<r>{ for $b in //b where $b > 1 return <n>{ $b/text() }</n> }</r>", id="t", subscriber="ann")
        store.subscribe("/a", id="f", subscriber="ann")
    for number in range(4):
        site.put(f"{number}.xml", f"<a><b>{number}</b></a>")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.deliveries) == (4, 6)
    made = [f"<r><n>{n}</n></r>".encode() for n in (2, 3)]
    assert sorted(path.read_bytes() for path in site.in_files()) == sorted(
        [*made, *(f"<a><b>{n}</b></a>".encode() for n in range(4))]
    )


def test_once_and_again(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, '[archive]\npath = "archive"\n')
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe("/a", id="all", subscriber="ann")
        store.subscribe("/a/b", id="parts", subscriber="ann", result="fragments")
    for number in range(20):
        site.put(f"{number}.xml", f"<a><b>{number}</b></a>")
    site.put("broken.xml", "<a>")
    site.put("empty.xml", "")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.deliveries, run.total.rejects) == (22, 40, 2)
    assert site.in_lake() == Counter((f"{n}.xml", id) for n in range(20) for id in ("all", "parts"))
    assert len(site.in_files()) == 40
    assert {p.relative_to(tmp_path / "files").parts[0] for p in site.in_files()} == {"ann"}
    bodies = Counter(path.read_bytes() for path in site.in_files())
    assert bodies[b"<b>7</b>"] == 1 and bodies[b"<a><b>7</b></a>"] == 1
    letters = DeadLetters(site.settings.state.dead)
    assert sorted(letter.message or "" for letter in letters.letters()) == ["broken.xml", "empty.xml"]

    # Again: nothing new, nothing twice. Then a message that was refused comes back.
    assert run_once(site, spark).total.messages == 0
    with site.store() as store:
        store.subscribe("//a", id="late")
        store.unsubscribe("all")
    (broken,) = (letter for letter in letters.letters() if letter.message == "broken.xml")
    folder = site.settings.state.path / "redrive" / "in"
    folder.mkdir(parents=True)
    (folder / f"dead-{broken.id}.xml").write_text("<a/>")
    assert run_once(site, spark).total.messages == 1
    assert site.in_lake()[f"dead-{broken.id}.xml", "late"] == 1 and site.in_lake().total() == 41
    assert run_once(site, spark).total.messages == 0

    # The archive has what was read.
    ended = CliRunner().invoke(
        replay_command, [str(site.file), "--since", "1h", "--subscription", "late"], catch_exceptions=False
    )
    assert "20 messages, 20 deliveries" in ended.output
    assert site.in_lake()["3.xml", "late"] == 1 and site.in_lake()["3.xml", "all"] == 1
    assert len(letters.letters()) == 2
    letters.close()


def test_a_new_state_keeps_what_was_archived(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, '[archive]\npath = "archive"\n')
    site.put("old.xml", "<a/>")
    run_once(site, spark)
    # as it was named before the state's id was part of it
    archived = tmp_path / "archive" / "in"
    (batch,) = archived.iterdir()
    (archived / "batch-00000007").mkdir()
    (batch / "0000.parquet").rename(archived / "batch-00000007" / "0000.parquet")
    batch.rmdir()
    for name in ("first.xml", "second.xml"):
        shutil.rmtree(site.settings.state.path)
        for path in site.inbox.iterdir():
            path.unlink()
        site.put(name, "<a/>")
        run_once(site, spark)
    with site.store() as store:
        store.subscribe("/a", id="late")
    CliRunner().invoke(replay_command, [str(site.file), "--since", "1h"], catch_exceptions=False)
    assert site.in_lake() == Counter((f"{name}.xml", "late") for name in ("old", "first", "second"))


def test_live_changes_status_and_metrics(spark: SparkSession, tmp_path: Path) -> None:
    """A change of the store takes effect by the next micro-batch, while the pipeline runs."""
    site = Site(tmp_path, "[metrics]\nport = 0\n")
    with site.store() as store:
        store.subscribe("/a", id="first")
    stop = threading.Event()
    seen: list[Progress] = []
    with Observers(site.settings) as observers:
        run = Run(site.settings, spark=spark, stop=stop, watch=observers.watch(Watch(seen.append)))
        failed: list[BaseException] = []

        def work() -> None:
            try:
                run()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for round in range(4):
                site.put(f"{round}.xml", "<a/>")
                wait_for(lambda round=round: failed or sum(p.counts.messages for p in seen) == round + 1)
                with site.store() as store:
                    if round % 2 == 0:
                        store.subscribe("//a", id=f"more{round}")
                    else:
                        store.unsubscribe("first" if round == 1 else "more0")
            assert not failed
            versions = [p.version for p in seen if p.counts.messages]
            assert versions == sorted(set(versions))
            wait_for(lambda: len(site.in_lake()) == 6)
            port = observers._metrics.port
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                metrics = answer.read().decode()
            assert 'twigcast_messages_total{stream="in"} 4.0' in metrics
            assert 'twigcast_sink_lag_batches{sink="lake"}' in metrics
            wait_for((site.settings.state.path / "status.json").exists)
            ended = CliRunner().invoke(status_command, [str(site.file), "--format", "json"])
            found = json.loads(ended.output)
            assert (
                ended.exit_code == 0 and found["running"] and [s["sink"] for s in found["sinks"]] == ["files", "lake"]
            )
        finally:
            stop.set()
            thread.join(60)
    assert not thread.is_alive() and not failed
    # 0 is matched by first; 1 by first, more0; 2 by more0; 3 by more0 or more2, as more0 goes after it
    assert site.in_lake() == Counter(
        [("0.xml", "first"), ("1.xml", "first"), ("1.xml", "more0"), ("2.xml", "more0"), ("3.xml", "more0"),
         ("3.xml", "more2")]
    )  # fmt: skip
    ended = CliRunner().invoke(status_command, [str(site.file), "--format", "table"])
    assert ended.exit_code == 1 and "ended at" in ended.output and "lake" in ended.output


@pytest.mark.slow
def test_a_change_among_100_000_takes_effect_within_two_batches(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.store() as store:
        lines = (json.dumps({"id": f"s{n}", "query": f'/order[customer = "c{n}"]'}).encode() for n in range(100_000))
        import_jsonl(store, lines)
    stop = threading.Event()
    seen: list[Progress] = []
    run = Run(site.settings, spark=spark, stop=stop, watch=Watch(seen.append))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        for number in range(6):
            site.put(f"{number}.xml", "<order><customer>new</customer></order>")
            wait_for(lambda number=number: sum(p.counts.messages for p in seen) > number)
            if number == 2:
                with site.store() as store:
                    store.subscribe('/order[customer = "new"]', id="new")
        wait_for(lambda: len(site.in_lake()) >= 2)
    finally:
        stop.set()
        thread.join(60)
    batches = [p for p in seen if p.counts.messages]
    assert [p.counts.deliveries for p in batches[:3]] == [0, 0, 0] and batches[-1].subscriptions == 100_001
    assert (
        batches[4].counts.deliveries == batches[5].counts.deliveries == 1
    )  # the second after the change, at the latest


def wait_for(condition: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_thousand_malformed_messages_in_a_row(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, max_files=400)
    with site.store() as store:
        store.subscribe("/a", id="all")
    for number in range(1000):
        (site.inbox / f"{number:04}.xml").write_text("<a>" if number % 2 else "<a></b>")
    (site.inbox / "good.xml").write_text("<a/>")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.rejects, run.total.deliveries) == (1001, 1000, 1)
    letters = DeadLetters(site.settings.state.dead)
    assert letters.count() == 1000 and site.in_lake() == Counter([("good.xml", "all")])
    letters.close()


def test_what_is_wrong_is_said_before_spark_starts(tmp_path: Path) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("Spark was started")

    site = Site(tmp_path / "a")
    site.inbox.rmdir()
    with pytest.raises(OptionError, match="stream 'in': there is no folder"):
        Run(site.settings, spark=no_spark)()
    site.inbox.write_text("<a/>")
    with pytest.raises(OptionError, match=r"stream 'in': .* is not a folder") as raised:
        Run(site.settings, spark=no_spark)()
    assert "--inbox" not in str(raised.value)
    site = Site(tmp_path / "b")
    site.file.write_text(site.file.read_text().replace("store.db", "nowhere/at/all/store.db"))
    with pytest.raises(TwigcastError, match="cannot be opened"):
        Run(site.settings, spark=no_spark)()
    site = Site(tmp_path / "c", '[streams.two]\nsource = "rate"\ntime = "/a ="\n'.replace("/a =", "/a[1] = 2"))
    with pytest.raises(TwigcastError, match=r"stream 'two'"):
        Run(site.settings, spark=no_spark)()


@pytest.mark.parametrize(("since", "until"), [("1h", "2h"), ("2026-01-02", "2026-01-01"), ("2026-01-01", "2026-01-01")])
def test_a_replay_of_no_time_at_all(tmp_path: Path, since: str, until: str) -> None:
    site = Site(tmp_path, '[archive]\npath = "archive"\n')
    with pytest.raises(OptionError, match="no time lies between"):
        CliRunner().invoke(replay_command, [str(site.file), "--since", since, "--until", until], catch_exceptions=False)


def test_half_a_state_is_no_state(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.put("1.xml", "<a/>")
    run_once(site, spark)
    shutil.rmtree(site.settings.state.checkpoints)
    with pytest.raises(StateDamaged, match=r"listing\.db is missing"):
        run_once(site, spark)


def test_a_schema_that_is_law(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "shop.dtd").write_text("<!ELEMENT order (total)><!ELEMENT total (#PCDATA)>")
    site = Site(tmp_path, '[publishers.shop]\nschema = "shop.dtd"\non_invalid = "reject"\n')
    text = site.file.read_text()
    site.file.write_text(text.replace('source = "directory"', 'source = "directory"\npublisher = "shop"', 1))
    with site.store() as store:
        store.subscribe("/*", id="all")
    site.put("good.xml", "<order><total>1</total></order>")
    site.put("invalid.xml", "<order>\n<nope/></order>")
    site.put("broken.xml", "<order>")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.deliveries, run.total.rejects) == (3, 1, 2)
    letters = {letter.message: letter.reason for letter in DeadLetters(site.settings.state.dead).letters()}
    assert letters == {"invalid.xml": "invalid", "broken.xml": "unclosed-element"}
    (tmp_path / "shop.dtd").write_text("<!ELEMENT order (total")
    with pytest.raises(OptionError, match=r"shop\.dtd"):
        run_once(site, spark)


def test_a_schema_of_the_store_is_law_too_and_may_change(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    total = "<!ELEMENT order (total)><!ELEMENT total (#PCDATA)>"
    with site.store() as store:
        store.subscribe("/*", id="all")
        store.put_publisher(PublisherRecord("shop", "in", total, "dtd", "reject"))
    site.put("good.xml", "<order><total>1</total></order>")
    site.put("invalid.xml", "<order><sum>1</sum></order>")
    run = run_once(site, spark)
    assert (run.total.deliveries, run.total.rejects) == (1, 1)
    with site.store() as store:
        store.put_publisher(PublisherRecord("other", "in", total.replace("total", "sum"), "dtd", "reject"))
    site.put("sum.xml", "<order><sum>1</sum></order>")
    site.put("more.xml", "<order><more/></order>")
    run = run_once(site, spark)
    assert (run.total.deliveries, run.total.rejects) == (1, 1)
    with site.store() as store:
        store.remove_publisher("other")
        store.put_publisher(PublisherRecord("shop", "in", total, "dtd", "fallback"))
    site.put("any.xml", "<order><more/></order>")
    run = run_once(site, spark)
    assert (run.total.deliveries, run.total.rejects) == (1, 0)


def test_a_message_deeper_than_the_kernel_transforms(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.store() as store:
        store.subscribe("<r>{ for $b in /z return <z/> }</r>", id="t")
        store.subscribe("/z", id="f")
    site.put("deep.xml", "<z>" * 80 + "</z>" * 80)
    site.put("flat.xml", "<z/>")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.deliveries, run.total.rejects) == (2, 4, 0)
    assert site.in_lake() == Counter((f"{name}.xml", id) for name in ("deep", "flat") for id in "ft")
