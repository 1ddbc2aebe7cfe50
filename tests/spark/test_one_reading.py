"""What workers do with a message of a pipeline reads it once, whatever is asked: their stages, called without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from fake_store import FakeStore

from twigcast import _kernel
from twigcast.delivery import Log, LogWriter
from twigcast.limits import Limits
from twigcast.schema.gate import Gate
from twigcast.spark import LiveSet
from twigcast.spark.serve import LOCAL
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import message_batch
from twigcast.spark.sources.seen_source import SeenReader
from twigcast.spark.stages import validity
from twigcast.spark.stages.correlate import Buckets, Incoming, Storage, process
from twigcast.spark.stages.deliver import DeliverTask
from twigcast.spark.stages.seeing import Seeing
from twigcast.spark.stages.standing import Shipped, Standing
from twigcast.spark.stages.validity import Reading, Validity
from twigcast.units import SECOND

DTD = "<!ELEMENT a (k*)><!ATTLIST a t CDATA #REQUIRED><!ELEMENT k (#PCDATA)>"
GOOD = [f'<a t="{number}"><k>{number // 2}</k></a>'.encode() for number in range(1, 5)]
INVALID, UNDATED, BROKEN = b'<a t="9"><b/></a>', b'<a t="soon"/>', b"<a"
OTHER = b'<a t="7"></a>'
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


def test_a_message_is_read_once_on_its_way_through_a_pipeline(
    tmp_path: Path, reading: Reading, judged: list[bytes]
) -> None:
    """Filters, a residual filter, a transform, correlations, the time at a path, and a schema that rejects."""
    store = FakeStore()
    store.put("filter", "/a[k = 1]")
    store.put("residual", "/a[count(k) = position()]")
    store.put("nodes", "//k", result="nodes")
    store.put("transform", "<r>{ for $k in /a/k where $k = 1 return $k }</r>")
    (version,) = LiveSet(store, tmp_path / "snapshots").current().shards
    seeing = Seeing(Shipped.write(tmp_path, [(JOIN, UNSEEN)], LOCAL), "S")
    xml = [*GOOD, INVALID, UNDATED, BROKEN, OTHER]
    with Log(tmp_path / "log", "S").claimed() as log:
        writer = LogWriter(str(log.staging), "S")
        task = DeliverTask(reading.load, reading.time, "S", version, writer, validity=reading.validity, seeing=seeing)
        list(task(messages(GOOD)))  # opens the snapshot
        judged.clear()
        before = _kernel.documents_built()
        reports = [row for batch in task(messages(xml)) for row in batch.to_pylist()]
        counts = log.commit(0, 1, reports)
        assert _kernel.documents_built() - before == len(xml)
        assert judged == [*GOOD, INVALID, OTHER]  # what is refused already needs no verdict
        assert (counts.messages, counts.rejects, counts.failures) == (8, 3, 0)
        # 2 and 3 have k = 1; without a k, "nodes" and "residual" match nothing
        assert counts.deliveries == 4 * len(("residual", "nodes")) + 2 * len(("filter", "transform"))
        incoming = seen_in(tmp_path / "log")
        assert [one.xml for one in incoming] == [*GOOD, None]  # of the last one only the time counts
        assert [one.time // SECOND for one in incoming] == [1, 2, 3, 4, 7]
        assert not list(process(Buckets(((UNSEEN,),), lateness=0, seen=True), 0, incoming, Storage()))
        assert _kernel.documents_built() - before == len(xml)
        found = list(process(Buckets(((JOIN,),), lateness=0, seen=True), 0, incoming, Storage()))
        assert [(row["kind"], row["messages"]) for row in found] == [("result", ["1", "2"])]


def seen_in(logs: Path) -> list[Incoming]:
    """Return what the query over correlations reads from the log of the stream S, in the order of ids."""
    reader = SeenReader({"logs": str(logs), "beginning": '{"S": -1}', "slices": "2"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert end == {"S": 0} and reader.latestOffset(end, None) == end
    rows = [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]
    incoming = [Incoming(**{**row, "time": round(row["time"].timestamp() * SECOND)}) for row in rows]
    return sorted(incoming, key=lambda one: one.message)


def test_the_engine_of_a_worker_follows_the_correlations(tmp_path: Path) -> None:
    """They come, go and change between micro-batches; filters are not concerned."""
    store = FakeStore()
    store.put("filter", "/a[k = 1]")
    (version,) = LiveSet(store, tmp_path / "snapshots").current().shards
    other = Standing("join", "S/c->x[k->k] FOLLOWED BY{k = l, 1 h} S/c->y[k->l]")
    for standing, seen in (
        ((JOIN,), 4),
        ((UNSEEN,), 0),
        ((JOIN, UNSEEN), 4),
        ((other,), 0),
        ((other, JOIN._replace(id="again")), 4),
    ):
        one = Seeing(Shipped.write(tmp_path, [standing], LOCAL), "S")
        with Log(tmp_path / f"log-{len(list(tmp_path.iterdir()))}", "S").claimed() as log:
            task = DeliverTask(iter, EventTime("/a/@t"), "S", version, LogWriter(str(log.staging), "S"), seeing=one)
            counts = log.commit(0, 1, [row for batch in task(messages(GOOD)) for row in batch.to_pylist()])
            assert counts.deliveries == 2
            assert sum(one.witness is not None for one in seen_in(log.folder.parent)) == seen
