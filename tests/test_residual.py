"""Queries beyond tree patterns: the evaluator has the last word on messages that pass the shared pattern."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from time import thread_time

import pyarrow as pa
import pytest
from lxml import etree

sys.path.append(str(Path(__file__).parent / "lang"))

from lang_documents import document
from lang_queries import query as random_query

from twigcast import Engine, Subscription
from twigcast.engine import Failure
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.explain import explain
from twigcast.lang import xpath
from twigcast.lang.literals import LITERAL
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


def test_matches_that_are_put_off_do_not_pass_a_query_by() -> None:
    """In a batch, what large buckets ask is put off until the message is gone; the queries of residuals cannot wait."""
    engine = Engine()
    engine.add_many(Subscription(i, f"/a[b = 'x'][c > {i}]") for i in range(100))
    residuals = [f"/a[b = 'x'][c > {i}][d = following::d]" for i in range(100)]
    engine.add_many(Subscription(100 + i, query) for i, query in enumerate(residuals))
    assert len({len(engine._compiler.split(Subscription(0, query))[0].plan.constants) for query in residuals}) == 1
    messages = [b"<r><a><b>x</b><c>%d</c></a></r>" % n for n in range(3)]
    messages += [b"<a><b>x</b><c>%d</c><d>%d</d><e/><d>%d</d></a>" % (n, n % 2, n) for n in range(0, 120, 7)]
    batch = pa.record_batch({"id": list(range(len(messages))), "xml": messages})
    for row, message in zip(engine.match_batch(batch).column("matches").to_pylist(), messages, strict=True):
        assert engine.ids.take(pa.array(row, pa.uint32())).to_pylist() == engine.match(message)
    assert engine.match(b"<a><b>x</b><c>2</c></a>") == [0, 1]


def test_queries_see_names_that_no_subscription_mentions_and_ids_of_the_dtd() -> None:
    message = b"""<!DOCTYPE r [<!ATTLIST p:a k ID #IMPLIED>]>
      <r xmlns:p="urn:p" xml:lang="en"><p:a k="x" xmlns:q="urn:q"/><b xml:id="y"/></r>"""
    queries = {
        "name(id('x')) = 'p:a'": True,
        "local-name(id('y')) = 'b' and namespace-uri(id('x')) = 'urn:p'": True,
        "count(/*/*[1]/namespace::*) = 3": True,
        "//*[lang('en')]/@*[name() = 'k']": True,
        "id('z')": False,
        "name(/*) = 's'": False,
    }
    engine = Engine()
    for query in queries:
        engine.add(query, id=query)
    assert engine.match(message) == [query for query, holds in queries.items() if holds]
    assert engine.match(b"<r/>") == []  # the declarations of one message are not those of the next


@pytest.mark.parametrize("result", ["nodes", "fragments"])
def test_what_a_query_selects_is_cut_at_the_limits(result: str) -> None:
    message = b"<a>" + b"<b>1</b>" * 10 + b"<c/></a>"
    query = "//b[following-sibling::c]"
    for limits, reason in [
        (Limits(), None),
        (Limits(max_result_nodes=3), "limit-result-nodes"),
        (Limits(max_message_results=3), "budget-results"),
    ]:
        engine = Engine(limits=limits)
        engine.add(query, id=1, result=result)
        (found,) = engine.select(message)
        assert (found.reason, found.complete) == (reason, reason is None)
        nodes = found.nodes if result == "nodes" else found.fragments
        expected = [2 * n for n in range(1, 11)] if result == "nodes" else [b"<b>1</b>"] * 10
        assert nodes == expected[: 3 if reason else None]
        (row,) = engine.select_batch(pa.record_batch({"id": [1], "xml": [message]})).column("matches").to_pylist()
        assert row[0][result] == nodes and row[0]["reason"] == reason


def test_a_snapshot_has_the_queries_and_opening_it_parses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(namespaces={"p": "urn:p"})
    queries = [
        "//a[following::b = 'x']",
        "//p:a[preceding::p:*]/@*",
        "//a[. = //b]",
        "count(//a) + 1 = 3",
        "processing-instruction('t') or //namespace::q",
        "string-length(concat(//a, 'é', name(/*))) = 3",
        "/r/b[following-sibling::b]",
    ]
    for number, query in enumerate(queries):
        engine.add(query, id=number, result="nodes" if number in (0, 6) else "match")
    engine.add("//z[following::zz]", id="removed")
    engine.remove("removed")
    engine.save(tmp_path / "set")
    monkeypatch.setattr(xpath, "Parser", None)
    opened = Engine.open(tmp_path / "set")
    messages = [
        b"<r><a>x</a><b>x</b><b/></r>",
        b"<r xmlns:q='urn:q'><a/><a>y</a></r>",
        b"<?t u?><r xmlns='urn:p'><a x='1'/><b/><a y='2'/></r>",
    ]
    assert [engine.select(message) for message in messages] == [opened.select(message) for message in messages]
    assert {one.id for message in messages for one in opened.select(message)} == {0, 1, 2, 3, 4, 5, 6}
    assert opened.may_fail(0) and len(opened) == len(queries)
    monkeypatch.undo()
    opened.remove(2)
    opened._compact()
    assert 2 not in opened.match(messages[0]) and opened.match(messages[1]) == engine.match(messages[1])


def test_a_limit_that_is_gone_says_what_took_its_place() -> None:
    with pytest.raises(OptionError) as refused:
        Limits(max_residual_cost=1)
    assert "max_query_steps" in (refused.value.hint or "")
    assert Limits.of_saved({"max_residual_cost": 7, "max_depth": 9}) == Limits(max_depth=9)
    assert "max_residual_cost" not in Limits().as_dict()


RANDOM_LITERALS = ("'x'", "'1'", "'é'", '"a b"', "'0'", "0", "1", "2.5", "30", "'NaN'", "'7000000001.5'")


def with_other_literals(random: Random, text: str) -> str:
    """Return a query of the same shape, with literals of the same kinds."""
    parts = LITERAL.split(text)
    for at in range(1, len(parts), 2):
        is_string = parts[at][0] in "'\""
        parts[at] = random.choice([one for one in RANDOM_LITERALS if (one[0] in "'\"") == is_string])
    return "".join(parts)


SHAPES = (
    "//a[following::b = 'x']",
    "//a[preceding-sibling::* != 'x'][b > 1]",
    "/a[b = 'x' and following::b = 'y']",
    "//b[. = following-sibling::b][1]",
    "count(//a[following::b = 'x']) > 1",
    "//a[position() > 1][following::b = 1]",
    "//a[string-length(following::b) > 1]",
    "//a['x' = preceding::b or 3 < following::c]",
    "//a[contains(following::b, 'x')]",
    "//a[concat(b, 'x') = 'xx']",
    "//a[following::b > '1']",
    "//a[-1 < following::b]",
)


@pytest.mark.parametrize("seed", range(4))
def test_subscriptions_of_a_known_shape_mean_what_they_say(seed: int) -> None:
    """Their constants are put into the compiled shape, in its pattern and in its query."""
    random = Random(seed)
    texts = [*SHAPES, *(random_query(random) for _ in range(60))]
    texts = [text for text in texts if explain(text, namespaces={"n": "urn:n"}).kind == "residual"]
    engine = Engine(namespaces={"n": "urn:n"})
    all_texts = [with_other_literals(random, text) for text in texts for _ in range(5)]
    kept = []
    for text in all_texts:
        with suppress(QueryError):
            engine.add(text, id=len(kept))
            kept.append(text)
    assert len(kept) > 100 and len(engine._compiler.shapes) > 3
    messages = [document(random) for _ in range(3)]
    messages.append(b"<a><b>x</b><a><b>1</b><c>5</c><b>0</b></a><b>x</b><b>a b</b><a>1<b>30</b></a></a>")
    for message in messages:
        found = engine.match(message)
        for number, text in enumerate(kept):
            alone = Engine(namespaces={"n": "urn:n"})
            alone.add(text, id=0)
            assert (number in found) == bool(alone.match(message)), text


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("count(//a) <= true()", False),
        ("true() >= count(//a)", False),
        ("sum(//a[1]) > true()", True),
        ("string(//a) > true()", True),
        ("/r[a[1] + 0 > true()]", True),
        ("string(/r/zz) <= true()", False),
        ("//zz < true()", True),
        ("(//a = 5) >= true()", True),
    ],
)
def test_an_order_compares_a_boolean_as_a_number_unless_the_other_side_is_a_node_set(query: str, matches: bool) -> None:
    xml = b"<r><a>5</a><a/></r>"
    tree = etree.fromstring(xml)
    found = tree.xpath(query)
    assert (found if isinstance(found, bool) else bool(found)) is matches
    engine = Engine()
    engine.add(query, id="q")
    assert engine.match(xml) == (["q"] if matches else [])
