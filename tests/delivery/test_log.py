"""The delivery log: what is written is read, a batch is there whole or not at all."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from crashing import dies, dying_at

from twigcast.delivery import Counts, Log, LogWriter, writer
from twigcast.delivery.ids import delivery_ids
from twigcast.delivery.log import rows_of
from twigcast.errors import OptionError, TwigcastError


def messages(count: int, start: int = 0, size: int = 10) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "message": [f"m{number}" for number in range(start, start + count)],
            "xml": pa.array([b"<a>%0*d</a>" % (size, number) for number in range(start, start + count)], pa.binary()),
        }
    )


def deliveries(pairs: list[tuple[int, str]]) -> pa.RecordBatch:
    return pa.record_batch(
        {"row": pa.array([row for row, _ in pairs], pa.int32()), "subscription": [id for _, id in pairs]}
    )


def rows(log: Log) -> list[tuple[str, str, bytes]]:
    return [
        (row["message"], row["subscription"], row["xml"])
        for batch in log.batches()
        for part in batch.deliveries()
        for row in part.to_pylist()
    ]


def test_round_trip(tmp_path: Path) -> None:
    log = Log(tmp_path, "orders")
    now = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    with log.claimed():
        with pickle.loads(pickle.dumps(LogWriter(str(log.staging), "orders"))).part() as part:
            seen = messages(4).append_column("time", pa.array([now] * 4))
            headers = pa.array([[("k", "v")]] * 4, pa.map_(pa.string(), pa.string()))
            found = deliveries([(1, "x"), (1, "y"), (3, "x")])
            found = found.append_column("subscriber", pa.array(["s", None, "s"]))
            found = found.append_column("payload", pa.array([None, b"<p/>", None], pa.binary()))
            found = found.append_column("max_delay", pa.array([None, 5, 0]))
            part.write(seen.append_column("headers", headers), found)
            part.write(messages(1, 4), deliveries([]))
            part.write(messages(1, 5), deliveries([(0, "z")]))
            part.reject(
                pa.record_batch({"message": ["bad"], "reason": ["bad-tag"], "line": [3], "original": [b"<a>\xe9"]})
            )
        counts = log.commit(7, 42, [part.report])
        assert counts == Counts(7, 6 * 17 + 4, 4, 1) == log.committed(7)
    batch = next(log.batches())
    assert (batch.batch, batch.stream, batch.version, batch.counts) == (7, "orders", 42, counts)
    read = [row for part in batch.deliveries() for row in part.to_pylist()]
    names = ("message", "subscription", "subscriber", "payload", "max_delay")
    assert [tuple(row[name] for name in names) for row in read] == [
        ("m1", "x", "s", None, None),
        ("m1", "y", None, b"<p/>", 5),
        ("m3", "x", "s", None, 0),
        ("m5", "z", None, None, None),
    ]
    assert read[0]["time"] == now and read[0]["headers"] == [("k", "v")] and read[3]["time"] is None
    assert all(row["xml"] == b"<a>%010d</a>" % int(row["message"][1:]) for row in read)
    dead = [row for part in batch.dead() for row in part.to_pylist()]
    assert [(row["message"], row["stream"], row["reason"], row["line"], row["original"]) for row in dead] == [
        ("bad", "orders", "bad-tag", 3, b"<a>\xe9")
    ]
    # messages without a delivery are not kept
    assert sum(len(body) for body in {id(piece): piece.messages for piece in batch.pieces()}.values()) == 3


def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_BYTES", 2000)
    monkeypatch.setattr(writer, "GROUP_ROWS", 50)
    log = Log(tmp_path, "s")
    expected = []
    with log.claimed():
        with LogWriter(str(log.staging), "s").part() as part:
            for start in range(0, 100, 10):
                found = [(row, f"q{n}") for row in range(10) if row % 3 for n in range(row)]
                part.write(messages(10, start), deliveries(found))
                expected += [(f"m{start + row}", id, b"<a>%010d</a>" % (start + row)) for row, id in found]
        log.commit(0, 1, [part.report])
    assert rows(log) == expected


def test_ids_are_stable_and_distinct() -> None:
    def ids(stream: str, found: list[str], pairs: list[tuple[int, str]], results: list[int] | None = None) -> list[str]:
        numbers = None if results is None else pa.array(results)
        at = pa.array([row for row, _ in pairs], pa.int32())
        listed: list[str] = delivery_ids(
            stream, pa.array(found), at, pa.array([id for _, id in pairs]), numbers
        ).to_pylist()
        return listed

    assert ids("s", ["m"], [(0, "q")]) == ids("s", ["x", "m"], [(1, "q")]) == ids("s", ["m"], [(0, "q")], [0])
    assert len({*ids("ab", ["c"], [(0, "q")]), *ids("a", ["bc"], [(0, "q")])}) == 2
    numbered = ids("s", ["m"], [(0, "q"), (0, "q"), (0, "q1")], [0, 1, 0])
    assert len(set(numbered)) == 3 and numbered[1] == numbered[0] + "-1"


def test_commit_twice_forget_and_new_readers(tmp_path: Path) -> None:
    log = Log(tmp_path, "s")
    with log.claimed():
        for number in range(4):
            with LogWriter(str(log.staging), "s").part() as part:
                part.write(messages(1, number), deliveries([(0, "q")]))
            log.commit(number, 1, [part.report])
        with pytest.raises(TwigcastError, match="before"):
            log.commit(3, 1, [])
        assert [batch.batch for batch in log.batches(1)] == [2, 3]
        log.forget(1)
        assert [batch.batch for batch in log.batches()] == [2, 3] and log.forgotten == 1
        assert log.committed(0) is not None and log.committed(3) is not None and log.committed(4) is None
        log.forget(99)
        assert list(log.batches()) == [] and log.forgotten == 3 == log.last
    # The last ledger outlives its deliveries: Spark may ask for that batch again.
    assert Log(tmp_path, "s").committed(3) == Counts(1, 17, 1, 0)
    assert not [path for path in log.folder.iterdir() if path.is_dir() and path.name.startswith("batch")]


def test_what_correlations_have_yet_to_read_is_not_forgotten(tmp_path: Path) -> None:
    log = Log(tmp_path, "s")
    with log.claimed():
        for number in range(4):
            with LogWriter(str(log.staging), "s").part() as part:
                times = pa.array([number], pa.timestamp("us", "UTC"))
                witness = pa.array([b"w" if number % 2 else None], pa.binary())
                part.see(messages(1, number).append_column("time", times).append_column("witness", witness))
                part.see(messages(0).append_column("time", times[:0]).append_column("witness", witness[:0]))
            log.commit(number, 1, [part.report])
        log.set_correlated(1)
        log.forget(3)
        kept = [row for batch in log.batches() for file in batch.files("seen") for row in read_seen(file)]
        assert [(row["message"], row["stream"], row["witness"]) for row in kept] == [
            ("m2", "s", None),
            ("m3", "s", b"w"),
        ]
        assert log.forgotten == 1 and Log(tmp_path, "s").correlated == 1
        (file,) = next(log.batches()).files("seen")
        log.set_correlated(None)
        log.forget(3)
        assert log.forgotten == 3 and log.correlated is None and not file.exists()


def read_seen(file: Path) -> list[dict[str, object]]:
    return [row for batch in rows_of(file) for row in batch.to_pylist()]


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Log(tmp_path, "s").claimed(), pytest.raises(OptionError, match="another run"), Log(tmp_path, "s").claimed():
        pass
    with Log(tmp_path, "s").claimed():
        pass


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "_staging", "x" * 101, "a\nb"])
def test_names_that_no_folder_should_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError):
        Log(tmp_path, name)


def three_batches(folder: Path, at: int, step: int) -> None:
    """Commits what is not committed yet; dies at a step of the commit of batch ``at``."""
    log = Log(folder, "s")
    with log.claimed():
        for number in range(3):
            if log.committed(number) is None:
                with LogWriter(str(log.staging), "s").part() as part:
                    part.write(messages(2, 2 * number), deliveries([(0, "q"), (1, "r")]))
                with LogWriter(str(log.staging), "s").part() as stray:
                    stray.write(messages(1, 99), deliveries([(0, "q")]))
                with dying_at(step if number == at else None, "delivery/log.py", "delivery/files.py"):
                    log.commit(number, 1, [part.report])
                    if number == 1:
                        log.forget(0)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("at", [0, 1])
def test_killed_at_every_step_of_a_commit(quick_path: Path, at: int, stride: int) -> None:
    step = 0
    died = True
    while died:
        folder = quick_path / str(step)
        died = dies(lambda: three_batches(folder, at, step))  # noqa: B023
        three_batches(folder, -1, 0)
        log = Log(folder, "s")
        start = 1 + log.forgotten
        assert start in (0, 1)
        assert [message for message, _, _ in rows(log)] == [f"m{number}" for number in range(2 * start, 6)]
        folders = sorted(path.name for path in log.folder.iterdir() if path.is_dir() and path.name != "_staging")
        assert folders == [f"batch-{number:08d}" for number in range(start, 3)]
        assert not list(log.folder.glob(".*.tmp"))
        step += stride
    assert step > 20


def test_ledger_is_readable(tmp_path: Path) -> None:
    log = Log(tmp_path, "s")
    with log.claimed():
        log.commit(0, "v1", [])
    ledger = json.loads((log.folder / "batch-00000000.json").read_bytes())
    assert ledger["batch"] == 0 and ledger["version"] == "v1" and ledger["parts"] == []
