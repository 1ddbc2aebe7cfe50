"""Kafka clusters that do not answer, found before Spark is started: its connector would wait for minutes."""

from __future__ import annotations

import difflib
import logging
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from twigcast import config
from twigcast.errors import OptionError

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
"""For all addresses of one cluster together."""
ANSWER_SECONDS = 10.0
"""For the list of topics, once a broker accepts connections."""


def check_kafka(settings: config.Pipeline) -> None:
    """Check that the Kafka clusters of a configuration answer, and that the topics of its streams exist.

    A sink that is out of reach is a warning: its deliveries wait in the log, and other sinks go on.

    Raises
    ------
    OptionError
        ``kafka-unreachable`` or ``no-such-topic``, naming the stream, the address and the topic.
    """
    for name, stream in settings.streams.items():
        if isinstance(stream, config.Kafka):
            topics = [topic.strip() for topic in stream.topic.split(",")]
            check_cluster(f"stream {name!r}", stream.bootstrap_servers, topics, secured=_is_secured(stream.options))
    for name, sink in settings.sinks.items():
        if isinstance(sink, config.KafkaSink):
            try:
                # A topic that is missing may be made by the broker when the first message comes.
                check_cluster(f"sink {name!r}", sink.bootstrap_servers, (), secured=_is_secured(sink.options))
            except OptionError as error:
                logger.warning("warning: %s; its deliveries wait", error.text)


def check_cluster(who: str, servers: str, topics: Iterable[str], *, secured: bool = False) -> None:
    """Check that a cluster answers, within 15 seconds, and has the topics.

    Where it wants TLS or a password, only that a broker accepts connections: the settings of Spark's connector, which
    is Java, are not those of the client that asks here.
    """
    addresses = [_split(address) for address in servers.split(",")]
    refusals = _refusals(addresses)
    if len(refusals) == len(addresses):
        raise _unreachable(who, servers, "; ".join(refusals))
    if secured:
        return
    known = _topics(who, servers)
    if known is None:
        return
    for topic in topics:
        if topic not in known:
            raise OptionError(
                "no-such-topic",
                f"{who}: Kafka at {servers} has no topic {topic!r}",
                hint=_similar(topic, known),
            )


def _similar(topic: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(topic, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "create it, or correct the name"


def _refusals(addresses: list[tuple[str, int]]) -> list[str]:
    """Return why each address accepts no connection; ends at the first one that does."""
    deadline = time.monotonic() + CONNECT_SECONDS
    refusals: list[str] = []
    for number, (host, port) in enumerate(addresses):
        share = max(0.5, (deadline - time.monotonic()) / (len(addresses) - number))
        try:
            with socket.create_connection((host, port), timeout=share):
                return refusals
        except OSError as error:
            refusals.append(f"{host}:{port}: {error.strerror or error or 'no answer'}")
        except UnicodeError:  # as in kafka..example.org
            refusals.append(f"{host}:{port}: this is not the name of a host")
    return refusals


def _topics(who: str, servers: str) -> set[str] | None:
    """Return the topics of a cluster, or None where the client for it is not installed."""
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ImportError:
        return None
    told: list[str] = []
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "log_level": 0,  # what it logs is an error of ours
        "error_cb": lambda error: told.append(str(error.str() if hasattr(error, "str") else error)),
    }
    try:
        return set(AdminClient(options).list_topics(timeout=ANSWER_SECONDS).topics)
    except KafkaException as error:
        reason = told[-1] if told else error.args[0].str()
        raise _unreachable(who, servers, f"{reason} within {ANSWER_SECONDS:.0f} s") from error


def _unreachable(who: str, servers: str, why: str) -> OptionError:
    return OptionError(
        "kafka-unreachable",
        f"{who}: Kafka at {servers} does not answer: {why}",
        hint="check bootstrap_servers, and that a broker runs there",
    )


def _is_secured(options: Mapping[str, str]) -> bool:
    names = ("kafka.security.protocol", "security.protocol")
    return any(options.get(name, "PLAINTEXT").upper() != "PLAINTEXT" for name in names)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    return host.strip("[]") or port, int(port) if host and port.isdigit() else 9092
