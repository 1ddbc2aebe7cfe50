"""Deliveries with ``max_delay``: one message per interval or count, also across restarts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from batches import SINKS, commit, expected, in_lines, pipeline
from hooks import serving
from lxml import etree

from twigcast.delivery import held
from twigcast.delivery.runner import Runner
from twigcast.delivery.single import Waiting

LINES = {"lines": SINKS["lines"]}


def rows(batch: int, count: int, id: str = "q") -> list[tuple[str, str, str | None]]:
    return [(f"m{batch}-{number}", id, "alice") for number in range(count)]


def digests(folder: Path) -> list[Any]:
    return [etree.fromstring(line["content"]) for line in in_lines(folder)]


def test_after_the_interval(tmp_path: Path) -> None:
    settings = pipeline(tmp_path, LINES)
    log = commit(settings, 0, rows(0, 3), delay=5000)
    commit(settings, 1, rows(1, 2), delay=5000)
    commit(settings, 2, rows(2, 2, "other"), delay=5000)
    commit(settings, 3, [("now", "q", "alice")])
    ids = expected([log])
    with Runner(settings) as runner:
        assert runner.drain()
        assert [line["message"] for line in in_lines(tmp_path / "lines")] == ["now"]
        [status] = runner.status()
        assert (status.held, status.lag) == (7, 0) and log.forgotten == 3
    # neither lost nor late after a restart
    with Runner(settings) as runner:
        until = time.time() + 20
        while len(in_lines(tmp_path / "lines")) < 3 and time.time() < until:
            time.sleep(0.05)
        assert runner.drain()
        assert runner.status()[0].held == 0
    lines = [line for line in in_lines(tmp_path / "lines") if line["message"] != "now"]
    assert sorted((line["subscription"], line["subscriber"], line["headers"]["twigcast-digest"]) for line in lines) == [
        ("other", "alice", "2"),
        ("q", "alice", "5"),
    ]
    entries = [entry for line in lines for entry in etree.fromstring(line["content"])]
    [now] = [line["delivery"] for line in in_lines(tmp_path / "lines") if line["message"] == "now"]
    assert sorted([now, *(entry.get("delivery") for entry in entries)]) == ids
    assert {entry.get("stream") for entry in entries} == {"s"}
    order = [
        entry.get("message")
        for line in lines
        if line["subscription"] == "q"
        for entry in etree.fromstring(line["content"])
    ]
    assert order == ["m0-0", "m0-1", "m0-2", "m1-0", "m1-1"]


def test_when_full(tmp_path: Path) -> None:
    settings = pipeline(tmp_path, {"lines": {**SINKS["lines"], "digest_count": 4}})
    with Runner(settings) as runner:
        commit(settings, 0, rows(0, 3), delay=3_600_000)
        assert runner.drain()
        assert in_lines(tmp_path / "lines") == []
        commit(settings, 1, rows(1, 7), delay=3_600_000)
        runner.wake()
        assert runner.drain()
        assert [len(digest) for digest in digests(tmp_path / "lines")] == [4, 4, 2]


def test_large_ones_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "DIGEST_BYTES", 300)
    monkeypatch.setattr(held, "RELEASE_BYTES", 500)
    settings = pipeline(tmp_path, LINES)
    commit(settings, 0, rows(0, 10), delay=1, body=b"<a>" + b"x" * 93 + b"</a>")
    with Runner(settings) as runner:
        time.sleep(0.01)
        assert runner.drain()
        assert runner.drain()
    sizes = [len(digest) for digest in digests(tmp_path / "lines")]
    assert sum(sizes) == 10 and max(sizes) <= 3


def test_by_webhook(tmp_path: Path) -> None:
    with serving() as hooks:
        settings = pipeline(tmp_path, {"hook": {"kind": "webhook", "url": hooks.url, "allow": ["127.0.0.1/32"]}})
        commit(settings, 0, rows(0, 5), delay=1)
        with Runner(settings) as runner:
            time.sleep(0.01)
            assert runner.drain()
    [request] = hooks.requests
    assert len(etree.fromstring(request.body)) == 5


@pytest.mark.parametrize(
    ("content", "inside"),
    [
        (b"<?xml version='1.0'?><!DOCTYPE a><a x='1'>t</a><!-- after -->", b"<a x='1'>t</a>"),
        ("<?xml version='1.0' encoding='UTF-16'?><a>é</a>".encode("utf-16"), "<a>é</a>".encode()),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", "<a>é</a>".encode()),
        (b"<!DOCTYPE a [<!ENTITY e 'text'>]><a>&e;</a>", b"<a>text</a>"),
        (b"<b/><c/>", b"<b/><c/>"),
        (b"just text &amp; more", b"just text &amp; more"),
        (b"</entry><entry>", b"<base64>PC9lbnRyeT48ZW50cnk+</base64>"),
        (b"\xff", b"<base64>/w==</base64>"),
        (b"", b""),
        (b"<a xmlns='u'><b/></a>", b"<a xmlns='u'><b/></a>"),
    ],
)
def test_any_content_can_be_inside(content: bytes, inside: bytes) -> None:
    single = Waiting(1, "d", "s", 'm"<\n', 5_000_000, {}, "q&", None, content)
    made = held.digest([single])
    root = etree.fromstring(made.content)
    assert root.get("subscription") == "q&" and root[0].get("time") == "1970-01-01T00:00:05.000000Z"
    assert b">" + inside + b"</entry>" in made.content


def test_nothing_outside_is_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    content = f"<!DOCTYPE a [<!ENTITY e SYSTEM '{(tmp_path / 'secret').as_uri()}'>]><a>&e;</a>".encode()
    assert b"secret" not in held.digest([Waiting(1, "d", "s", "m", None, {}, "q", None, content)]).content.replace(
        b"base64", b""
    )
