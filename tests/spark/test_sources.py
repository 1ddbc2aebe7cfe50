"""Each source gives the messages, ids, times and headers that it should."""

from __future__ import annotations

import gzip
import os
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

from twigcast.errors import OptionError, QueryError
from twigcast.spark import read


def rows_of(spark: SparkSession, tmp_path: Path, **stream: Any) -> dict[str, Row]:
    """All messages that are there now, by id."""
    found: dict[str, Row] = {}

    def each(batch: Any, number: int) -> None:
        found.update((row.message, row) for row in batch.collect())

    messages = read(spark, stream, state=tmp_path / "state")
    query = messages.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return found


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


def test_files(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    (inbox / "below").mkdir(parents=True)
    (inbox / "a.xml").write_bytes(b"<a/>")
    (inbox / "below" / "b.xml.gz").write_bytes(gzip.compress(b"<b/>"))
    (inbox / "c.xml.gz").write_bytes(b"no gzip")
    (inbox / "d.txt").write_bytes(b"<d/>")
    os.utime(inbox / "a.xml", (86400, 86400))
    found = rows_of(spark, tmp_path, source="directory", path=str(inbox), glob="*.xml*", time="transport")
    assert sorted(found) == ["a.xml", "below/b.xml.gz", "c.xml.gz"]
    assert found["a.xml"].xml == b"<a/>" and found["a.xml"].time.timestamp() == 86400
    assert found["below/b.xml.gz"].xml == b"<b/>"
    assert found["c.xml.gz"].error.code == "bad-gzip" and found["c.xml.gz"].xml == b"no gzip"


def test_lines(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.log").write_bytes(b'<a t="2024-02-29T12:00:00Z"/>\r\n\n<b/>\n<c t="soon"/>\n<d t="1700000000"/>')
    (inbox / "b.log.gz").write_bytes(gzip.compress(b'<a t="2024-01-01T24:00:00+01:00"/>\n<broken\n'))
    found = rows_of(spark, tmp_path, source="directory", path=str(inbox), messages="lines", time="/*/@t")
    assert sorted(found) == ["a.log#1", "a.log#3", "a.log#4", "a.log#5", "b.log.gz#1", "b.log.gz#2"]
    assert found["a.log#1"].time.timestamp() == utc(2024, 2, 29, 12)
    assert found["a.log#5"].time.timestamp() == 1700000000
    assert found["b.log.gz#1"].time.timestamp() == utc(2024, 1, 1, 23)
    assert [found[f"a.log#{n}"].error.code for n in (3, 4)] == ["no-time", "no-time"]
    # a message is read to be dated; one without a time path is refused by the match stage
    assert found["b.log.gz#2"].error.code == "bad-tag"


def test_records(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    content = '<all xmlns="urn:x" xmlns:p="urn:p"><o id="1"/><other/><o id="2"><p:q/></o><p:o/></all>'
    (inbox / "a.xml").write_text(content)
    (inbox / "broken.xml").write_text("<all><o/>")
    found = rows_of(
        spark,
        tmp_path,
        source="directory",
        path=str(inbox),
        messages="records",
        record="x:o",
        namespaces={"x": "urn:x"},
    )
    assert sorted(found) == ["a.xml#1", "a.xml#2", "broken.xml"]
    assert b'xmlns:p="urn:p"' in found["a.xml#2"].xml and b'id="2"' in found["a.xml#2"].xml
    assert found["broken.xml"].error.line == 1 and found["broken.xml"].xml == b"<all><o/>"
    with pytest.raises(OptionError, match="does not name"):
        read(spark, {"source": "directory", "path": str(inbox), "messages": "records", "record": "o["}, state=tmp_path)


def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame([("1", "<a/>", None), ("2", '<?xml version="1.0" encoding="UTF-16"?><b/>', None)],
                                  "key string, body string, none string")  # fmt: skip
    table.write.parquet(str(tmp_path / "t"))
    stream = {"source": "table", "path": str(tmp_path / "t"), "xml_column": "body"}
    found = rows_of(spark, tmp_path / "1", **stream, id_column="key")
    assert found["1"].xml == b"<a/>" and found["2"].xml == b'<?xml version="1.0"?><b/>'
    numbered = rows_of(spark, tmp_path / "2", **stream)
    assert len(numbered) == 2 and all("parquet#" in id for id in numbered)
    with pytest.raises(OptionError, match="no column 'missing'"):
        read(spark, {**stream, "id_column": "missing"})
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "1.json").write_text('{"xml": "<a/>", "at": "2024-01-01T00:00:00Z"}\n{"xml": "<b/>"}\n{}\n')
    lines = rows_of(
        spark,
        tmp_path / "3",
        source="table",
        path=str(tmp_path / "j"),
        format="json",
        time="transport",
        time_column="at",
    )
    assert sorted(row.xml or b"" for row in lines.values()) == [b"", b"<a/>", b"<b/>"]
    assert utc(2024, 1, 1) in {row.time.timestamp() for row in lines.values()}


def test_tables_of_bytes_and_texts_that_are_no_ids_and_times(spark: SparkSession, tmp_path: Path) -> None:
    """A row fails alone, and is still there as a dead letter."""
    (tmp_path / "t").mkdir()
    ids = pa.array([b"one", b"\xff\xfe", None, b"four"], pa.binary())
    sloppy = pa.Array.from_buffers(pa.string(), 4, ids.buffers(), null_count=1)
    columns = {"key": ids, "sloppy": sloppy, "xml": ["<a/>"] * 4, "at": ["2024-01-01", "2024-01-01", None, "soon"]}
    pq.write_table(pa.table(columns), tmp_path / "t" / "part.parquet")
    stream = {"source": "table", "path": str(tmp_path / "t"), "time": "transport", "time_column": "at"}
    for name in ("key", "sloppy"):
        found = rows_of(spark, tmp_path / name, **stream, id_column=name)
        assert set(found) == {"one", "\\xff\\xfe", "", "four"}
        assert {id: row.error and row.error.code for id, row in found.items() if row.error} == {"four": "no-time"}
        assert found["one"].time.timestamp() == utc(2024, 1, 1)


def test_a_repeated_batch_has_the_same_arrival(spark: SparkSession, tmp_path: Path) -> None:
    """A run that dies within a micro-batch, after it has read the messages: the next one dates them alike."""
    spark.createDataFrame([("<a/>",), ('<a at="2999-01-01"/>',)], "xml string").write.parquet(str(tmp_path / "t"))
    seen: list[dict[str, tuple[datetime, str | None]]] = []

    def each(batch: Any, number: int) -> None:
        seen.append({row.xml: (row.time, row.error and row.error.code) for row in batch.collect()})
        if len(seen) == 1:
            raise RuntimeError("killed")

    for rule in ("arrival", "/a/@at"):
        seen.clear()
        for _ in range(2):
            messages = read(spark, {"source": "table", "path": str(tmp_path / "t"), "time": rule})
            query = messages.writeStream.foreachBatch(each).trigger(availableNow=True)
            started = query.option("checkpointLocation", str(tmp_path / f"state-{len(rule)}")).start()
            with suppress(StreamingQueryException):
                started.awaitTermination()
        first, second = seen
        assert first == second and len(first) == 2
        refused = sorted(str(code) for _, code in first.values())
        assert refused == (["None", "None"] if rule == "arrival" else ["no-time", "time-ahead"])


def test_an_empty_table_needs_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with pytest.raises(OptionError, match=r"options\.schema"):
        read(spark, {"source": "table", "path": str(tmp_path / "t")})
    schema = {"schema": "xml binary"}
    assert rows_of(spark, tmp_path, source="table", path=str(tmp_path / "t"), options=schema) == {}


def test_socket_and_rate(spark: SparkSession, tmp_path: Path) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"<a/>\n\n<b/>\n")
            done.wait(30)

    done = threading.Event()
    threading.Thread(target=serve, daemon=True).start()
    streams = [{"source": "socket", "port": server.getsockname()[1]}, {"source": "rate", "template": "<n>{value}</n>"}]
    found: list[set[bytes]] = [set(), set()]
    queries = []
    for place, stream in enumerate(streams):

        def each(batch: Any, number: int, place: int = place) -> None:
            found[place].update(bytes(row.xml) for row in batch.collect())
            if all(found):
                done.set()

        writer = read(spark, stream).writeStream.foreachBatch(each)
        queries.append(writer.option("checkpointLocation", str(tmp_path / str(place))).start())
    assert done.wait(60)
    for query in queries:
        query.stop()
    server.close()
    assert found[0] <= {b"<a/>", b"<b/>"} and b"<n>0</n>" in found[1]


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        ({"source": "directory", "path": "/nowhere/at/all"}, OptionError),
        ({"source": "directory", "path": "."}, OptionError),
        ({"source": "directory", "path": "s3a://bucket/in"}, OptionError),
        ({"source": "carrier-pigeon"}, OptionError),
        ({"source": "rate", "time": "count(/a)"}, OptionError),
        ({"source": "rate", "time": "/a = 1"}, QueryError),
    ],
)
def test_what_is_wrong_is_said(spark: SparkSession, stream: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        read(spark, stream)
