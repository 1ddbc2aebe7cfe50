"""What the sinks that write files leave behind, alone and together."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from batches import SINKS, commit, expected, in_files, in_lake, in_lines, pipeline, some

from twigcast.delivery import jsonl
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks.directory import folder_name


def test_all_get_everything(tmp_path: Path) -> None:
    settings = pipeline(tmp_path)
    logs = [commit(settings, number, some(number)) for number in range(3)]
    ids = expected(logs[-1:])
    assert len(ids) == 30
    with Runner(settings) as runner:
        assert runner.drain()
        assert [(status.lag, status.failing_since, status.cursors) for status in runner.status()] == [
            (0, None, {"s": 2})
        ] * 3
    assert sorted(id for _, id in in_files(tmp_path / "files")) == ids
    assert {name for name, _ in in_files(tmp_path / "files")} == {"_", "alice", "bob"}
    lines = in_lines(tmp_path / "lines")
    assert sorted(line["delivery"] for line in lines) == ids
    assert sorted(row["delivery"] for row in in_lake(tmp_path / "lake")) == ids
    # what all have passed is gone from the log, but the pipeline still knows that it was committed
    assert logs[0].forgotten == 2 and list(logs[0].batches()) == [] and logs[0].committed(1) is not None


def test_contents(tmp_path: Path) -> None:
    settings = pipeline(tmp_path)
    rows = [("m", "q", "a"), ("m", "r", "b"), ('odd "\\\n', "q", "a"), ("ctl\x01", "q", None)]
    commit(settings, 0, rows, body=b'<a x="1">\n\t\\ \xc3\xa9</a>')
    commit(settings, 1, rows[:1], body=b"<a>\xe9</a>")
    commit(settings, 2, rows[:2], payload=b"<p/>", body=b"<not this/>")
    with Runner(settings) as runner:
        assert runner.drain()
    lines = {(line["message"], line["subscription"], line["content"]): line for line in in_lines(tmp_path / "lines")}
    text = '<a x="1">\n\t\\ é</a>'
    latin = base64.b64encode(b"<a>\xe9</a>").decode()
    wanted = [(message, id, text) for message, id, _ in rows] + [
        ("m", "q", latin),
        ("m", "q", "<p/>"),
        ("m", "r", "<p/>"),
    ]
    assert sorted(lines) == sorted(wanted)
    assert lines["m", "q", latin]["encoding"] == "base64"
    assert lines["m", "q", text]["headers"] == {} and lines["m", "q", text]["time"] is None
    assert lines["ctl\x01", "q", text]["subscriber"] is None
    table = ds.dataset(tmp_path / "lake", format="parquet", partitioning="hive").to_table()
    contents = [row["content"] for row in table.to_pylist()]
    assert sorted(contents) == sorted([text.encode()] * 4 + [b"<a>\xe9</a>", b"<p/>", b"<p/>"])
    assert len(set(table.column("date").to_pylist())) == 1
    # the same delivery as of batch 0 has come again with another content: the file has the newest
    files = [path.read_bytes() for path in (tmp_path / "files").rglob("q.*.xml")]
    assert sorted(files) == sorted([b"<p/>", text.encode(), text.encode()])


def test_lines_without_the_messages_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BYTES_AT_ONCE", 20)
    settings = pipeline(tmp_path, {"lines": {**SINKS["lines"], "layout": "matches"}})
    rows = [("m", "q", "a"), ("m", "r", "b"), ("n", "q", "a")]
    commit(settings, 0, rows)
    commit(settings, 1, rows[:2], payload=b"<p/>")
    with Runner(settings) as runner:
        assert runner.drain()
    lines = [(line["message"], line["subscription"], line.get("content")) for line in in_lines(tmp_path / "lines")]
    expected = [(*row[:2], None) for row in rows] + [(*row[:2], "<p/>") for row in rows[:2]]
    assert sorted(lines, key=str) == sorted(expected, key=str)


def test_bodies_are_in_parquet_once(tmp_path: Path) -> None:
    settings = pipeline(tmp_path, {"lake": SINKS["lake"]})
    noise = b"<a>" + base64.b64encode(bytes(range(256)) * 40) + b"</a>"
    commit(settings, 0, [("m", f"q{n}", "a") for n in range(5000)], body=noise)
    with Runner(settings) as runner:
        assert runner.drain()
    [path] = (tmp_path / "lake").glob("date=*/*.parquet")
    assert path.stat().st_size < 400_000 and pq.ParquetFile(path).metadata.num_rows == 5000
    assert pq.ParquetFile(path).schema_arrow.field("content").type == "binary"


def test_lines_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BYTES_AT_ONCE", 1000)
    settings = pipeline(tmp_path, {"lines": SINKS["lines"]})
    log = commit(settings, 0, some(0, 500))
    ids = expected([log])
    with Runner(settings) as runner:
        assert runner.drain()
    lines = in_lines(tmp_path / "lines")
    assert sorted(line["delivery"] for line in lines) == ids
    order = [int(line["message"].split("-")[1]) for line in lines if line["subscriber"] == "alice"]
    assert order == sorted(order)


def test_routes(tmp_path: Path) -> None:
    routes = [
        {"subscribers": ["ali*"], "sinks": ["files"]},
        {"subscriptions": ["q2"], "subscribers": ["bob"], "sinks": ["lines", "files"]},
        {"sinks": ["lake"]},
    ]
    settings = pipeline(tmp_path, routes=routes)
    rows = [("m", "q1", "alice"), ("m", "q2", "bob"), ("m", "q3", "bob"), ("m", "q2", None), ("m", "q9", "alicia")]
    commit(settings, 0, rows)
    with Runner(settings) as runner:
        assert runner.drain()
    assert sorted(name for name, _ in in_files(tmp_path / "files")) == ["alice", "alicia", "bob"]
    assert [(line["subscription"], line["subscriber"]) for line in in_lines(tmp_path / "lines")] == [("q2", "bob")]
    assert sorted((row["subscription"], row["subscriber"]) for row in in_lake(tmp_path / "lake")) == [
        ("q2", None),
        ("q3", "bob"),
    ]


def test_routes_by_subscriber_alone(tmp_path: Path) -> None:
    settings = pipeline(tmp_path, routes=[{"subscribers": ["alice"], "sinks": ["files"]}])
    commit(settings, 0, some(0))
    with Runner(settings) as runner:
        assert runner.drain()
    assert {name for name, _ in in_files(tmp_path / "files")} == {"alice"}
    assert in_lake(tmp_path / "lake") == []


def test_a_subscriber_named_like_a_file_of_the_sink(tmp_path: Path) -> None:
    """The number of a batch was in a file `batch`, so that a subscriber of this name stopped the sink for everybody."""
    settings = pipeline(tmp_path)
    commit(settings, 0, [("m", "q", name) for name in ("batch", "alice")])
    with Runner(settings) as runner:
        assert runner.drain()
        assert [status.failing_since for status in runner.status()] == [None] * 3
    assert [name for name, _ in in_files(tmp_path / "files")] == ["alice", "batch"]
    assert sorted(line["subscriber"] for line in in_lines(tmp_path / "lines")) == ["alice", "batch"]


def test_another_state_folder_is_another_pipeline(tmp_path: Path) -> None:
    for state in ("one", "two"):
        settings = pipeline(tmp_path)
        settings = settings.model_copy(update={"state": settings.state.model_copy(update={"path": tmp_path / state})})
        commit(settings, 0, [(state, "q", "alice")])
        with Runner(settings) as runner:
            assert runner.drain()
    assert sorted(line["message"] for line in in_lines(tmp_path / "lines")) == ["one", "two"]
    assert sorted(row["message"] for row in in_lake(tmp_path / "lake")) == ["one", "two"]
    assert len(in_files(tmp_path / "files")) == 2


def test_a_sink_that_is_new_begins_with_what_is_left(tmp_path: Path) -> None:
    few = pipeline(tmp_path, {"lines": SINKS["lines"]})
    commit(few, 0, some(0))
    with Runner(few) as runner:
        assert runner.drain()
    settings = pipeline(tmp_path)
    with Runner(settings) as runner:
        assert runner.drain(patience=5)
        assert [status.lag for status in runner.status()] == [0, 0, 0]
        log = commit(settings, 1, some(1))
        runner.wake()
        assert runner.drain()
    assert len(in_lake(tmp_path / "lake")) == 10 and len(in_lines(tmp_path / "lines")) == 20 and log.forgotten == 1


def test_wakes_for_what_is_new(tmp_path: Path) -> None:
    settings = pipeline(tmp_path)
    with Runner(settings) as runner:
        assert runner.drain()
        for number in range(3):
            commit(settings, number, some(number))
            runner.wake()
            assert runner.drain()
            assert len(in_lake(tmp_path / "lake")) == 10 * (number + 1)


def test_drain_ends_when_told(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where a folder should be")
    settings = pipeline(tmp_path)
    commit(settings, 0, some(0))
    stop = threading.Event()
    with Runner(settings) as runner:
        threading.Timer(0.5, stop.set).start()
        assert not runner.drain(stop)
        assert not runner.drain(patience=0.5)


@pytest.mark.parametrize("name", ["a", "a.b", "x@y.org", "A-1_2", "k=v"])
def test_plain_names_stay(name: str) -> None:
    assert folder_name(name) == name


def test_names_are_safe_and_distinct() -> None:
    odd = ["", ".", "..", "../x", "a/b", "a\\b", "_", "_x", ".twigcast", "é", "%C3", "a b", "x\0", "x" * 300, "x" * 301]
    odd += ["é" * 300, "date", "%", "%25", "ä", "\n"]
    made = [folder_name(name) for name in odd] + [folder_name(None)]
    assert len(set(made)) == len(made)
    for name in made:
        assert "/" not in name and "\0" not in name and name not in ("", ".", "..") and len(name.encode()) < 200
        assert not name.startswith(".") and (name == "_" or not name.startswith("_"))


def test_stdout(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    settings = pipeline(tmp_path, {"out": {"kind": "stdout"}})
    commit(settings, 0, some(0))
    with Runner(settings) as runner:
        assert runner.drain()
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert len(lines) == 10 and lines[0]["content"] == "<a n='0'/>"
