"""A standalone Spark cluster on loopback: a master and workers, started with the pip package's ``spark-class``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python"


class Cluster:
    def __init__(self, folder: Path, workers: int = 2) -> None:
        from pyspark.find_spark_home import _find_spark_home

        self.folder = folder
        self._home = Path(_find_spark_home())
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        try:
            self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0")
            self.url = self._said("master", r"Starting Spark master at (spark://\S+)")
            for number in range(workers):
                name = f"worker{number}"
                options = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(folder / name), self.url]
                self.workers.append(self._start(name, "org.apache.spark.deploy.worker.Worker", *options))
            for number in range(workers):
                self._said(f"worker{number}", r"(Successfully registered)")
        except BaseException:
            self.stop()
            raise

    def kill_worker(self, number: int) -> None:
        """As if its machine had lost power: the worker and the executors and Python processes below it."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("wb")
        path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_HOST": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": path,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        command = (str(self._home / "bin" / "spark-class"), *command, "--host", "127.0.0.1")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self._processes.append(process)
        return process

    def _said(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            found = re.search(pattern, (self.folder / f"{name}.log").read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.2)
        raise TimeoutError(f"{name} did not say {pattern}: {(self.folder / f'{name}.log').read_text()[-2000:]}")
