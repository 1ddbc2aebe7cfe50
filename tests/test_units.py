"""Times, durations and sizes mean the same wherever they are written: on the command line, in a configuration, in calls
of the API, in a pipeline, and in messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from twigcast import Broker, OptionError, QueryError
from twigcast.cli.correlate import _Clock
from twigcast.cli.inputs import Message
from twigcast.cli.options import Duration, Size
from twigcast.cli.replay import Moment
from twigcast.config import values
from twigcast.lang.xscl import parse_correlation
from twigcast.spark.sources.event_time import EventTime
from twigcast.spark.sources.messages import message_batch
from twigcast.spark.stages.validity import ReadTask
from twigcast.subscription import fields_of
from twigcast.units import (
    SECOND,
    format_duration,
    format_time,
    parse_duration,
    parse_size,
    parse_time,
    to_datetime,
)

REFUSED = (OptionError, QueryError, ValidationError, ValueError, click.ClickException)
JUNE = 1_718_000_000 * SECOND

# text -> microseconds since 1970, or None if it is not a time
TIMES: dict[str, int | None] = {
    "0": 0,
    "5": 5 * SECOND,
    "5.25": 5_250_000,
    "-1": -SECOND,
    ".5": 500_000,
    "1718000000": JUNE,
    "1718000000000": JUNE,
    "1718000000123.5": JUNE + 123_500,
    "99999999999": 99_999_999_999 * SECOND,
    "100000000000": 100_000_000 * SECOND,
    "-62135596800": -62_135_596_800 * SECOND,
    "-62135596801": None,
    "2024-06-10T06:13:20Z": JUNE,
    "2024-06-10T06:13:20": JUNE,
    " 2024-06-10 06:13:20 ": JUNE,
    "2024-06-10T08:13:20+02:00": JUNE,
    "2024-06-10T01:13:20.000001-0500": JUNE + 1,
    "2024-06-10T06:13": JUNE - 20 * SECOND,
    "2024-06-10": JUNE - (6 * 3600 + 13 * 60 + 20) * SECOND,
    "2024-06-09T24:00:00Z": JUNE - (6 * 3600 + 13 * 60 + 20) * SECOND,
    "Mon, 10 Jun 2024 06:13:20 GMT": JUNE,
    "10 Jun 2024 08:13:20 +0200": JUNE,
    "0001-01-01T00:00:00Z": -62_135_596_800 * SECOND,
    "0001-01-01T00:00:00+14:00": None,
    "9999-12-31T24:00:00": None,
    "99999-01-01": None,
    "2024-02-30": None,
    "2024-06-10T25:00:00": None,
    "253402300800000": None,
    "9" * 18: None,
    "9" * 400: None,
    "1e3": None,
    "nan": None,
    "\u0661\u0662": None,
    "soon": None,
    "": None,
}

# text -> microseconds, or None if it is not a duration
DURATIONS: dict[str, int | None] = {
    "10": 10 * SECOND,
    "1.5": 1_500_000,
    "250000 us": 250_000,
    "500 ms": 500_000,
    "500ms": 500_000,
    "10 s": 10 * SECOND,
    "10 sec": 10 * SECOND,
    "5m": 300 * SECOND,
    "5 min": 300 * SECOND,
    "5 Minutes": 300 * SECOND,
    "12 h": 43_200 * SECOND,
    "1.5 hours": 5_400 * SECOND,
    "3 days": 259_200 * SECOND,
    "1 week": 604_800 * SECOND,
    "P5D": 432_000 * SECOND,
    "PT30M": 1_800 * SECOND,
    "P1DT12H": 129_600 * SECOND,
    "P1M": None,
    "PT": None,
    "5 parsecs": None,
    "-5 s": None,
    "1e3": None,
    "five": None,
    "\u0665 s": None,
}

# text -> bytes, or None if it is not a size
SIZES: dict[str, int | None] = {
    "500": 500,
    "64K": 65_536,
    "64k": 65_536,
    "16M": 16 << 20,
    "16 M": 16 << 20,
    "3G": 3 << 30,
    "5X": None,
    "1.5M": None,
    "-1": None,
    "M": None,
    "\u0665": None,
    "": None,
}


def dated(text: str) -> str:
    return f'<a at="{text}"/>'


def of_pipeline(text: str) -> int | None:
    batch = message_batch(pa.array(["m"]), pa.array([dated(text).encode()]), arrival=pa.array([0]))
    [done] = ReadTask(iter, EventTime("/a/@at"))([batch])
    if done.column("error")[0].is_valid:
        return None
    return int(done.column("time").cast(pa.int64())[0].as_py())


def of_match(text: str) -> int | None:
    found = _Clock("/a/@at", Broker()).read(Message("m", dated(text).encode()), "")
    return None if isinstance(found, str) else found.time


def of_broker(text: str) -> int | None:
    broker = Broker()
    broker.subscribe("//a->x JOIN{x = y, INF} //a->y PUBLISH d", id="pair")
    seen: list[int] = []
    real = broker.correlations.publish_many

    def spy(xml: list[bytes], stream: str, id: Any, clock: Callable[[int], int], selecting: bool) -> Any:
        def noted(count: int) -> int:
            seen.append(clock(count))
            return seen[-1]

        return real(xml, stream, id, noted, selecting)

    broker.correlations.publish_many = spy  # type: ignore[method-assign]
    broker.publish(b"<a/>", time=text)
    return seen[0]


def of_replay(text: str) -> int | None:
    return parse_time(Moment.convert(text, None, None))


def refused(call: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a call that returns None where the value is refused with an error of ours."""

    def attempt(text: str) -> Any:
        try:
            return call(text)
        except REFUSED:
            return None

    return attempt


@pytest.mark.parametrize("text", TIMES, ids=lambda text: text[:40] or "empty")
def test_a_time_is_the_same_everywhere(text: str) -> None:
    for read in (parse_time, of_broker, of_match, of_pipeline, of_replay):
        assert refused(read)(text) == TIMES[text], read.__name__


def test_times_of_other_types() -> None:
    assert parse_time(1_718_000_000) == parse_time(1_718_000_000_000) == parse_time(Decimal("1718000000.0")) == JUNE
    assert parse_time(0.1) == 100_000
    assert parse_time(datetime(2024, 6, 10, 6, 13, 20)) == parse_time(datetime(2024, 6, 10, 6, 13, 20, tzinfo=UTC))
    for wrong in (None, True, b"5", float("nan"), float("inf"), 1e300, 10**400, [5]):
        assert parse_time(wrong) is None
    assert format_time(JUNE / SECOND) == "2024-06-10T06:13:20Z" and parse_time(to_datetime(JUNE)) == JUNE


def test_the_time_of_an_element_is_its_text() -> None:
    """Entities, CDATA sections and markup are no part of the time, in a pipeline and in `match`."""
    for xml in (
        "<a><t>17&#49;8000000</t></a>",
        "<a><t><![CDATA[1718]]>000000</t></a>",
        "<a><t>1718<b>000000</b></t></a>",
    ):
        batch = message_batch(pa.array(["m"]), pa.array([xml.encode()]), arrival=pa.array([0]))
        [done] = ReadTask(iter, EventTime("/a/t"))([batch])
        assert done.column("time").cast(pa.int64())[0].as_py() == JUNE
        timed = _Clock("/a/t", Broker()).read(Message("m", xml.encode()), "")
        assert not isinstance(timed, str) and timed.time == JUNE


def of_window(text: str) -> int | None:
    return parse_correlation(f"//a->x JOIN{{x = y, {text}}} //b->y").links[0].window


def option_of_broker(broker_option: str, text: str) -> int | None:
    """Return what a broker makes of an option of its correlations."""
    made: dict[str, Any] = {}
    with patch.object(Broker, "_make_correlations", staticmethod(lambda **options: made.update(options))):
        Broker(**{broker_option: text})  # type: ignore[arg-type]
    return made["lateness" if broker_option == "lateness" else "max_bytes"]


DURATION_READERS: dict[str, Callable[[str], Any]] = {
    "units": parse_duration,
    "command line": lambda text: round(Duration.convert(text, None, None) * SECOND),
    "configuration": lambda text: round(TypeAdapter(values.Duration).validate_python(text) * SECOND),
    "Broker": lambda text: option_of_broker("lateness", text),
    "window": of_window,
    "max_delay": lambda text: fields_of({"query": "/a", "max_delay": text}, 1)["max_delay"] * 1_000,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_the_same_everywhere(text: str) -> None:
    for name, read in DURATION_READERS.items():
        assert refused(read)(text) == DURATIONS[text], name


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_the_same_everywhere(text: str) -> None:
    for read in (
        parse_size,
        lambda text: Size.convert(text, None, None),
        TypeAdapter(values.Size).validate_python,
        lambda text: option_of_broker("max_state_bytes", text),
    ):
        assert refused(read)(text) == SIZES[text]


def test_durations_and_sizes_of_other_types() -> None:
    assert parse_duration(10) == parse_duration(10.0) == 10 * SECOND and parse_duration(0) == 0
    for wrong in (True, None, -1, float("nan"), float("inf"), [5]):
        with pytest.raises(ValueError, match="must be a duration"):
            parse_duration(wrong)
    with pytest.raises(ValueError, match="at most 100 years"):
        parse_duration("4000000000")
    for wrong in (True, None, 1.5, [5]):
        with pytest.raises(ValueError, match="must be a whole number"):
            parse_size(wrong)


def test_what_is_written_is_read_back() -> None:
    for length in (
        0,
        1,
        250,
        1_000,
        500_000,
        10 * SECOND,
        90 * SECOND,
        300 * SECOND,
        36 * 3600 * SECOND,
        86_400 * SECOND,
    ):
        assert parse_duration(format_duration(length)) == length
    assert format_duration(300 * SECOND) == "5 min" and format_duration(1_500_000) == "1500 ms"


def test_match_and_a_broker_agree_on_streams(tmp_path: Path, capsysbinary: Any, monkeypatch: Any) -> None:
    """The dates of RSS and milliseconds are times for `match` as well."""
    import twigcast.cli

    (tmp_path / "m").mkdir()
    for name, at in (("1", "Mon, 10 Jun 2024 06:13:20 GMT"), ("2", "1718000060000"), ("3", "2024-06-10T06:24:00Z")):
        (tmp_path / "m" / f"{name}.xml").write_text(f'<a at="{at}">x</a>')
    (tmp_path / "s.txt").write_text("S//a->x FOLLOWED BY{x = y, 5 min} S//a->y\n")
    monkeypatch.setattr(
        "sys.argv",
        ["twigcast", "match", "-s", str(tmp_path / "s.txt"), "--stream", "S", "--time", "/a/@at", str(tmp_path / "m")],
    )
    assert twigcast.cli.execute() == 0
    [line] = capsysbinary.readouterr().out.decode().splitlines()
    assert [Path(name).name for name in json.loads(line)["messages"]] == ["1.xml", "2.xml"]
