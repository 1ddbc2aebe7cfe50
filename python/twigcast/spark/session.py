"""A Spark session as Twigcast wants it: quiet, quick to start, sized for messages.

A job that has a session of its own does not need this: every stage takes plain DataFrames.
"""

from __future__ import annotations

import atexit
import locale
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast.errors import OptionError
from twigcast.spark.archive import archive_options, cache_folder
from twigcast.spark.home import lean_home
from twigcast.spark.java import find_java
from twigcast.spark.stages.preload import DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Only the first JIT: a short run ends before the second one pays. Long runs do better without."""

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # An Arrow batch is cut at whichever comes first, so large messages do not pile up in a worker.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    # The default (4 MiB per file) would spread a thousand small messages over dozens of tasks.
    "spark.sql.files.openCostInBytes": str(16 << 10),
    "spark.sql.streaming.metricsEnabled": "false",
    # Workers share the memory of a snapshot.
    "spark.python.daemon.module": DAEMON,
}


def session(
    *,
    app: str = "twigcast",
    master: str | None = None,
    cores: int | None = None,
    ui: bool = False,
    quick: bool = False,
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session, or return the one that runs.

    ``master`` is ``local[cores]`` unless given; ``quick`` trades peak speed for a faster start (tests, short runs);
    ``log`` takes what the JVM and the workers print (a file deleted at exit unless given); ``settings`` override ours.
    """
    if cores is not None and cores < 1:
        raise OptionError("bad-cores", f"the number of cores is {cores}", hint="give 1 or more")
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.find_spark_home import _find_spark_home
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise OptionError(
            "pyspark-missing", f"PySpark cannot be imported: {error}", hint="pip install 'twigcast[spark]'"
        ) from error

    # Spark knows an active session for each thread; one that another thread has started is as good.
    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:
        running = SparkSession.builder.getOrCreate()
    if running is not None:
        return running
    java = find_java()
    master = master or f"local[{cores or '*'}]"
    local = master.startswith("local")

    options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]
    home = Path(_find_spark_home())
    home = lean_home(home, cache_folder()) if local else home
    options += archive_options(java, home, cache_folder())
    options += QUICK if quick else ()
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master).setAppName(app)
    conf.set("spark.driver.extraJavaOptions", " ".join(f'"{option}"' for option in options))
    conf.set("spark.ui.enabled", str(ui).lower())
    if local:
        # No name service needed to talk to oneself, and nothing listens to the network.
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.sql.shuffle.partitions", str(cores or os.cpu_count() or 1))
    for key, value in {**SETTINGS, **(settings or {})}.items():
        conf.set(key, value)

    log_path = log or _log_for_this_run()
    with log_path.open("ab") as printed, _environment(local, home, conf.get("spark.pyspark.python")):
        try:
            # A session (in the sense of POSIX) of its own: Ctrl-C is for us to handle, the workers must not die of it.
            # The JVM ends when its standard input does, hence with us.
            how = {"stdout": printed, "stderr": printed, "start_new_session": True}
            gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
        except Py4JError as error:  # a setting that Spark does not accept, mostly
            _forget_failed_start()
            raise OptionError("spark-start", f"Spark did not start: {_refusal(str(error))}") from error
        except (PySparkException, OSError) as error:
            tail = log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
            raise OptionError(
                "spark-start", "Spark did not start:\n  " + "\n  ".join(tail or [str(error)]), hint=f"java: {java.path}"
            ) from error
    return SparkSession.builder.getOrCreate()


def _refusal(report: str) -> str:
    """What Java says went wrong, without the way there."""
    lines = [line for line in report.splitlines() if line.startswith(": ")]
    return lines[0][2:] if lines else report


def _forget_failed_start() -> None:
    """PySpark keeps the gateway of a context that failed, and takes up with it the next time."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()


def _log_for_this_run() -> Path:
    handle, name = tempfile.mkstemp(prefix="twigcast-spark-", suffix=".log")
    os.close(handle)

    path = Path(name)

    def remove() -> None:
        with suppress(OSError):
            path.unlink()

    atexit.register(remove)
    return path


@contextmanager
def _environment(local: bool, home: Path, python: str | None = None) -> Iterator[None]:
    """Environment variables that PySpark reads while it starts, put back afterwards."""
    wanted = {"SPARK_LAUNCHER_OPTS": shlex.join([*QUICK, "-Xshare:auto"])}
    if local:
        # Spark asks for python3 of the PATH otherwise, which need not be the one that has Twigcast.
        wanted["PYSPARK_PYTHON"] = sys.executable
        wanted["SPARK_HOME"] = str(home)
        root = str(Path(__file__).resolve().parents[2])
        wanted["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    elif python is not None:
        wanted["PYSPARK_PYTHON"] = python  # Spark itself heeds the setting with spark-submit only
    if "utf" not in locale.getpreferredencoding(False).lower() or not _locale_is_utf8():
        # The JVM cannot name a file with letters outside of its locale.
        wanted["LC_ALL"] = "C.UTF-8"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _locale_is_utf8() -> bool:
    # Python reads a C locale as UTF-8 (PEP 538, 540) while the JVM does not, so Python's own answer is not enough.
    name = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return "utf" in name.lower()
