"""Correlations in a pipeline: from the store, over several micro-batches and runs, to the sinks; each result once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.delivery.dead import DeadLetters
from twigcast.spark.pipeline import Progress, Run, Watch

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java")]
PACKAGE = Path(__file__).parents[2] / "python"
COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()", "run"]
PAIRS = "SELECT <pair>{ $k }</pair> FROM in/a->x[k->k] FOLLOWED BY{k = l, 1 h} in/a->y[k->l] PUBLISH pairs"


def site_of(folder: Path, max_files: int = 1000, more: str = "") -> Site:
    site = Site(folder, max_files=max_files, more=more)
    text = site.file.read_text().replace('path = "' + str(folder) + '/in"', f'path = "{folder}/in"\ntime = "/a/@t"')
    site.file.write_text(text)
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe(PAIRS, id="pairs", subscriber="ann")
        store.subscribe("/pair[k = 1]", id="ones", subscriber="ann", stream="pairs")
        store.subscribe("/a", id="all", subscriber="ann")
    return site


def put(site: Site, number: int, key: int) -> None:
    site.put(f"{number:03d}.xml", f'<a t="{1_700_000_000 + number}"><k>{key}</k></a>')


def wanted(keys: dict[int, int]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for right, key in keys.items():
        found[f"{right:03d}.xml", "all"] += 1
        for left in (n for n in keys if n < right and keys[n] == key):
            ids = f"({left:03d}.xml,{right:03d}.xml)"
            found[f"pairs{ids}", "pairs"] += 1
            if key == 1:
                found[f"pairs{ids}", "ones"] += 1
    return found


@pytest.mark.slow  # Spark gives the stateful worker ten seconds to start, which a busy machine does not keep
def test_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    site = site_of(tmp_path)
    keys = {number: number % 3 for number in range(9)}
    for number in range(5):
        put(site, number, keys[number])
    Run(site.settings, spark=spark, once=True)()
    for number in range(5, 9):
        put(site, number, keys[number])
    run = Run(site.settings, spark=spark, once=True)
    run()
    assert run.drained
    assert site.in_lake() == wanted(keys)
    # a correlation that comes later sees what comes after it
    with site.store() as store:
        store.subscribe("in/a->x[k->k] FOLLOWED BY{k = l, 1 h} in/a->y[k->l]", id="later", subscriber="ann")
    for number in (9, 12):
        put(site, number, 0)
    Run(site.settings, spark=spark, once=True)()
    found = site.in_lake()
    assert [message for message, id in found if id == "later"] == ["later(009.xml,012.xml)"]
    keys |= {9: 0, 12: 0}
    assert Counter({k: n for k, n in found.items() if k[1] != "later"}) == wanted(keys)


def until(holds: Callable[[], object], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_logs_are_cleared_during_a_long_run(spark: SparkSession, tmp_path: Path) -> None:
    """With ``--once`` too: else all that a backlog has stays on the disk until its end."""
    site = site_of(tmp_path, max_files=1)
    for number in range(4):
        put(site, number, 0)
    left: set[int] = set()

    def on_batch(progress: Progress) -> None:
        """Let the correlations follow a batch at a time, and the log be cleared, before the last one begins."""
        if progress.stream == "in" and progress.batch < 3:
            log = run.streams["in"].log
            until(lambda: run.correlations.query is not None and run.correlations.has_read_all())
            if progress.batch == 2:
                until(lambda: log.forgotten >= 0, 30)
                left.update(one.batch for one in log.batches())

    run = Run(site.settings, spark=spark, once=True, watch=Watch(on_batch))
    run()
    assert 2 in left and 0 not in left
    assert site.in_lake() == wanted(dict.fromkeys(range(4), 0))


def test_while_it_runs(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Correlations come and go, messages come late, and the state reaches its bound."""
    site = site_of(tmp_path, more='[correlations]\nlateness = "60 s"\nmax_state = 5000\n')
    stop = threading.Event()
    run = Run(site.settings, spark=spark, stop=stop)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        put(site, 100, 1)
        put(site, 101, 1)
        until(lambda: site.in_lake()["pairs(100.xml,101.xml)", "pairs"])
        with site.store() as store:
            store.unsubscribe("pairs")
            store.subscribe("in/a->x[k->k] FOLLOWED BY{k = l, INF} in/a->y[k->l]", id="later", subscriber="ann")
        until(lambda: run.correlations.ended)
        put(site, 102, 1)
        put(site, 103, 1)
        until(lambda: site.in_lake()["later(102.xml,103.xml)", "later"])
        put(site, 1, 1)
        letters = DeadLetters(site.settings.state.dead)
        until(lambda: letters.letters())
        assert [(letter.message, letter.reason) for letter in letters.letters()] == [("001.xml", "late")]
        letters.close()
        for number in range(110, 140):
            put(site, number, number)
        until(lambda: "'later' has the longest window" in caplog.text)
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(120)
    correlated = {key: count for key, count in site.in_lake().items() if key[1] != "all"}
    assert correlated == {
        ("pairs(100.xml,101.xml)", "pairs"): 1,
        ("pairs(100.xml,101.xml)", "ones"): 1,
        ("later(102.xml,103.xml)", "later"): 1,
    }


@pytest.mark.slow
def test_the_driver_is_killed(tmp_path: Path) -> None:
    site = site_of(tmp_path, max_files=4)
    chance = random.Random(5)
    keys = {number: chance.randrange(6) for number in range(80)}
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = 0
    for kill in (20.0, 35.0, 28.0, None):
        upto = 80 if kill is None else done + 20
        for number in range(done, upto):
            put(site, number, keys[number])
        done = upto
        command = [*COMMAND, str(site.file), *(["--once"] if kill is None else [])]
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        if kill is None:
            assert process.wait(600) == 0
        else:
            time.sleep(kill + 10 * chance.random())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert site.in_lake() == wanted(keys)
