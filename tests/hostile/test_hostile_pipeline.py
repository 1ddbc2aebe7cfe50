"""Every hostile message through a pipeline, from each kind of source: with schemas, and with correlations.

A new source is a new row of `STREAMS`, but for Kafka, which needs a server and has a test of its own. What was refused
is then put back, and what was accepted is replayed. Beside it the stage for large files.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_messages import BY_NAME, GOOD, SECRET, table
from test_hostile_messages import TEXT, wrong
from ways_in import DTD, IDS, SUBSCRIPTIONS, XSD, Answer, Messages, Way

from twigcast import config
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.outbox import Outbox
from twigcast.spark import chunk
from twigcast.spark.pipeline import Run
from twigcast.spark.replay import Replay, replay
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
[archive]
path = "{folder}/archive"
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


def are_lines(messages: Messages) -> Messages:
    """Return the messages that fit into one line."""
    return {name: xml for name, xml in messages.items() if xml.strip() and b"\n" not in xml and b"\r" not in xml}


def put_lines(folder: Path, messages: Messages) -> None:
    """A line is a message. Its id is the name of the file and the number of the line."""
    (folder / "lines.txt").write_bytes(b"\n".join(are_lines(messages).values()))


def put_records(folder: Path, messages: Messages) -> None:
    """A record is a child of the root: there is one more element around it, where the message is in ASCII."""
    put_files(folder, {name: xml if b"<a>" not in xml else _wrapped(xml) for name, xml in messages.items()})


def _wrapped(xml: bytes) -> bytes:
    return xml.replace(b"<a>", b"<all><a>", 1).replace(b"</a>", b"</a></all>", 1)


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
    for name, _, _, _ in STREAMS:
        sent = are_lines(messages) if name == "lines" else messages
        check_stream(name, sent, matched[name], refused[name])
    for name in ("dtd", "xsd", "parquet"):
        assert [letter.reason for message, letter in refused[name].items() if "invalid" in message] == ["invalid"]
    joined = [message for of in matched.values() for message, ids in of.items() if ids["join"]]
    assert joined, "good messages join"
    assert not [message for message in joined if "invalid" in message], "a message that the schema rejects does not"
    again = put_back(settings, spark)
    assert again == {id: reason for id, reason in again.items() if reason == reasons(refused)[id]}
    assert again.keys() == reasons(refused).keys()
    assert delivered(tmp_path / "lake") == matched
    replayed = replay(settings, Replay(datetime.fromtimestamp(0, UTC)), lambda: spark)
    assert not replayed.undelivered and replayed.total.deliveries > 0
    twice = delivered(tmp_path / "lake")
    for name, _, _, _ in STREAMS:
        assert twice[name] == {
            message: Counter({id: count * (1 if id == "join" else 2) for id, count in ids.items()})
            for message, ids in matched[name].items()
        }
    dead(settings)


def check_stream(name: str, sent: Messages, found: dict[str, Counter[str]], letters: dict[str, Any]) -> None:
    """Check that good messages have their matches, and hostile ones nothing but a dead letter with the right reason."""
    numbers = {str(number): message for number, message in enumerate(sent, start=1)}

    def of(id: str) -> str:
        """The name of a message, of which its id has been made."""
        if name == "kafka":
            return list(sent)[int(id.rpartition("/")[2])]
        file, _, number = id.partition("#")
        return numbers[number] if file == "lines.txt" else file.partition(".")[0]

    for good in GOOD:
        ids = {id for message, of_message in found.items() if of(message) == good for id in of_message}
        assert ids - {"join"} == IDS, (name, good, found)
    for row in BY_NAME.values():
        if not row.codes or row.name not in sent:
            continue
        reasons = [letter.reason for message, letter in letters.items() if of(message) == row.name]
        assert len(reasons) == 1 and reasons[0] in row.codes, (name, row.name, reasons)
        assert not [message for message in found if of(message) == row.name], (name, row.name)


@pytest.mark.slow
def test_kafka(kafka_servers: str, tmp_path: Path) -> None:
    """Keys and headers are any bytes, too."""
    from confluent_kafka import Producer

    hostile = table(tmp_path / "lure")
    messages = {name: xml for name, xml in {**hostile, **GOOD, "invalid": INVALID}.items() if len(xml) < 900_000}
    producer = Producer({"bootstrap.servers": kafka_servers})
    for number, xml in enumerate(messages.values()):
        key = (b"\xff\xfe", None, b"\0", "\N{SNOWMAN}".encode())[number % 4]
        headers = [("\N{SNOWMAN}", b"\xff"), ("none", None)] if number % 3 == 0 else None
        producer.produce("hostile", xml, key=key, partition=0, headers=headers)
    producer.produce("hostile", None, key=b"deleted", partition=0)
    assert producer.flush(60) == 0
    (tmp_path / "a.dtd").write_bytes(DTD)
    (tmp_path / "a.xsd").write_bytes(XSD)
    more = f'[streams.kafka]\nsource = "kafka"\nbootstrap_servers = "{kafka_servers}"\ntopic = "hostile"\n'
    more += 'publisher = "by-dtd"\n'
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(folder=tmp_path, streams=more))
    settings = config.load(tmp_path / "pipeline.toml")
    with Store.open(settings.store.url) as store:
        store.add_subscriber("ann")
        for s in SUBSCRIPTIONS:
            store.subscribe(s.query, id=str(s.id), result=s.result, subscriber="ann")
    command = [sys.executable, "-m", "twigcast", "run", str(tmp_path / "pipeline.toml"), "--once"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    sent = {**messages, "deleted": b""}
    check_stream("kafka", sent, delivered(tmp_path / "lake")["kafka"], dead(settings)["kafka"])


def reasons(refused: dict[str, dict[str, Any]]) -> dict[int, str]:
    """Return the reasons of dead letters by their ids."""
    return {letter.id: letter.reason for letters in refused.values() for letter in letters.values()}


def put_back(settings: config.Pipeline, spark: SparkSession) -> dict[int, str]:
    """Put all dead letters back and run again; return for each why it is refused now."""
    with closing(DeadLetters(settings.state.dead)) as letters, closing(Outbox(settings.state.outbox)) as outbox:
        for letter in letters.letters():
            letters.redrive(letter, outbox, settings.state.path / "redrive")
    run = Run(settings, spark=spark, once=True)
    run()
    assert run.drained
    found = {}
    for of_stream in dead(settings).values():
        for message, letter in of_stream.items():
            found[int(message.split("-")[1])] = letter.reason
    return found


def test_large_files(spark: SparkSession, tmp_path: Path) -> None:
    """The stage that reads files in parts."""
    messages = {**table(tmp_path / "lure"), **GOOD}
    (tmp_path / "in").mkdir()
    put_files(tmp_path / "in", messages)
    some = SUBSCRIPTIONS[:4]
    paths = [str(path) for path in sorted((tmp_path / "in").iterdir())]
    matched = chunk.match(spark, spark.createDataFrame([(path,) for path in paths], "path string"), some, chunks=2)
    answers = {name: Answer() for name in messages}
    matched = matched.persist()
    for row in matched.matches.collect():
        answer = answers[Path(row.message).stem]
        answer.matches.add(row.subscription)
        answer.said += str(row)
    for row in matched.dead.collect():
        answer = answers[Path(row.message).stem]
        answer.error, answer.text, answer.said = row.reason, row.text, answer.said + str(row)
    for row in matched.failures.collect():
        answers[Path(row.message).stem].said += str(row)
    for answer in answers.values():
        if answer.error is not None:
            answer.matches.clear()  # those that hold whatever the rest of a file is
    problems = wrong(Way("chunks on Spark", lambda *_: {}, frozenset(s.id for s in some)), messages, answers)
    assert not problems, "\n".join(problems)


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
