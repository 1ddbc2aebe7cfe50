"""The driver is killed (-9) at random points while messages flow; afterwards every delivery is there exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.spark.pipeline import Run

PACKAGE = Path(__file__).parents[2] / "python"
COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()", "run"]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java")]

HOOK = """
[sinks.hook]
kind = "webhook"
url = "http://127.0.0.1:{port}/hook"
allow = ["127.0.0.0/8"]
concurrency = 8
backoff = "50 ms"
max_backoff = "1 s"
max_attempts = 1000
breaker_failures = 1000
"""


class Target:
    """A webhook's target that counts what it has accepted, by delivery id, and refuses a part of the calls."""

    def __init__(self, refused: float) -> None:
        self.accepted: Counter[str] = Counter()
        dice, lock = random.Random(7), threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:
                handler.rfile.read(int(handler.headers["Content-Length"]))
                with lock:
                    refuse = dice.random() < refused
                    if not refuse:
                        self.accepted[handler.headers["webhook-id"]] += 1
                handler.send_response(503 if refuse else 204)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(server, *_: object) -> None:
                pass  # a caller that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    made = Target(getattr(request, "param", 0.0))
    yield made
    made.close()


def start(site: Site) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    log = (site.folder / "run.log").open("ab")
    return subprocess.Popen([*COMMAND, str(site.file)], stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path})


def expected(messages: int) -> Counter[tuple[str, str]]:
    return Counter((f"{n:05}.xml", id) for n in range(messages) for id in ("all", "odd") if id == "all" or n % 2)


def crash_and_recover(
    site: Site, target: Target, messages: int, kills: int, seed: int, spark: SparkSession | None = None
) -> None:
    """Messages flow in all the time; runs are killed at random; the last one is left alone until all is there.

    The last one is in this process where there is a session for it, which saves starting another.
    """
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe("/m", id="all", subscriber="ann")
        store.subscribe("/m[@n mod 2 = 1]", id="odd", subscriber="ann")
    wanted = expected(messages)
    fed = threading.Event()

    def feed() -> None:
        for number in range(messages):
            site.put(f"{number:05}.xml", f'<m n="{number}"/>')
            if number % 100 == 99 and fed.wait(0.3):
                return

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    dice = random.Random(seed)
    process = start(site)
    try:
        for _ in range(kills):
            # From the moment that it does something on: a kill while Java starts up proves little.
            before = progress(site, target)
            wait_for(partial(moved, process, site, target, before), 600)
            time.sleep(dice.uniform(0, 2.5))
            assert process.poll() is None, (site.folder / "run.log").read_text()[-3000:]
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            if spark is None:
                process = start(site)
        if spark is None:
            wait_for(
                lambda: (
                    process.poll() is not None
                    # The table last: looking at it reads all of it.
                    or (len(target.accepted) >= wanted.total() and site.in_lake().total() >= wanted.total())
                ),
                1800,
            )
            time.sleep(2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(180) == 0, (site.folder / "run.log").read_text()[-3000:]
        else:
            assert site.in_lake() != wanted, "there was nothing left to do"
            feeder.join()
            last = Run(site.settings, spark=spark, once=True)
            last()
            assert last.drained
    finally:
        fed.set()
        feeder.join()
        process.kill()
        process.wait()
    assert site.in_lake() == wanted
    files = Counter(path.name for path in site.in_files())
    assert files.total() == wanted.total() and max(files.values()) == 1
    # A target cannot be asked what it has: a call whose answer was lost comes again, with the same id.
    assert len(target.accepted) == wanted.total()
    repeated = target.accepted.total() - wanted.total()
    assert repeated <= kills * 8 * 2, f"{repeated} calls came twice"


def moved(process: subprocess.Popen[bytes], site: Site, target: Target, before: tuple[int, int]) -> bool:
    return process.poll() is not None or progress(site, target) > before


def progress(site: Site, target: Target) -> tuple[int, int]:
    return len(list((site.folder / "lake").glob("date=*/*.parquet"))), len(target.accepted)


def wait_for(condition: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_killed(spark: SparkSession, tmp_path: Path, target: Target) -> None:
    site = Site(tmp_path, HOOK.format(port=target.port), max_files=10)
    crash_and_recover(site, target, messages=200, kills=1, seed=1, spark=spark)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.0, 0.5], indirect=True, ids=["willing", "refusing-half"])
def test_killed_ten_times(tmp_path: Path, target: Target) -> None:
    site = Site(tmp_path, HOOK.format(port=target.port), max_files=500)
    crash_and_recover(site, target, messages=20_000, kills=10, seed=2)
