"""The Kafka sink against librdkafka's mock cluster; tests with a real broker are with the pipeline's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from batches import SINKS, commit, expected, in_lines, pipeline, some

from twigcast.delivery.outbox import Outbox
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks import Batch, SinkError
from twigcast.delivery.sinks.kafka import CURSORS, KafkaSink, Position, topic_of

kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    host = kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = host.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def read(servers: str, topic: str, count: int) -> list[Any]:
    own = {"group.id": f"reader-{time.time()}", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = kafka.Consumer({"bootstrap.servers": servers, "log_level": 0, **own})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([kafka.TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Any] = []
    until = time.time() + 20
    while time.time() < until:
        message = consumer.poll(0.5)
        if message is None and len(found) >= count:  # and no more than that
            break
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


def test_once(tmp_path: Path, servers: str) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": servers, "topic": "once"}
    settings = pipeline(tmp_path, {"bus": sink, "lines": SINKS["lines"]})
    log = commit(settings, 0, some(0, 30))
    commit(settings, 1, some(1, 30))
    ids = expected([log])
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
    messages = read(servers, "once", 60)
    headers = [dict(message.headers()) for message in messages]
    assert sorted(each["twigcast-delivery"].decode() for each in headers) == ids
    assert {message.key() for message in messages} == {b"q0", b"alice", b"bob"}
    assert headers[0]["twigcast-stream"] == b"s" and messages[0].value().startswith(b"<a n=")


def test_the_cursor_in_kafka_counts(tmp_path: Path, servers: str) -> None:
    """An offset as versions before bounded transactions have committed it: the number of batches."""
    settings = pipeline(tmp_path, {"bus": {"kind": "kafka", "bootstrap_servers": servers, "topic": "cursor"}})
    for number in range(3):
        commit(settings, number, some(number, 5))
    runner = Runner(settings)
    group = f"twigcast-{runner.outbox.state}-bus-s"
    runner.outbox.close()
    runner.dead.close()
    commit_offset(servers, group, 2)
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
    messages = read(servers, "cursor", 5)
    assert {dict(message.headers())["twigcast-message"][:3] for message in messages} == {b"m2-"} and len(messages) == 5


def commit_offset(servers: str, group: str, offset: int) -> None:
    """Set a sink's cursor. The mock cluster takes offsets of a transaction and forgets them."""
    maker = kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    maker.produce(CURSORS, b"")  # the mock makes a topic of what is sent to it
    maker.flush(10)
    consumer = kafka.Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[kafka.TopicPartition(CURSORS, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_batch_in_several_transactions(tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": servers, "topic": "split", "transaction_deliveries": 7}
    settings = pipeline(tmp_path, {"bus": sink})
    ids = expected([commit(settings, 0, some(0, 30)), commit(settings, 1, some(1, 14))])
    positions: list[str] = []
    remember = Outbox.remember
    monkeypatch.setattr(
        Outbox, "remember", lambda self, sink, name, value: (positions.append(value), remember(self, sink, name, value))
    )
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
    assert [Position.decode(int(value)) for value in positions] == [
        (0, 7), (0, 14), (0, 21), (0, 28), (1, 0), (1, 7), (1, 14), (2, 0),
    ]  # fmt: skip
    found = [dict(message.headers())["twigcast-delivery"].decode() for message in read(servers, "split", 44)]
    assert sorted(found) == sorted(set(ids)) and len(found) == 44


def test_transactions_of_few_bytes(tmp_path: Path, servers: str) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": servers, "topic": "bytes", "transaction_bytes": 3000}
    settings = pipeline(tmp_path, {"bus": sink})
    commit(settings, 0, some(0, 5), body=b"<a>" + b"x" * 1600 + b"</a>")
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
    assert len(read(servers, "bytes", 5)) == 5


def test_a_cursor_within_a_batch_counts(tmp_path: Path, servers: str) -> None:
    """A run that was killed between two transactions is followed by one that sends the rest."""
    settings = pipeline(tmp_path, {"bus": {"kind": "kafka", "bootstrap_servers": servers, "topic": "within"}})
    for number in range(2):
        commit(settings, number, some(number, 10))
    runner = Runner(settings)
    group = f"twigcast-{runner.outbox.state}-bus-s"
    runner.outbox.close()
    runner.dead.close()
    commit_offset(servers, group, Position(0, 6).encode())
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
    found = {dict(message.headers())["twigcast-message"].decode() for message in read(servers, "within", 14)}
    assert found == {f"m0-{n}" for n in range(6, 10)} | {f"m1-{n}" for n in range(10)}


def test_what_is_given_up_was_not_committed(tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = pipeline(tmp_path, {"bus": {"kind": "kafka", "bootstrap_servers": servers, "topic": "given-up"}})
    log = commit(settings, 0, some(0, 10))
    [committed] = log.batches()
    batch = Batch("s", 0, committed.time, committed.pieces)
    runner = Runner(settings)
    sink = runner.sinks["bus"].sink
    assert isinstance(sink, KafkaSink)
    commit_offset(servers, f"twigcast-{runner.outbox.state}-bus-s", Position(0, 6).encode())
    assert [len(piece.deliveries) for piece in sink.undelivered(batch)] == [4]
    sink.close()
    # Without Kafka it is known what was sent only if no commit of the batch was tried.
    gone = sink._settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    monkeypatch.setattr(sink, "_settings", gone)
    monkeypatch.setattr("twigcast.delivery.sinks.kafka._TIMEOUT", 0.5)
    assert [len(piece.deliveries) for piece in sink.undelivered(batch)] == [10]
    runner.outbox.remember("bus", "commit/s", str(Position(0, 6).encode()))
    with pytest.raises(SinkError, match=r"127\.0\.0\.1:1"):
        sink.undelivered(batch)
    runner.outbox.close()
    runner.dead.close()


def test_options_of_the_user_win(tmp_path: Path) -> None:
    options = {"transaction.timeout.ms": 600_000, "linger.ms": 5}
    settings = pipeline(
        tmp_path, {"bus": {"kind": "kafka", "bootstrap_servers": "x", "topic": "t", "options": options}}
    )
    runner = Runner(settings)
    sink = runner.sinks["bus"].sink
    assert isinstance(sink, KafkaSink)
    assert sink._timeout == 600 and sink._producer_options()["linger.ms"] == "5"
    runner.outbox.close()
    runner.dead.close()


def test_positions() -> None:
    for position in (Position(0), Position(0, 5), Position(7), Position(2**20, 2**31 - 1)):
        assert Position.decode(position.encode()) == position
    assert Position.decode(-1001) == (0, 0)
    assert Position.decode(3) == (3, 0), "batches, as versions before transactions were bounded count them"


def test_topics_of_subscribers(tmp_path: Path, servers: str) -> None:
    class Store:
        def subscriber(self, id: str) -> Any:
            return SimpleNamespace(targets={"kafka": {"topic": "bobs-own"}} if id == "bob" else {})

    settings = pipeline(tmp_path, {"bus": {"kind": "kafka", "bootstrap_servers": servers, "topic": "to.{subscriber}"}})
    commit(settings, 0, [("m", "q1", "alice"), ("m", "q2", "bob"), ("m", "q3", None)])
    with Runner(settings, Store()) as runner:
        assert runner.drain(), runner.status()
    for topic, id in (("to.alice", b"q1"), ("bobs-own", b"q2"), ("to.none", b"q3")):
        assert [dict(message.headers())["twigcast-subscription"] for message in read(servers, topic, 1)] == [id]


def test_too_large_for_kafka(tmp_path: Path, servers: str) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": servers, "topic": "large", "options": {"message.max.bytes": 2000}}
    settings = pipeline(tmp_path, {"bus": sink})
    commit(settings, 0, [("small", "q", "a")])
    commit(settings, 1, [("large", "q", "a")], body=b"<a>" + b"x" * 5000 + b"</a>")
    commit(settings, 2, [("small2", "q", "a")])
    with Runner(settings) as runner:
        assert runner.drain(), runner.status()
        [letter] = runner.dead.letters()
        assert (letter.message, letter.reason, letter.sink) == ("large", "kafka-refused", "bus")
    assert len(read(servers, "large", 2)) == 2


def test_no_broker(tmp_path: Path) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "t"}
    settings = pipeline(tmp_path, {"bus": sink, "lines": SINKS["lines"]})
    commit(settings, 0, some(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twigcast.delivery.sinks.kafka._TIMEOUT", 1.0)
        with Runner(settings) as runner:
            assert not runner.drain(patience=4)
            status = {each.sink: each for each in runner.status()}
            assert "127.0.0.1:1" in str(status["bus"].error)
    assert len(in_lines(tmp_path / "lines")) == 10


def test_topic_names() -> None:
    assert topic_of("x.{subscriber}", "a b/é") == "x.a_20_b_2f__e9_" and topic_of("t", "a") == "t"
    assert topic_of("{subscriber}", "_20_") != topic_of("{subscriber}", " ")
