"""Kafka: one transaction per batch, which also holds how far the sink is. Readers with ``isolation.level =
read_committed`` see each delivery once.

The progress of each stream is the committed offset of a group of its own, on a topic that holds no messages:
an offset can be part of a producer's transaction, a local file cannot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from twigcast.config import KafkaSink as Settings
from twigcast.delivery.log import Piece
from twigcast.delivery.single import Waiting, singles
from twigcast.delivery.sinks.base import Batch, Context, Sink, SinkError, contents
from twigcast.errors import OptionError

CURSORS = "twigcast-cursors"
_TIMEOUT = 30.0


class KafkaSink(Sink):
    def __init__(self, name: str, settings: Settings, context: Context) -> None:
        super().__init__(name)
        try:
            import confluent_kafka
        except ImportError as error:
            hint = "pip install 'twigcast[kafka]'"
            raise OptionError("kafka-missing", f"confluent-kafka cannot be imported: {error}", hint=hint) from error
        self._kafka: Any = confluent_kafka
        self._settings = settings
        self._id = f"twigcast-{context.state}-{name}"
        self._targets = context.targets
        self._dead = context.dead
        self._producer: Any = None
        self._done: dict[str, int] = {}

    def deliver(self, batch: Batch) -> None:
        try:
            if self._producer is None:
                self._connect()
            if batch.batch > self._cursor(batch.stream):
                self._transaction(batch)
        except self._kafka.KafkaException as error:
            self._forget()
            raise SinkError(f"Kafka at {self._settings.bootstrap_servers}: {error.args[0].str()}") from error

    def close(self) -> None:
        self._forget()

    # -- the transaction ----------------------------------------------------------------------------------------------

    def _transaction(self, batch: Batch) -> None:
        producer = self._producer
        producer.begin_transaction()
        dead: list[tuple[Waiting, str, str]] = []
        try:
            for piece in batch.pieces():
                dead += self._produce(piece)
            group = self._group(batch.stream)
            try:
                offset = self._kafka.TopicPartition(CURSORS, 0, batch.batch + 1)
                producer.send_offsets_to_transaction([offset], group.consumer_group_metadata(), _TIMEOUT)
            finally:
                group.close()
            if dead:
                self._dead.add(self.name, dead)  # first: what is in both is not lost
            self._commit()
        except BaseException:
            # Also where a piece could not be read: nothing of the batch may be left for the next commit to take along.
            try:
                producer.abort_transaction(_TIMEOUT)
            except self._kafka.KafkaException:
                self._producer = None
            raise
        self._done[batch.stream] = batch.batch

    def _commit(self) -> None:
        for _ in range(5):
            try:
                self._producer.commit_transaction(_TIMEOUT)
                return
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
        self._producer.commit_transaction(_TIMEOUT)

    def _produce(self, piece: Piece) -> Iterator[tuple[Waiting, str, str]]:
        encoded = contents(piece)
        bodies: pa.Array = encoded.dictionary
        names = ("delivery", "subscription", "subscriber", "row")
        columns = [piece.deliveries.column(name).to_pylist() for name in names]
        of_message = {name: piece.messages.column(name) for name in ("message", "stream", "time", "headers")}
        heads: dict[int, tuple[list[tuple[str, bytes]], int]] = {}
        for place, (delivery, subscription, subscriber, row) in enumerate(zip(*columns, strict=True)):
            if row not in heads:
                heads[row] = _head(of_message, row)
            head, stamp = heads[row]
            headers = [
                *head,
                ("twigcast-delivery", delivery.encode()),
                ("twigcast-subscription", subscription.encode()),
            ]
            body = bodies[encoded.indices[place].as_py()].as_py()
            key = (subscriber or subscription).encode()
            error = self._send(self._topic(subscriber), key, body, headers, stamp)
            if error is not None:
                single = next(singles(piece.filter(_only(len(piece.deliveries), place))))
                yield single, "kafka-refused", error

    def _send(self, topic: str, key: bytes, body: bytes, headers: list[tuple[str, bytes]], stamp: int) -> str | None:
        while True:
            try:
                self._producer.produce(topic, body, key, headers=headers, timestamp=stamp)
                self._producer.poll(0)
                return None
            except BufferError:
                self._producer.poll(0.1)
            except self._kafka.KafkaException as error:
                if error.args[0].code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
                    return str(error.args[0].str())
                raise

    def _topic(self, subscriber: str | None) -> str:
        own = self._targets.of(subscriber, "kafka")
        if own is not None and "topic" in own:
            return own["topic"]
        return topic_of(self._settings.topic, subscriber)

    # -- the connection -----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        producer = self._kafka.Producer(
            {
                "linger.ms": 20,
                "compression.type": "lz4",
                **self._common(),
                "transactional.id": self._id,
                "transaction.timeout.ms": 60_000,
            }
        )
        self._make_cursor_topic()
        producer.init_transactions(_TIMEOUT)  # ends what a run before us has left open
        self._producer = producer
        self._done.clear()

    def _make_cursor_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient(self._common())
        if admin.list_topics(CURSORS, timeout=_TIMEOUT).topics[CURSORS].error is None:
            return  # it was there, or the brokers make topics by themselves
        topic = NewTopic(CURSORS, num_partitions=1, config={"cleanup.policy": "compact"})
        for made in admin.create_topics([topic]).values():
            try:
                made.result(_TIMEOUT)
            except self._kafka.KafkaException as error:
                if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _cursor(self, stream: str) -> int:
        if stream not in self._done:
            group = self._group(stream)
            try:
                [found] = group.committed([self._kafka.TopicPartition(CURSORS, 0)], _TIMEOUT)
            finally:
                group.close()
            self._done[stream] = found.offset - 1 if found.offset >= 0 else -1
        return self._done[stream]

    def _group(self, stream: str) -> Any:
        # read_committed: an offset of a transaction that is still open must be waited for, not overlooked.
        own = {"group.id": f"{self._id}-{stream}", "enable.auto.commit": False, "isolation.level": "read_committed"}
        return self._kafka.Consumer({**self._common(), **own})

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._settings.bootstrap_servers,
            "log_level": 0,
            **self._settings.options,
        }

    def _forget(self) -> None:
        self._producer = None
        self._done.clear()


def topic_of(pattern: str, subscriber: str | None) -> str:
    """``{subscriber}`` filled in; what a topic's name cannot have becomes ``_`` and the code of the character."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else f"_{ord(c):x}_" for c in subscriber or "none")
    return pattern.replace("{subscriber}", safe)[:249]


def _head(of_message: dict[str, pa.Array], row: int) -> tuple[list[tuple[str, bytes]], int]:
    """What all deliveries of a message have in common: headers, and Kafka's timestamp."""
    headers = [(name, (value or "").encode()) for name, value in of_message["headers"][row].as_py() or ()]
    headers += [(f"twigcast-{name}", of_message[name][row].as_py().encode()) for name in ("message", "stream")]
    micros = of_message["time"][row].value
    return headers, int((time.time_ns() if micros is None else micros * 1000) // 1_000_000)


def _only(length: int, place: int) -> pa.Array:
    return pa.array([number == place for number in range(length)], pa.bool_())
