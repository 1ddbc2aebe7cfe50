"""Correlations change while messages flow, and runs end between the two commits of a micro-batch: each result once."""

from __future__ import annotations

import json
import os
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
from test_correlate_pipeline import PACKAGE, put, site_of, wanted

from twigcast.errors import StateDamaged
from twigcast.spark.beginning import read_running, write_running
from twigcast.spark.pipeline import Run
from twigcast.spark.stages.standing import Standing

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java")]
KEYS, WINDOW = 4, 8
QUERY = f"in/a->x[k->k] FOLLOWED BY{{k = l, {WINDOW}}} in/a->y[k->l]"


class Traffic(threading.Thread):
    """Puts messages in, one by one, until it is ended: number ``n`` has the key ``n % KEYS`` and the time ``n``."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self.site, self.count, self.over = site, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.4):
            put(self.site, self.count, self.count % KEYS)
            self.count += 1


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)


def pairs(first: int, last: int) -> set[tuple[int, int]]:
    """What QUERY finds in the messages ``first`` to ``last``."""
    steps = range(KEYS, WINDOW + 1, KEYS)
    return {(left, left + step) for left in range(first, last + 1) for step in steps if left + step <= last}


def found(site: Site, id: str) -> Counter[tuple[int, int]]:
    names = (message.removeprefix(f"{id}(").removesuffix(")") for message, by in site.in_lake().elements() if by == id)
    return Counter((int(left[:-4]), int(right[:-4])) for left, right in (name.split(",") for name in names))


TABLE = """
[streams.rows]
source = "table"
path = "{folder}/rows"
format = "json"
id_column = "id"
time = "/a/@t"
options.schema = "id string, xml string"
"""
OF_ROWS = "rows/a->x[k->k] FOLLOWED BY{k = l, INF} rows/a->y[k->l]"


def put_rows(site: Site, *numbers: int) -> None:
    rows = [{"id": f"row{n}", "xml": f'<a t="{1_700_000_000 + n}"><k>1</k></a>'} for n in numbers]
    fresh = site.folder / "fresh.json"
    fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (site.folder / "rows").mkdir(exist_ok=True)
    fresh.rename(site.folder / "rows" / f"{numbers[0]} it's.json")


def test_correlations_change_under_traffic(spark: SparkSession, tmp_path: Path) -> None:
    """Each sees every message that arrives after it was subscribed, and none that was matched before."""
    site = site_of(tmp_path, more=TABLE.format(folder=tmp_path))
    with site.store() as store:
        store.unsubscribe("pairs")
    put_rows(site, 0, 1)
    traffic, stop = Traffic(site), threading.Event()
    failed: list[BaseException] = []
    run = Run(site.settings, spark=spark, stop=stop)

    def running() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=running)
    thread.start()
    traffic.start()

    def wait_for(holds: Callable[[], object]) -> None:
        until(lambda: failed or holds())
        assert not failed, failed

    def matched() -> set[str]:
        """The messages that filters have been matched against."""
        return {message for message, id in site.in_lake() if id == "all"}

    try:
        wait_for(lambda: {"003.xml", "row1"} <= matched())
        before_first = len(matched()) - 2
        with site.store() as store:
            store.subscribe(QUERY, id="first", subscriber="ann")
            store.subscribe(OF_ROWS, id="rows", subscriber="ann")
        first = traffic.count
        put_rows(site, 2, 3)
        wait_for(lambda: found(site, "first") and ("rows(row2,row3)", "rows") in site.in_lake())
        with site.store() as store:
            store.subscribe(QUERY, id="second", subscriber="ann")
        second = traffic.count
        wait_for(lambda: found(site, "second"))
        with site.store() as store:
            store.unsubscribe("first")
            store.unsubscribe("rows")
            store.pause("second")
        gone = traffic.count
        wait_for(lambda: run.correlations.query is None and f"{gone + 2:03d}.xml" in matched())
        early, before_third = found(site, "second"), len(matched()) - 4
        with site.store() as store:
            store.resume("second")
        third = traffic.count
        wait_for(lambda: (found(site, "second") - early).total() > KEYS)
        traffic.over.set()
        traffic.join()
        last = traffic.count - 1
        wait_for(lambda: pairs(third + 1, last) <= set(found(site, "second")))
    finally:
        traffic.over.set()
        stop.set()
        thread.join(120)
    assert not failed
    cases = [
        (found(site, "first"), before_first, first),
        (early, before_first, second),
        (found(site, "second") - early, before_third, third),
    ]
    for some, before, since in cases:
        assert set(some.values()) == {1}
        upto = max(right for _, right in some)
        assert min(left for left, _ in some) >= before, "what was matched before it came"
        # The message that was being written while it was subscribed may be missing.
        assert pairs(since + 1, upto) <= set(some) <= pairs(before, last)
    assert [pair for pair in site.in_lake() if pair[1] == "rows"] == [("rows(row2,row3)", "rows")]


def lose_commit(site: Site) -> None:
    """Leave the state as a kill does between the commit of the log and the one of Spark."""
    commits = site.settings.state.checkpoints / "correlations" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_batch_that_spark_did_not_commit_is_repeated_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    site = site_of(tmp_path)
    keys = {number: number % 3 for number in range(8)}
    for number in range(4):
        put(site, number, keys[number])
    Run(site.settings, spark=spark, once=True)()
    lose_commit(site)
    # The set of correlations changes before the batch is repeated: the new one must not see the messages of the batch.
    with site.store() as store:
        store.subscribe(QUERY.replace(f"{WINDOW}", "1 h"), id="later", subscriber="ann")
    for number in range(4, 8):
        put(site, number, keys[number])
    Run(site.settings, spark=spark, once=True)()
    lake = site.in_lake()
    assert Counter({pair: count for pair, count in lake.items() if pair[1] != "later"}) == wanted(keys)
    assert [pair for pair in lake.elements() if pair[1] == "later"] == [("later(004.xml,007.xml)", "later")]


def test_the_file_of_running_correlations(tmp_path: Path) -> None:
    path = tmp_path / "correlations.json"
    assert read_running(tmp_path) is None
    standing = [Standing("a", QUERY, (("p", "urn:p"),), "urn:d"), Standing("b", QUERY)]
    write_running(tmp_path, standing)
    assert read_running(tmp_path) == standing
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(StateDamaged, match=r"correlations\.json") as caught:
        read_running(tmp_path)
    assert "delete it" in str(caught.value)


KILLED = """
import os, signal
from twigcast.delivery.log import Log
commit = Log.commit
def commit_and_die(log, *arguments):
    counts = commit(log, *arguments)
    if log.stream == "correlations":
        os.kill(os.getpid(), signal.SIGKILL)
    return counts
Log.commit = commit_and_die
from twigcast.cli import main
main()
"""


@pytest.mark.slow
def test_killed_between_the_commits(spark: SparkSession, tmp_path: Path) -> None:
    site = site_of(tmp_path)
    keys = {number: number % 3 for number in range(9)}
    for first in (0, 3):
        for number in range(first, first + 3):
            put(site, number, keys[number])
        command = [sys.executable, "-c", KILLED, "run", str(site.file), "--once"]
        killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, timeout=300, check=False)
        assert killed.returncode == -signal.SIGKILL
    for number in range(6, 9):
        put(site, number, keys[number])
    Run(site.settings, spark=spark, once=True)()
    assert site.in_lake() == wanted(keys)
