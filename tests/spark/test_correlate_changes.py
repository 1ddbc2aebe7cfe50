"""Correlations change while messages flow, and runs end between the two commits of a micro-batch: each result once."""

from __future__ import annotations

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
from twigcast.spark.correlations import _load, _save
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
        while not self.over.wait(0.2):
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


def check_interval(some: set[tuple[int, int]]) -> None:
    """A correlation that comes and goes sees all messages in between; at the edges files may be listed out of order."""
    first, last = min(left for left, _ in some), max(right for _, right in some)
    assert pairs(first + 2, last - 2) <= some <= pairs(first, last)


def test_correlations_change_under_traffic(spark: SparkSession, tmp_path: Path) -> None:
    site = site_of(tmp_path)
    with site.store() as store:
        store.subscribe(QUERY, id="always", subscriber="ann")
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

    def seen(id: str, more_than: int = 0) -> None:
        until(lambda: failed or found(site, id).total() > more_than)
        assert not failed, failed

    try:
        seen("always")
        with site.store() as store:
            store.subscribe(QUERY, id="added", subscriber="ann")
        seen("added")
        with site.store() as store:
            store.unsubscribe("pairs")
            store.pause("added")
            store.subscribe(QUERY, id="other", subscriber="ann")
        seen("other")
        before = found(site, "added")
        with site.store() as store:
            store.resume("added")
        seen("added", before.total())
        traffic.over.set()
        traffic.join()
        until(lambda: failed or found(site, "always").total() >= len(pairs(0, traffic.count - 1)))
        assert not failed, failed
    finally:
        traffic.over.set()
        stop.set()
        thread.join(120)
    assert not failed and len(run.correlations.ended) == 4  # three changes, and the end
    assert found(site, "always") == Counter(pairs(0, traffic.count - 1))
    for some in (found(site, "other"), before, found(site, "added") - before):
        assert set(some.values()) == {1}
        check_interval(set(some))


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
    assert _load(path) is None
    standing = [Standing("a", QUERY, (("p", "urn:p"),), "urn:d"), Standing("b", QUERY)]
    _save(path, standing)
    assert _load(path) == standing
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(StateDamaged, match=r"correlations\.json") as caught:
        _load(path)
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
