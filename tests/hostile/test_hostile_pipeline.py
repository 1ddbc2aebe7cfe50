"""Every hostile message through a pipeline, from each kind of source, in one run: with schemas, and with correlations.

A new source is a new row of `STREAMS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile_messages import BY_NAME, GOOD, SECRET, table
from test_hostile_messages import TEXT
from ways_in import DTD, IDS, SUBSCRIPTIONS, XSD, Messages

from twigcast import config
from twigcast.delivery.dead import DeadLetters
from twigcast.spark.pipeline import Run
from twigcast.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
[store]
url = "sqlite:///{folder}/store.db"
[state]
path = "{folder}/state"
[publishers.by-dtd]
schema = "{folder}/a.dtd"
on_invalid = "reject"
[publishers.by-xsd]
schema = "{folder}/a.xsd"
on_invalid = "reject"
[sinks.lake]
kind = "parquet"
path = "{folder}/lake"
{streams}
"""
STREAM = '[streams.{name}]\nsource = "{source}"\npath = "{folder}/in-{name}"\n{more}\n'
INVALID = b"<a><b>1</b><c/></a>"
"""Would join with its neighbours if it were not invalid."""


def put_files(folder: Path, messages: Messages) -> None:
    for name, xml in messages.items():
        (folder / f"{name}.xml").write_bytes(xml)


def put_lines(folder: Path, messages: Messages) -> None:
    """A line is a message: those that have line ends, or are none, are left out."""
    lines = [xml for xml in messages.values() if xml.strip() and b"\n" not in xml and b"\r" not in xml]
    (folder / "lines.txt").write_bytes(b"\n".join(lines))


def put_records(folder: Path, messages: Messages) -> None:
    """A record is a child of the root: there is one more element around it, where the message is in ASCII."""
    wrapped = {n: xml.replace(b"<a>", b"<all><a>", 1).replace(b"</a>", b"</a></all>", 1) for n, xml in messages.items()}
    put_files(folder, wrapped)


def put_table(folder: Path, messages: Messages) -> None:
    columns = {"id": list(messages), "xml": pa.array(messages.values(), pa.binary())}
    pq.write_table(pa.table(columns), folder / "part.parquet")


STREAMS = (
    ("files", "directory", "", put_files),
    ("dtd", "directory", 'publisher = "by-dtd"', put_files),
    ("xsd", "directory", 'publisher = "by-xsd"', put_files),
    ("lines", "directory", 'messages = "lines"', put_lines),
    ("records", "directory", 'messages = "records"\nrecord = "a"', put_records),
    ("parquet", "table", 'id_column = "id"\npublisher = "by-dtd"', put_table),
)


def test_a_pipeline_of_every_source(spark: SparkSession, tmp_path: Path) -> None:
    messages = {**table(tmp_path / "lure"), **GOOD, "invalid": INVALID}
    streams = ""
    for name, source, more, put in STREAMS:
        streams += STREAM.format(name=name, source=source, folder=tmp_path, more=more)
        (tmp_path / f"in-{name}").mkdir()
        put(tmp_path / f"in-{name}", messages)
    (tmp_path / "a.dtd").write_bytes(DTD)
    (tmp_path / "a.xsd").write_bytes(XSD)
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(folder=tmp_path, streams=streams))
    settings = config.load(tmp_path / "pipeline.toml")
    with Store.open(settings.store.url) as store:
        store.add_subscriber("ann")
        for s in SUBSCRIPTIONS:
            store.subscribe(s.query, id=str(s.id), result=s.result, subscriber="ann")
        join = "SELECT <pair>{ $k }</pair> FROM dtd/a->x[b->k] JOIN{k = l, 1 h} dtd/a->y[b->l]"
        store.subscribe(join, id="join", subscriber="ann")
    run = Run(settings, spark=spark, once=True)
    run()
    assert run.drained
    matched = delivered(tmp_path / "lake")
    refused = dead(settings)
    for name, _, _, put in STREAMS:
        found, letters = matched[name], refused[name]
        if put is put_lines:
            # An id is a file and a line; messages that are handled match too.
            assert all(sum(of[id] for of in found.values()) >= len(GOOD) for id in IDS), found
            continue
        for good in GOOD:
            ids = {id for message, of in found.items() if message.startswith(good) for id in of}
            assert ids == IDS, (name, good, found)
        for row in BY_NAME.values():
            of_row = [letter for message, letter in letters.items() if message.partition(".")[0] == row.name]
            ids = {id for message, of in found.items() if message.partition(".")[0] == row.name for id in of}
            if row.codes and name != "records":
                assert [letter.reason in row.codes for letter in of_row] == [True], (name, row.name, of_row)
                assert not ids, (name, row.name)
    for name in ("dtd", "xsd", "parquet"):
        assert [letter.reason for message, letter in refused[name].items() if "invalid" in message] == ["invalid"]
    joined = [message for of in matched.values() for message, ids in of.items() if ids["join"]]
    assert joined, "good messages join"
    assert not [message for message in joined if "invalid" in message], "a message that the schema rejects does not"


def delivered(lake: Path) -> dict[str, dict[str, Counter[str]]]:
    """The subscriptions by stream and message. Nothing delivered has the secret in it."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for path in lake.glob("date=*/*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            assert SECRET not in str(row)
            found[row["stream"]][row["message"]][row["subscription"]] += 1
    return found


def dead(settings: config.Pipeline) -> dict[str, dict[str, Any]]:
    """The dead letters by stream and message. Nothing that is said of them has the secret in it."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for letter in DeadLetters(settings.state.dead).letters():
        assert SECRET not in str(letter)
        assert len(letter.text or "") <= TEXT
        found[letter.stream][letter.message] = letter
    return found
