"""A driver without Spark that sends one batch to Kafka in many transactions, and dies where it is told to.

    python kafka_sink_driver.py FOLDER SERVERS TOPIC DELIVERIES DIES

``DIES`` is ``-``, or a number and ``before`` or ``after``: so many commits are made, and the process ends before the
next commit is asked for, or as soon as the next one has succeeded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa

from twigcast import config
from twigcast.delivery import Log, LogWriter
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks.kafka import KafkaSink


def main(folder: str, servers: str, topic: str, deliveries: int, dies: str) -> None:
    sink = {"kind": "kafka", "bootstrap_servers": servers, "topic": topic, "transaction_deliveries": 100}
    raw = {"state": {"path": "state"}, "streams": {"s": {"source": "rate"}}, "sinks": {"bus": sink}}
    settings = config.Pipeline.model_validate(raw, context={"folder": Path(folder)})
    log = Log(settings.state.log, "s")
    if dies != "-":
        die(*dies.split())
    with log.claimed(), Runner(settings) as runner:
        if log.committed(0) is None:
            with LogWriter(str(log.staging), "s").part() as part:
                names = [f"m{number}" for number in range(deliveries)]
                messages = pa.record_batch({"message": names, "xml": [name.encode() for name in names]})
                rows = pa.array(range(deliveries), pa.int32())
                part.write(messages, pa.record_batch({"row": rows, "subscription": ["q"] * deliveries}))
            log.commit(0, 1, [part.report])
            runner.wake()
        assert runner.drain(patience=120), runner.status()


def die(commits: str, when: str) -> None:
    left = int(commits)
    commit = KafkaSink._commit

    def dying(self: KafkaSink) -> None:
        nonlocal left
        left -= 1
        if left < 0 and when == "before":
            self._producer.flush(30)  # what the transaction holds is in Kafka, and must not count
            os._exit(9)
        commit(self)
        if left < 0:
            os._exit(9)

    KafkaSink._commit = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
