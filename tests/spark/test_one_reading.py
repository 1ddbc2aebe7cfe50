"""What workers do with a message of a pipeline reads it once, whatever is asked: their stages, called without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from fake_store import FakeStore

from twigcast import _kernel
from twigcast.delivery import LogWriter
from twigcast.limits import Limits
from twigcast.schema.gate import Gate
from twigcast.spark import LiveSet
from twigcast.spark.serve import LOCAL
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import message_batch
from twigcast.spark.stages import validity
from twigcast.spark.stages.correlate import Blob, Buckets, Incoming, Stored, process
from twigcast.spark.stages.deliver import DeliverTask
from twigcast.spark.stages.seeing import Seeing
from twigcast.spark.stages.standing import Shipped, Standing
from twigcast.spark.stages.validity import Reading, SeeTask, Validity
from twigcast.units import SECOND

DTD = "<!ELEMENT a (k*)><!ATTLIST a t CDATA #REQUIRED><!ELEMENT k (#PCDATA)>"
GOOD = [f'<a t="{number}"><k>{number // 2}</k></a>'.encode() for number in range(1, 5)]
INVALID, UNDATED, BROKEN = b'<a t="9"><b/></a>', b'<a t="soon"/>', b"<a"
JOIN = Standing("join", "S/a->x[k->k] FOLLOWED BY{k = l, 1 h} S/a->y[k->l]")
UNSEEN = Standing("unseen", "S/b->x[k->k] JOIN{k = l, 1 h} S/b->y[k->l]")


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    schema = tmp_path / "a.dtd"
    schema.write_text(DTD)
    return Reading(iter, EventTime("/a/@t"), Validity((str(schema),)))


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The messages that libxml2 is asked about."""
    asked: list[bytes] = []

    class Counting(Gate):
        def error(self, xml: bytes, limits: Limits) -> object:  # type: ignore[override]
            asked.append(xml)
            return super().error(xml, limits)

    monkeypatch.setattr(validity, "Gate", Counting)
    return asked


def messages(xml: list[bytes]) -> Iterator[pa.RecordBatch]:
    ids = pa.array([str(number) for number in range(len(xml))])
    yield message_batch(ids, pa.array(xml, pa.binary()), arrival=pa.repeat(pa.scalar(100 * SECOND), len(xml)))


def test_matching_dating_and_checking_read_a_message_once(
    tmp_path: Path, reading: Reading, judged: list[bytes]
) -> None:
    store = FakeStore()
    store.put("filter", "/a[k = 1]")
    store.put("residual", "/a[count(k) = position()]")
    store.put("nodes", "//k", result="nodes")
    store.put("transform", "<r>{ for $k in /a/k where $k = 1 return $k }</r>")
    (version,) = LiveSet(store, tmp_path / "snapshots").current().shards
    (tmp_path / "staging").mkdir()
    writer = LogWriter(str(tmp_path / "staging"), "S")
    task = DeliverTask(reading.load, reading.time, "S", version, writer, validity=reading.validity)
    list(task(messages(GOOD)))  # opens the snapshot
    judged.clear()
    before = _kernel.documents_built()
    (report,) = (row for batch in task(messages([*GOOD, INVALID, UNDATED])) for row in batch.to_pylist())
    assert _kernel.documents_built() - before == 6
    assert judged == [*GOOD, INVALID]  # what is refused for its time needs no verdict
    assert (report["messages"], report["rejects"], report["failures"]) == (6, 2, 0)
    # 2 and 3 have k = 1
    assert report["deliveries"] == 4 * len(("residual", "nodes")) + 2 * len(("filter", "transform"))


class _Memory:
    def __init__(self) -> None:
        self.blobs: dict[int, Blob] = {}

    def stored(self) -> Stored | None:
        return None

    def store(self, stored: Stored) -> None: ...

    def blob(self, number: int) -> Blob | None:
        return self.blobs.get(number)

    def put(self, number: int, blob: Blob) -> None: ...

    def drop(self, number: int) -> None: ...

    def since(self) -> str | None:
        return None

    def set_since(self, text: str) -> None: ...


def test_correlations_take_what_was_seen_when_a_message_was_dated(
    tmp_path: Path, reading: Reading, judged: list[bytes]
) -> None:
    shipped = Shipped.write(tmp_path, [(JOIN, UNSEEN)], LOCAL)
    see = SeeTask(reading, Seeing(shipped, "S"), Limits())
    xml = [*GOOD, INVALID, UNDATED, BROKEN, b'<a t="7"></a>']
    before = _kernel.documents_built()
    rows = [row for batch in see(messages(xml)) for row in batch.to_pylist()]
    assert _kernel.documents_built() - before == len(xml)
    assert judged == [*GOOD, INVALID, xml[-1]]
    errors = {row["message"]: row["error"]["code"] for row in rows if row["error"]}
    assert errors.keys() == {"4", "5", "6"} and errors["4"] == "invalid" and errors["5"] == "no-time"
    seen = [row for row in rows if not row["error"]]
    assert [row["xml"] for row in seen] == [*GOOD, None]  # of the last one only the time counts
    incoming = [
        Incoming("S", row["message"], round(row["time"].timestamp() * SECOND), row["xml"], row["witness"])
        for row in seen
    ]
    task = Buckets(((UNSEEN,),), lateness=0, seen=True)
    before = _kernel.documents_built()
    assert not list(process(task, 0, incoming, _Memory()))
    assert _kernel.documents_built() == before
    found = list(process(Buckets(((JOIN,),), lateness=0, seen=True), 0, incoming, _Memory()))
    assert [(row["kind"], row["messages"]) for row in found] == [("result", ["1", "2"])]
