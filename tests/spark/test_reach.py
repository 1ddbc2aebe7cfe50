"""Kafka that does not answer, topics that are missing, and connectors that were not tested: said at once."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from pipeline_files import Site

from twigcast.cli.run import run as run_command
from twigcast.errors import OptionError
from twigcast.spark import jars, reach
from twigcast.spark.reach import check_cluster, check_kafka

STREAM = '[streams.orders]\nsource = "kafka"\nbootstrap_servers = "{servers}"\ntopic = "{topic}"\n{more}'
SINK = '[sinks.bus]\nkind = "kafka"\nbootstrap_servers = "{servers}"\ntopic = "out"\n'


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def silent() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    accepted.append(server.accept()[0])
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        for connection in accepted:
            connection.close()


@pytest.fixture(scope="module")
def mock_cluster() -> Iterator[str]:
    """A cluster with the topic ``orders``, as librdkafka mocks it."""
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1})
    brokers = producer.list_topics(timeout=10).brokers.values()
    producer.produce("orders", b"<a/>")
    producer.flush(10)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    producer.purge()


def test_no_broker_listens(tmp_path: Path) -> None:
    port = closed_port()
    site = Site(tmp_path, STREAM.format(servers=f"127.0.0.1:{port}", topic="orders", more=""))
    started = time.monotonic()
    result = CliRunner().invoke(run_command, [str(site.file), "--once"])
    assert time.monotonic() - started < 20
    error = result.exception
    assert isinstance(error, OptionError) and error.code == "kafka-unreachable"
    assert f"127.0.0.1:{port}: Connection refused" in error.text and "'orders'" in error.text
    assert "bootstrap_servers" in str(error)


def test_a_broker_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(reach, "ANSWER_SECONDS", 1.0)
    with silent() as address:
        with pytest.raises(OptionError, match=f"Kafka at {address} does not answer"):
            check_cluster("stream 'orders'", address, ["orders"])
        # TLS and passwords are settings of Java: that somebody listens must do.
        check_cluster("stream 'orders'", address, ["orders"], secured=True)


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(OptionError, match=r"kafka\.invalid:9092"):
        check_cluster("stream 'orders'", "kafka.invalid:9092", [])


@pytest.mark.parametrize("host", ["kafka..invalid", "k" * 64 + ".invalid"])
def test_what_cannot_be_a_name(host: str) -> None:
    with pytest.raises(OptionError, match="is not the name of a host"):
        check_cluster("stream 'orders'", f"{host}:9092", [])


def test_topics(mock_cluster: str) -> None:
    down = f"127.0.0.1:{closed_port()}"
    check_cluster("stream 'orders'", mock_cluster, ["orders"])
    check_cluster("stream 'orders'", f"{down},{mock_cluster}", ["orders"])
    with pytest.raises(OptionError, match="has no topic 'order'") as caught:
        check_cluster("stream 'orders'", mock_cluster, ["orders", "order"])
    assert caught.value.code == "no-such-topic" and "did you mean 'orders'?" in str(caught.value)


def test_a_sink_out_of_reach_holds_nobody_back(
    mock_cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    down = f"127.0.0.1:{closed_port()}"
    site = Site(tmp_path, STREAM.format(servers=mock_cluster, topic="orders", more="") + SINK.format(servers=down))
    check_kafka(site.settings)
    assert f"sink 'bus': Kafka at {down} does not answer" in caplog.text


@pytest.mark.parametrize(
    ("spark", "options", "warns"),
    [
        ("4.3.0", {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}, False),
        ("4.3.0", {"spark.jars": "/jars/a-1.jar,/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"}, False),
        ("4.3.0", {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.1.1.jar,/jars/kafka-clients-3.9.2.jar"}, True),
        ("4.3.1", {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,a:b:1"}, True),
        ("4.4.0", {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.4.0"}, True),
        ("4.4.0", {}, False),
    ],
)
def test_a_connector_that_was_not_tested(
    spark: str, options: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    jars.warn_of_connector(spark, options)
    assert ("is not tested" in caplog.text) == warns
    if warns:
        assert spark in caplog.text and "4.2.0 on Spark 4.3.0" in caplog.text


def test_which_connector_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(jars, "cache_folder", lambda: tmp_path)
    for version in ("4.2.0", "4.4.0"):
        folder = tmp_path / f"kafka-connector-{version}"
        folder.mkdir()
        (folder / f"spark-sql-kafka-0-10_2.13-{version}.jar").touch()
    for spark, taken in (("4.3.0", "4.2.0"), ("4.4.0", "4.4.0"), ("4.5.0", "4.2.0")):
        monkeypatch.setattr(pyspark, "__version__", spark)
        (path,) = jars.kafka_connector()
        assert path.name.endswith(f"-{taken}.jar")


def test_an_address_of_ipv6() -> None:
    assert reach._split("[::1]:9093") == ("::1", 9093) and reach._split("broker") == ("broker", 9092)
