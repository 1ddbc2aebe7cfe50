"""Event times: what is read, what is too far ahead, and times that no calendar has. Without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import message_batch
from twigcast.spark.stages.validity import ReadTask

ARRIVAL = 1_700_000_000_000_000
HOUR = 3_600_000_000


def outcome(rule: str, xml: list[str], times: list[int | None] | None = None, **options: int) -> list[tuple[int, str]]:
    """The time, in microseconds, and the code of the refusal of each message."""
    ids = pa.array([str(n) for n in range(len(xml))])
    batch = message_batch(
        ids,
        pa.array(xml),
        time=None if times is None else pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        arrival=pa.repeat(pa.scalar(ARRIVAL), len(xml)).cast(pa.timestamp("us", tz="UTC")),
    )
    [dated] = ReadTask(iter, EventTime(rule, max_ahead=HOUR, **options))([batch])
    assert "arrival" not in dated.schema.names
    codes = [error and error["code"] for error in dated.column("error").to_pylist()]
    return list(zip(dated.column("time").cast(pa.int64()).to_pylist(), codes, strict=True))


def test_times_too_far_ahead_of_arrival_are_refused() -> None:
    found = outcome("/a/@t", [f'<a t="{ARRIVAL // 1_000_000 + seconds}"/>' for seconds in (-60, 0, 3600, 3601)])
    assert [code for _, code in found] == [None, None, None, "time-ahead"]
    assert found[3][0] == ARRIVAL, "what is refused moves no watermark"
    assert outcome("transport", ["<a/>"] * 3, [ARRIVAL + HOUR, ARRIVAL + HOUR + 1, None]) == [
        (ARRIVAL + HOUR, None),
        (ARRIVAL, "time-ahead"),
        (ARRIVAL, None),
    ]
    later = ARRIVAL + 2 * HOUR
    assert outcome("transport", ["<a/>"], [later], arrival=later) == [(later, None)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", "no-time"),
        ("0000-01-01", "no-time"),
        ("9999-12-31T23:59:59-14:00", "no-time"),
        ("9999-12-31T24:00:00", "no-time"),
        ("9999-12-31T23:59:59Z", "time-ahead"),
        ("99999-01-01", "no-time"),
        ("-62135596800", None),
        ("-62135596801", "no-time"),
        ("9" * 18, "no-time"),
        ("9" * 400, "no-time"),
        ("1e300", "no-time"),
        ("\u0661\u0662", "no-time"),
        ("2024-02-30", "no-time"),
    ],
)
def test_absurd_times(text: str, code: str | None) -> None:
    assert [found for _, found in outcome("/a/@t", [f'<a t="{text}"/>'])] == [code]


def test_transport_times_beyond_the_calendar() -> None:
    """Spark's timestamps reach much further than those of Python."""
    found = outcome("transport", ["<a/>"] * 3, [2**63 - 1, -(2**63), -62_135_596_800_000_000])
    assert [code for _, code in found] == ["time-ahead", "no-time", None]
    found = outcome("/a/@t", ['<a t="1"/>', "<a/>"], [2**63 - 1, 2**63 - 1])
    assert found == [(1_000_000, None), (ARRIVAL, "no-time")]
