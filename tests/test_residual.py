"""Queries beyond tree patterns: the evaluator has the last word on messages that pass the shared pattern."""

from __future__ import annotations

from contextlib import suppress
from time import thread_time

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription
from twigcast.engine import Failure
from twigcast.errors import MessageError
from twigcast.limits import Limits


@pytest.mark.parametrize(
    "uri", ["uri:this is a test", "urn:a b", "relative", "http://[", "%", "urn:\u00e9", "a:b|c"], ids=repr
)
def test_namespace_names_need_not_be_uris(uri: str) -> None:
    """Namespaces in XML does not make that an error; libxml2 objects, in the middle of a batch."""
    message = f'<r xmlns:p="{uri}"><p:a/><p:b/></r>'.encode()
    engine = Engine(namespaces={"q": uri})
    engine.add("/r/q:b[preceding::q:a]", id="yes")
    engine.add("/r/q:b[preceding::q:c]", id="no")
    engine.add("//q:a[following-sibling::*]", id="also")
    assert engine.match(message) == ["yes", "also"]
    batch = engine.match_batch(pa.record_batch({"id": ["m"], "xml": [message]}))
    assert engine.ids.take(pa.array(batch.column("matches")[0].as_py(), pa.uint32())).to_pylist() == ["yes", "also"]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII", "windows-1252"])
def test_every_encoding_that_we_read(encoding: str) -> None:
    text = "e" if encoding == "US-ASCII" else "é"
    message = f'<?xml version="1.0" encoding="{encoding}"?><r><a>{text}</a><b/></r>'.encode(encoding)
    engine = Engine()
    engine.add(f"//b[preceding-sibling::a = '{text}']", id=1)
    assert engine.match(message) == [1]


COSTLY = "//*[ancestor::*[count(ancestor::*) > 99999]]"
DEEP = b"<a>" * 1000 + b"</a>" * 1000


def test_a_query_that_takes_too_long_is_reported() -> None:
    engine = Engine()
    engine.add(COSTLY, id="costly")
    engine.add("//a", id="plain")
    began = thread_time()
    failures: list[Failure] = []
    assert engine.match(DEEP, failures=failures) == ["plain"]
    assert [s.id for s in engine.select(DEEP, failures=failures)] == ["plain"]
    for failure in failures:
        assert (failure.id, failure.error.code) == ("costly", "query-too-costly")
        assert "max_query_steps" in failure.error.text
    assert len(failures) == 2
    assert engine.match(b"<a><b/></a>") == ["plain"]
    batch = pa.record_batch({"id": [1, 2], "xml": [DEEP, b"<a><b/></a>"]})
    for result in (engine.match_batch(batch), engine.select_batch(batch)):
        assert result.column("error").null_count == 2
        (failed,), none = result.column("failures").to_pylist()
        assert engine.ids[failed["subscription"]].as_py() == "costly" and failed["code"] == "query-too-costly"
        assert none is None
        # the others get theirs
        assert [len(found) for found in result.column("matches").to_pylist()] == [1, 1]
    assert thread_time() - began < 2


def test_the_bound_is_a_limit() -> None:
    message = b"<a>" + b"<b/>" * 100 + b"</a>"
    query = "count(//b[following-sibling::b]) = 99"
    free, bound = Engine(), Engine(limits=Limits(max_query_steps=40))
    for engine in (free, bound):
        engine.add(query, id=1)
    assert free.match(message) == [1]
    failures: list[Failure] = []
    assert bound.match(message, failures=failures) == []
    assert [one.id for one in failures] == [1]


@pytest.mark.parametrize("shape", ["wide", "deep", "both"])
@pytest.mark.parametrize(
    "query",
    [
        "//*[following::*[preceding::*]]",
        "//*/following::*/preceding::*/ancestor::*",
        "//*[. = following::*]",
        "//*[count(ancestor::*//* | following::*) > 99999]",
        "//*[string(following::*[last()]) = 'x']",
        "//*[following-sibling::*[preceding-sibling::*[following-sibling::* = 'x']]]",
    ],
)
def test_what_runs_takes_no_time(query: str, shape: str) -> None:
    """Whatever the message, the answer or the refusal comes soon: the bound is one."""
    engine = Engine()
    engine.add(query, id=1)
    for size in (50, 200, 800):
        message = {
            "wide": b"<a>" + b"<b>1</b>" * size + b"</a>",
            "deep": b"<a>1" * size + b"</a>" * size,
            "both": b"<a>" * (size // 2) + b"<b>1</b>" * (size // 2) + b"</a>" * (size // 2),
        }[shape]
        began = thread_time()
        with suppress(MessageError):
            engine.match(message)
        assert thread_time() - began < 10


def test_the_same_text_is_compiled_and_checked_once() -> None:
    engine = Engine()
    engine.add_many(Subscription(i, "//b[preceding::a]") for i in range(5_000))
    began = thread_time()
    assert len(engine.match(b"<r><a/><b/></r>")) == 5_000
    assert thread_time() - began < 1


@pytest.mark.parametrize("before", ['<!DOCTYPE a [<!ENTITY e "v">]>', '<!DOCTYPE a SYSTEM "a.dtd">', "", "<?p?>"])
@pytest.mark.parametrize("after", ["<!-- c -->", "<?p?><!-- c -->"])
def test_what_precedes_a_comment_after_the_root(before: str, after: str) -> None:
    """libxml2 leaves the root out unless something comes before it."""
    engine = Engine()
    engine.add("count(/comment()/preceding::*) = 2", id="both")
    engine.add("string(/) = /comment()/preceding::a", id="the same")
    engine.add("/node()[last()]/preceding-sibling::a", id="sibling")
    assert engine.match(f"{before}<a><b>v</b>w</a>{after}".encode()) == ["both", "the same", "sibling"]
