"""What every test may need: the third-party data, databases; and how random the random tests are."""

from __future__ import annotations

import os
import signal
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from servers.kafka_broker import kafka_servers
from servers.postgresql import postgresql_server, postgresql_url
from servers.spark_session import java, spark

__all__ = ["java", "kafka_servers", "postgresql_server", "postgresql_url", "spark"]  # fixtures for every test

ROOT = Path(__file__).resolve().parent.parent

# The same examples every time, so that a change is judged by what it changes; `make test-all` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile("random" if os.environ.get("TWIGCAST_RANDOM_TESTS") else "steady")


# The programs that tests start need not have the JVM's second compiler either: they end before it pays.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell starts background jobs with interrupts ignored. What the tests start, and interrupt, would ignore them too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite the outputs in tests/golden/expected")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadgroup the tests of a file stay together and in their order, as they share what it sets up. Those
    with Spark all stay together: one session, not one per core.

    The marks of xdist would do, but from pytest 9.2 on xdist 3.8 does not see them.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group_of(nodeid.partition("::")[0])

    return ByFile(config, log)


@cache
def _group_of(file: str) -> str:
    """Return the name of what the tests of a file stay together with."""
    uses_spark = "spark: SparkSession" in (ROOT / file).read_text(encoding="utf-8")
    return "spark" if uses_spark or file.startswith("tests/spark/") else file


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """``../shared/data`` beside the project; the test is skipped where it is absent."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("needs ../shared/data beside the project")
    return data


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store can be made, in each of the databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def earlier_folder(tmp_path: Path) -> Path:
    """A pipeline's folder as commit f693179 left it: store, state folder, snapshot, delta, sinks.

    It has run twice: three orders, one of them not well-formed, and a payment. Webhook calls to a closed port wait.
    """
    folder = tmp_path / "earlier"
    with tarfile.open(ROOT / "tests" / "compat" / "f693179.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    # Spark's checkpoint names its files with their whole paths; in the archive these begin with a placeholder.
    for path in (folder / "twigcast-state" / "checkpoints").rglob("*"):
        if path.is_file() and b"@FOLDER@" in path.read_bytes():
            path.write_bytes(path.read_bytes().replace(b"@FOLDER@", os.fsencode(folder)))
    return folder
