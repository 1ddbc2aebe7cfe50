"""A real Kafka broker as source and as sink, with the driver killed in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pipeline_files import Site
from test_crash import start, wait_for

import twigcast

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("java")]

CONFIG = """
[streams.orders]
source = "kafka"
bootstrap_servers = "{servers}"
topic = "orders"
time = "transport"
max_offsets = 200
[sinks.bus]
kind = "kafka"
bootstrap_servers = "{servers}"
topic = "deliveries"
"""
MESSAGES = 1500


def produce(servers: str, topic: str, messages: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in messages:
        producer.produce(topic, f'<m n="{number}"/>'.encode(), key=f"k{number}", headers={"source": "test"})
        producer.poll(0)
    assert producer.flush(60) == 0


def consume(servers: str, topic: str) -> list[tuple[str, dict[str, bytes], bytes]]:
    """Everything committed in a topic: key, headers, value."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    found = []
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        while (message := consumer.poll(3.0)) is not None:
            if message.error() is None:
                key = message.key().decode() if message.key() else ""
                found.append((key, dict(message.headers() or ()), message.value()))
    finally:
        consumer.close()
    return found


def test_exactly_once_under_a_kill(kafka_servers: str, tmp_path: Path) -> None:
    site = Site(tmp_path, CONFIG.format(servers=kafka_servers))
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe("/m", id="all", subscriber="ann")
    produce(kafka_servers, "orders", range(MESSAGES // 2))
    process = start(site)
    log = site.folder / "run.log"
    try:
        wait_for(lambda: process.poll() is not None or site.in_lake().total() >= 200, 600)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        produce(kafka_servers, "orders", range(MESSAGES // 2, MESSAGES))
        process = start(site)
        wait_for(lambda: process.poll() is not None or site.in_lake().total() >= MESSAGES, 600)
        wait_for(lambda: process.poll() is not None or len(consume(kafka_servers, "deliveries")) >= MESSAGES, 600)
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
    delivered = consume(kafka_servers, "deliveries")
    bodies = Counter(value for _, _, value in delivered)
    assert bodies == Counter(f'<m n="{number}"/>'.encode() for number in range(MESSAGES))
    assert {key for key, _, _ in delivered} == {"ann"}
    lake = site.in_lake()
    assert lake.total() == len(lake) == MESSAGES
    assert all(message.startswith("orders/") for message, _ in lake)


def test_killed_between_the_transactions_of_a_batch(kafka_servers: str, tmp_path: Path) -> None:
    """Each run goes on behind the last transaction that was committed, whether its driver knew of it or not."""
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(Path(twigcast.__file__).parents[1])}
    command = [sys.executable, str(here / "kafka_sink_driver.py"), str(tmp_path), kafka_servers, "split", "1000"]
    for dies in ("2 before", "3 after", "0 before", "0 after"):
        ran = subprocess.run([*command, dies], env=environment, timeout=180, check=False)
        assert ran.returncode == 9
    assert len(consume(kafka_servers, "split")) == 700, "two commits, four, none, and one"
    subprocess.run([*command, "-"], env=environment, timeout=180, check=True)
    found = Counter(value for _, _, value in consume(kafka_servers, "split"))
    assert found == Counter(f"m{number}".encode() for number in range(1000))
