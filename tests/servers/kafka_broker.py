"""A real Kafka broker on loopback, from Maven's jars: one node, KRaft, data in a temporary folder."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from twigcast.errors import TwigcastError
from twigcast.spark.jars import Jar, fetch, kafka_connector
from twigcast.spark.java import find_java

VERSION = "4.1.0"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.partitions=2
"""


class NoBroker(TwigcastError):
    """Why there can be none here."""


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The address of a broker that runs meanwhile."""
    try:
        jars = fetch(f"kafka-broker-{VERSION}", [Jar("org.apache.kafka", "kafka_2.13", VERSION)])
    except TwigcastError as error:
        raise NoBroker("no-broker", error.text) from error
    port, controller = _free_port(), _free_port()
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, data=folder / "data"))
    path = os.pathsep.join(map(str, jars))
    java = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", path]
    name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with (folder / "broker.log").open("wb") as log:
        format = [*java, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(settings)]
        subprocess.run(format, check=True, stdout=log, stderr=log)
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            _wait_for(process, port)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise NoBroker("no-broker", f"the broker did not start (status {process.poll()})")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="session")
def kafka_servers(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker for all tests; where there can be none, they are skipped."""
    pytest.importorskip("confluent_kafka")
    try:
        kafka_connector()
        with broker(tmp_path_factory.mktemp("kafka")) as address:
            yield address
    except (NoBroker, TwigcastError) as error:
        if isinstance(error, NoBroker) or error.code == "kafka-connector":
            pytest.skip(error.text)
        raise
