"""The Arrow side of the match stage without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from twigcast.engine import Engine, Subscription
from twigcast.rows import ERROR, FAILURES, MATCHES
from twigcast.spark.stages import match as match_stage
from twigcast.spark.stages import outcome as outcome_stage
from twigcast.spark.stages.outcome import Asked, outcomes


def ask(engine: Engine, xml: list[Any], kind: pa.DataType | None = None) -> dict[int, Any]:
    """Message number -> subscription ids, or the code of its error."""
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(xml))), pa.array(xml, kind or pa.binary())], ["id", "xml"])
    answer: dict[int, Any] = {}
    for outcome in outcomes([batch], Asked(engine)):
        for row in match_stage.match_rows(outcome, engine.ids):
            for message, subscription in zip(row["message"].to_pylist(), row["subscription"].to_pylist(), strict=True):
                answer.setdefault(message, []).append(subscription)
        if outcome.rejected:
            for row in match_stage.dead_rows(outcome.rejected, engine.ids.type):
                answer.update(zip(row["message"].to_pylist(), row["reason"].to_pylist(), strict=True))
    return answer


def test_good_bad_and_null(engine: Engine) -> None:
    first = engine.ids.to_pylist()[0]
    answer = ask(engine, [b"<a/>", b"<a>", None, b"", b"<x/>", b"<a/>"])
    assert answer[0] == [first] == answer[5]
    assert answer[2] == "no-content"
    assert isinstance(answer[1], str) and isinstance(answer[3], str)
    assert 4 not in answer


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_binary_types(engine: Engine, kind: pa.DataType) -> None:
    assert len(ask(engine, [b"<a><b/></a>"], kind)[0]) == 3


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    "declaration", ["<?xml version='1.0' encoding='ISO-8859-1'?>", '<?xml version="1.0" encoding = "utf-16" ?>']
)
def test_a_text_column_has_been_decoded_whatever_the_message_declares(kind: pa.DataType, declaration: str) -> None:
    engine = Engine()
    engine.add("//ü")
    assert len(ask(engine, [declaration + "<a><ü/></a>"], kind)[0]) == 1
    assert len(ask(engine, ["<a><ü/></a>", None], kind)[0]) == 1


def test_an_error_of_the_source_stands(engine: Engine) -> None:
    error = {"code": "unreadable", "line": None, "column": None, "offset": None, "text": "gone"}
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["x", "y"]), pa.array([None, b"<a/>"]), pa.array([error, None], ERROR)], ["id", "xml", "error"]
    )
    rejected = [outcome.rejected for outcome in outcomes([batch], Asked(engine))]
    codes = [row["code"] for one in rejected if one for row in one.errors.to_pylist()]
    assert codes == ["unreadable"]


class Fragile:
    """An engine that fails as a whole when it comes to one message, having answered for some before it."""

    ids = pa.array([7])

    def process_batches(self, batch: pa.RecordBatch, **options: Any) -> Iterator[pa.RecordBatch]:
        for start in range(0, batch.num_rows, 4):
            part = batch.slice(start, 4)
            if b"boom" in part.column("xml").to_pylist():
                raise RuntimeError("out of cheese")
            matches = pa.array([[0]] * part.num_rows, MATCHES)
            empty = pa.nulls(part.num_rows, ERROR), pa.nulls(part.num_rows, FAILURES)
            yield pa.RecordBatch.from_arrays([matches, *empty], ["matches", "error", "failures"])


@pytest.mark.parametrize("place", [0, 5, 20, 31])
def test_a_failing_engine_costs_one_message(place: int) -> None:
    xml = [b"fine"] * 32
    xml[place] = b"boom"
    answer = ask(Fragile(), xml)  # type: ignore[arg-type]
    assert answer == {number: "internal" if text == b"boom" else [7] for number, text in enumerate(xml)}


def test_many_matches_come_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_stage, "MATCHES_AT_ONCE", 1000)
    monkeypatch.setattr(match_stage, "ROWS_AT_ONCE", 64)
    engine = Engine()
    engine.add_many(Subscription(number, "/a") for number in range(100))
    batch = pa.RecordBatch.from_arrays([pa.array(range(300)), pa.array([b"<a/>"] * 300)], ["id", "xml"])
    found = list(outcomes([batch], Asked(engine)))
    assert len(found) > 20 and max(len(outcome.matches.flatten()) for outcome in found) < 3000
    rows = [row for outcome in found for row in match_stage.match_rows(outcome, engine.ids)]
    assert max(row.num_rows for row in rows) == 64
    got = [
        pair for row in rows for pair in zip(row["message"].to_pylist(), row["subscription"].to_pylist(), strict=True)
    ]
    assert sorted(got) == [(message, subscription) for message in range(300) for subscription in range(100)]
