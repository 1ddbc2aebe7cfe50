"""The same configuration on a standalone cluster; one of two workers dies on the way."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_files import Site
from spark_cluster import Cluster
from test_crash import start, wait_for

from twigcast.store import import_jsonl

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("java")]

CONFIG = """
[spark]
master = "{url}"
options = {{ "spark.driver.host" = "127.0.0.1", "spark.driver.bindAddress" = "127.0.0.1",
    "spark.executor.memory" = "512m", "spark.executor.cores" = "1",
    "spark.pyspark.python" = "{python}" }}
"""
MESSAGES = 2000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


def test_a_worker_dies(cluster: Cluster, tmp_path: Path) -> None:
    more = CONFIG.format(url=cluster.url, python=sys.executable).replace("\n    ", " ")
    site = Site(tmp_path, more, max_files=100)
    with site.store() as store:
        store.subscribe("/m", id="all")
        # Enough of them that each machine opens the snapshot once for its workers.
        import_jsonl(store, (b'{"id": "x%d", "query": "/x[y = \\"%d\\"]"}' % (n, n) for n in range(40_000)))
    for number in range(MESSAGES):
        site.put(f"{number:05}.xml", f'<m n="{number}"/>')
    process = start(site)
    try:
        wait_for(lambda: process.poll() is not None or site.in_lake().total() >= 300, 600)
        with site.store() as store:  # a delta, which must reach the machines too
            store.subscribe("//m", id="late")
        cluster.kill_worker(0)
        wait_for(lambda: process.poll() is not None or len({m for m, _ in site.in_lake()}) >= MESSAGES, 600)
        process.terminate()
        assert process.wait(180) == 0, (site.folder / "run.log").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
    lake = site.in_lake()
    assert Counter(message for message, id in lake.elements() if id == "all") == Counter(
        f"{number:05}.xml" for number in range(MESSAGES)
    )
    late = [message for message, id in lake.elements() if id == "late"]
    assert late and len(late) == len(set(late))
