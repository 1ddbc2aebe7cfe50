"""A driver without Spark, to be killed: commits batches of messages and delivers them. Run as a program."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from twigcast import config
from twigcast.delivery import Log, LogWriter
from twigcast.delivery.runner import Runner

SIZE = 200
"""Messages of a batch."""


def write(log: Log, batch: int, digests: bool) -> Any:
    names = [f"m{batch}-{number}" for number in range(SIZE)]
    messages = pa.record_batch({"message": names, "xml": [b"<a>%d</a>" % number for number in range(SIZE)]})
    rows = [number for number in range(SIZE) for _ in range(2)]
    deliveries = pa.record_batch(
        {
            "row": pa.array(rows, pa.int32()),
            "subscription": [f"q{place % 2}" for place in range(2 * SIZE)],
            "subscriber": [f"sub{row % 5}" for row in rows],
            "max_delay": pa.array([1 if digests and place % 2 else None for place in range(2 * SIZE)], pa.int64()),
        }
    )
    with LogWriter(str(log.staging), log.stream).part() as part:
        part.write(messages, deliveries)
        part.reject(pa.record_batch({"message": [f"bad{batch}"], "reason": ["bad-tag"], "original": [b"<"]}))
    return part.report


def main(raw: str, folder: str, batches: int, digests: bool) -> None:
    settings = config.Pipeline.model_validate(json.loads(raw), context={"folder": Path(folder)})
    log = Log(settings.state.log, "s")
    with log.claimed(), Runner(settings) as runner:
        print("ready", flush=True)
        for batch in range(batches):
            if log.committed(batch) is None:
                log.commit(batch, 1, [write(log, batch, digests)])
                runner.wake()
        assert runner.drain(patience=60)
        time.sleep(0.05 if digests else 0)
        assert runner.drain(patience=60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "digests")
