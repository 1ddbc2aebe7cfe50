"""Kafka: a batch is sent in bounded transactions, each of which also holds how far the sink is.

Readers with ``isolation.level = read_committed`` see each delivery once. The progress of each stream is the committed
offset of a consumer group of its own, on a topic that holds no messages: an offset can be part of a producer's
transaction, a local file cannot. The offset counts deliveries (see :class:`Position`), so a batch may take several
transactions and a run that was killed goes on behind the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.common.references import resolve
from twigcast.config import KafkaSink as Settings
from twigcast.delivery.log import Piece
from twigcast.delivery.single import Waiting, singles
from twigcast.delivery.sinks.base import Batch, Context, Sink, SinkError, contents
from twigcast.errors import OptionError

CURSORS = "twigcast-cursors"
_TIMEOUT = 30.0
_BITS = 31
"""Bits of an offset that count deliveries of a batch."""

_Sent = tuple[int | None, int, tuple[Waiting, str, str] | None]
"""A delivery that was sent: its place in the batch, its bytes, and the dead letter if Kafka cannot take it."""


class Position(NamedTuple):
    """How far a sink is in a stream: all earlier batches are sent, and so many deliveries of this one.

    Deliveries are counted as the log has them, also those for other sinks, so that the count means the same after a
    change of routes.
    """

    batch: int
    deliveries: int = 0

    @classmethod
    def decode(cls, offset: int) -> Position:
        """Return the position that a committed offset stands for; a negative one means that there is none."""
        if offset < 0:
            return cls(0)
        if offset < 1 << _BITS:
            return cls(offset)  # of a version that sent a batch in one transaction: the number of batches
        return cls((offset >> _BITS) - 1, offset & ((1 << _BITS) - 1))

    def encode(self) -> int:
        return (self.batch + 1 << _BITS) | self.deliveries


class KafkaSink(Sink):
    """Sends deliveries to topics of Kafka, exactly once for readers of committed messages."""

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
        self._outbox = context.outbox
        self._targets = context.targets
        self._dead = context.dead
        self._producer: Any = None
        self._groups: dict[str, Any] = {}
        self._done: dict[str, Position] = {}
        self._share = 1.0
        """The part of the configured bounds that a transaction may take now: less after failures."""
        self._common()  # a secret that cannot be had is told at the start

    def deliver(self, batch: Batch) -> None:
        try:
            done = self._position(batch.stream)
            if done.batch <= batch.batch:
                sent = self._produce(batch, _start(done, batch))
                while self._transaction(batch, sent):
                    pass
        except self._kafka.KafkaException as error:
            self._forget()
            raise self._failure(error) from error

    def undelivered(self, batch: Batch) -> Iterator[Piece]:
        try:
            done = self._position(batch.stream)
        except self._kafka.KafkaException as error:
            self._forget()
            # A commit whose answer was lost may have succeeded. Only Kafka can tell.
            attempted = self._outbox.remembered(self.name, f"commit/{batch.stream}")
            if attempted is not None and Position.decode(int(attempted)) > Position(batch.batch):
                raise self._failure(error) from error
            done = Position(batch.batch)
        start = _start(done, batch)
        return iter(()) if done.batch > batch.batch else (_after(piece, start) for piece in batch.pieces())

    def close(self) -> None:
        self._forget()

    # -- transactions -------------------------------------------------------------------------------------------------

    def _transaction(self, batch: Batch, sent: Iterator[_Sent]) -> bool:
        """Send a bounded number of deliveries and the position after them; whether there are more.

        ``sent`` sends one delivery each time it is asked for the next.
        """
        producer = self._producer
        producer.begin_transaction()
        position = Position(batch.batch + 1)
        dead: list[tuple[Waiting, str, str]] = []
        count = size = 0
        began = time.monotonic()
        try:
            for place, length, refused in sent:
                count, size = count + 1, size + length
                if refused is not None:
                    dead.append(refused)
                if place is not None and self._is_full(count, size, began):
                    position = Position(batch.batch, place + 1)
                    break
            offset = self._kafka.TopicPartition(CURSORS, 0, position.encode())
            metadata = self._group(batch.stream).consumer_group_metadata()
            producer.send_offsets_to_transaction([offset], metadata, _TIMEOUT)
            if dead:
                self._dead.add(self.name, dead)  # first: what is in both is not lost
            self._outbox.remember(self.name, f"commit/{batch.stream}", str(position.encode()))
            self._commit()
        except BaseException as error:
            if isinstance(error, self._kafka.KafkaException):
                self._share = max(self._share / 2, 1e-9)  # perhaps it was too much for the transaction's timeout
            # Also where a piece could not be read: nothing of the batch may be left for the next commit to take along.
            try:
                producer.abort_transaction(_TIMEOUT)
            except self._kafka.KafkaException:
                self._producer = None
            raise
        self._share = min(self._share * 2, 1.0)
        self._done[batch.stream] = position
        return position.batch == batch.batch

    def _is_full(self, count: int, size: int, began: float) -> bool:
        """Whether a transaction should be committed, well before the brokers would end it."""
        settings = self._settings
        return (
            count >= settings.transaction_deliveries * self._share
            or size >= settings.transaction_bytes * self._share
            or time.monotonic() - began >= self._timeout / 3
        )

    @property
    def _timeout(self) -> float:
        """Seconds after which the brokers end a transaction."""
        return float(self._producer_options()["transaction.timeout.ms"]) / 1000

    def _commit(self) -> None:
        for _ in range(5):
            try:
                self._producer.commit_transaction(_TIMEOUT)
                return
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
        self._producer.commit_transaction(_TIMEOUT)

    def _produce(self, batch: Batch, start: int) -> Iterator[_Sent]:
        """Send the deliveries of a batch from a place on, one by one."""
        for piece in batch.pieces():
            yield from self._produce_piece(_after(piece, start))

    def _produce_piece(self, piece: Piece) -> Iterator[_Sent]:
        encoded = contents(piece)
        bodies: pa.Array = encoded.dictionary
        names = ("delivery", "subscription", "subscriber", "row")
        columns = [piece.deliveries.column(name).to_pylist() for name in names]
        places: list[int | None] = [None] * len(piece.deliveries) if piece.places is None else piece.places.to_pylist()
        of_message = {name: piece.messages.column(name) for name in ("message", "stream", "time", "headers")}
        heads: dict[int, tuple[list[tuple[str, bytes]], int]] = {}
        for number, (delivery, subscription, subscriber, row) in enumerate(zip(*columns, strict=True)):
            if row not in heads:
                heads[row] = _head(of_message, row)
            head, stamp = heads[row]
            headers = [
                *head,
                ("twigcast-delivery", delivery.encode()),
                ("twigcast-subscription", subscription.encode()),
            ]
            body = bodies[encoded.indices[number].as_py()].as_py()
            key = (subscriber or subscription).encode()
            error = self._send(self._topic(subscriber), key, body, headers, stamp)
            refused = None
            if error is not None:
                single = next(singles(piece.filter(_only(len(piece.deliveries), number))))
                refused = single, "kafka-refused", error
            yield places[number], len(body), refused

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
        producer = self._kafka.Producer(self._producer_options())
        self._make_cursor_topic()
        producer.init_transactions(_TIMEOUT)  # ends what a run before us has left open
        self._producer = producer
        self._done.clear()

    def _producer_options(self) -> dict[str, Any]:
        """Return librdkafka's options: the user's win over ours, except for the id that fences earlier runs."""
        ours = {"linger.ms": 20, "compression.type": "lz4", "transaction.timeout.ms": 60_000}
        return {**ours, **self._common(), "transactional.id": self._id}

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

    def _position(self, stream: str) -> Position:
        """Return how far the sink is in a stream. Connects if need be."""
        if self._producer is None:
            self._connect()
        if stream not in self._done:
            [found] = self._group(stream).committed([self._kafka.TopicPartition(CURSORS, 0)], _TIMEOUT)
            self._done[stream] = Position.decode(found.offset)
        return self._done[stream]

    def _group(self, stream: str) -> Any:
        """Return the consumer of a stream's group. It reads nothing: the group's offset is the sink's position."""
        if stream not in self._groups:
            # read_committed: an offset of a transaction that is still open must be waited for, not overlooked.
            own = {"group.id": f"{self._id}-{stream}", "enable.auto.commit": False, "isolation.level": "read_committed"}
            self._groups[stream] = self._kafka.Consumer({**self._common(), **own})
        return self._groups[stream]

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._settings.bootstrap_servers,
            "log_level": 0,
            **{name: self._option(name, value) for name, value in self._settings.options.items()},
        }

    def _option(self, name: str, value: str) -> str:
        return resolve(value, f"the option {name!r} of the sink {self.name!r}")

    def _forget(self) -> None:
        self._producer = None
        for group in self._groups.values():
            group.close()
        self._groups.clear()
        self._done.clear()

    def _failure(self, error: Any) -> SinkError:
        return SinkError(f"Kafka at {self._settings.bootstrap_servers}: {error.args[0].str()}")


def _start(done: Position, batch: Batch) -> int:
    """Return the place of the first delivery of a batch that is not sent."""
    return done.deliveries if done.batch == batch.batch else 0


def _after(piece: Piece, start: int) -> Piece:
    """Return the deliveries of a piece from a place of the batch on."""
    return piece if piece.places is None or not start else piece.filter(pc.greater_equal(piece.places, start))


def topic_of(pattern: str, subscriber: str | None) -> str:
    """Fill in ``{subscriber}``; what a topic's name cannot have becomes ``_`` and the code of the character."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else f"_{ord(c):x}_" for c in subscriber or "none")
    return pattern.replace("{subscriber}", safe)[:249]


def _head(of_message: dict[str, pa.Array], row: int) -> tuple[list[tuple[str, bytes]], int]:
    """Return what all deliveries of a message have in common: headers, and Kafka's timestamp."""
    headers = [(name, (value or "").encode()) for name, value in of_message["headers"][row].as_py() or ()]
    headers += [(f"twigcast-{name}", of_message[name][row].as_py().encode()) for name in ("message", "stream")]
    micros = of_message["time"][row].value
    return headers, int((time.time_ns() if micros is None else micros * 1000) // 1_000_000)


def _only(length: int, place: int) -> pa.Array:
    return pa.array([number == place for number in range(length)], pa.bool_())
