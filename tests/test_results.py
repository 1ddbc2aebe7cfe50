"""What subscriptions select: node ids and fragments."""

from __future__ import annotations

import pickle
import time

import pyarrow as pa
import pytest
from lxml import etree

from twigcast import Broker, Engine, Limits, Match, OptionError, QueryError, Subscription

MESSAGE = (
    b"""<?xml version="1.0"?><!--c--><a xmlns:n="urn:n" p="1"><b x="2">one<?pi data?>two</b><n:b/><b>three</b></a>"""
)


def nodes(query: str, xml: bytes = MESSAGE, **options: str) -> list[int] | None:
    engine = Engine(namespaces={"n": "urn:n"})
    engine.add(query, result="nodes", **options)
    return next((one.nodes for one in engine.select(xml)), None)


def fragments(query: str, xml: bytes = MESSAGE) -> list[bytes] | None:
    engine = Engine(namespaces={"n": "urn:n"})
    engine.add(query, result="fragments")
    return next((one.fragments for one in engine.select(xml)), None)


def canonical(xml: bytes) -> bytes:
    data: bytes = etree.tostring(etree.fromstring(xml, etree.XMLParser(recover=True)), method="c14n")
    return data


def test_ids_are_places_in_document_order() -> None:
    assert nodes("/") == [0]
    assert nodes("/comment()") == [1]
    assert nodes("/a") == [2]
    assert nodes("/a/@p") == [3]
    assert nodes("//b") == [4, 10]
    assert nodes("//@x") == [5]
    assert nodes("//text()") == [6, 8, 11]
    assert nodes("//processing-instruction()") == [7]
    assert nodes("//n:b") == [9]
    assert nodes("//b/following::node()") == [9, 10, 11]  # residual
    assert nodes("//processing-instruction('pi')") == [7]  # residual
    assert nodes("/a/preceding::node() | /..") == [1]
    assert nodes("//b/following::b | /") == [0, 10]
    assert nodes("/z") is None


def test_a_position_counts_in_the_whole_set() -> None:
    assert nodes("(//b)[1]") == [4]
    assert nodes("(//b)[last()]") == [10]
    assert nodes("(//b | //@x | //b)[position() > 1]") == [5, 10]
    assert nodes("//b[2]") == [10]
    assert nodes("//b[2] | //n:b[1]") == [9, 10]


def test_fragments_of_every_kind_of_node() -> None:
    assert fragments("//b") == [b'<b xmlns:n="urn:n" x="2">one<?pi data?>two</b>', b'<b xmlns:n="urn:n">three</b>']
    assert fragments("//n:b") == [b'<n:b xmlns:n="urn:n"/>']
    assert fragments("//@x | //comment() | //processing-instruction()") == [b"<!--c-->", b"2", b"<?pi data?>"]
    assert fragments("//b[1]/text()") == [b"one", b"two"]
    assert fragments("/") == [MESSAGE.partition(b"?>")[2]]
    assert fragments("//b/following::b") == [b'<b xmlns:n="urn:n">three</b>']
    assert fragments("/ | //zzz/following::b") == fragments("/")


def test_text_and_attributes_are_escaped() -> None:
    xml = b"""<a x='"&lt;&amp;&#13;'>&lt;b&gt;<![CDATA[<&]]>&#13;</a>"""
    for query in ("//@x", "//@x/self::node()", "//@*[not(following::zzz)]"):
        assert fragments(query, xml) == [b'"&lt;&amp;&#13;']
    for query in ("//text()", "//text()[not(following::zzz)]"):
        assert fragments(query, xml) == [b"&lt;b&gt;&lt;&amp;&#13;"]


@pytest.mark.parametrize(
    ("xml", "fragment"),
    [
        (b'<a xmlns="urn:u"><x/></a>', b'<x xmlns="urn:u"/>'),
        (b'<a xmlns="urn:u"><b xmlns=""><x/></b></a>', b"<x/>"),
        (b'<a xmlns="urn:u"><x xmlns=""/></a>', b'<x xmlns=""/>'),
        (b'<a xmlns="urn:u"><b xmlns=""><c xmlns="urn:v"><x/></c></b></a>', b'<x xmlns="urn:v"/>'),
        (b'<a xmlns:p="urn:u"><b xmlns:p="urn:v"><x/></b></a>', b'<x xmlns:p="urn:v"/>'),
        (b'<a xmlns:p="urn:u" xmlns:q="urn:v"><x xmlns:p="urn:w"/></a>', b'<x xmlns:q="urn:v" xmlns:p="urn:w"/>'),
        (b"<a\n xmlns:q = 'urn:v'\tb='/>' xmlns:p='urn:u' ><x\n>t</x ></a>",
         b"<x xmlns:p='urn:u' xmlns:q = 'urn:v'\n>t</x >"),
        (b'<a xmlns:xml="http://www.w3.org/XML/1998/namespace"><x xml:lang="en"/></a>', b'<x xml:lang="en"/>'),
        (b'<a xmlnsp="u" p="xmlns"><x/></a>', b"<x/>"),
        (b'<!DOCTYPE a [<!ATTLIST a xmlns:p CDATA "urn:u" q CDATA "d"><!ENTITY e "<x q=\'&#38;amp;\'/>">]><a>&e;</a>',
         b'<x xmlns:p="urn:u" q=\'&amp;\'/>'),
    ],
)  # fmt: skip
def test_namespaces_in_scope_are_declared(xml: bytes, fragment: bytes) -> None:
    (shared,) = fragments("//*[not(*)]", xml) or ()
    (residual,) = fragments("//*[local-name() = 'x']", xml) or ()
    assert shared == fragment
    assert canonical(residual) == canonical(fragment)


def test_namespaces_need_not_be_uris() -> None:
    xml = b"<a xmlns:q='v>\"/'><q:x/></a>"
    for query in ("/a/*", "//*[name() = 'q:x']"):
        assert nodes(query, xml) == [2]
        assert [one.replace(b"&quot;", b'"').count(b"v") for one in fragments(query, xml) or ()] == [1]


def test_references_that_mean_nothing_are_dropped() -> None:
    x = b'<x z="1&u;">&u;2&amp;<![CDATA[&u;]]><!--&u;--><?p &u;?>&u;</x>'
    xml = b'<!DOCTYPE a SYSTEM "no.dtd"><a y="&u;&lt;&u;">' + x + b"</a>"
    expected = [b'<x z="1">2&amp;<![CDATA[&u;]]><!--&u;--><?p &u;?></x>']
    assert fragments("//x", xml) == expected
    assert fragments("//@z", xml) == [b"1"]
    assert nodes("//x", xml) == nodes("//x[not(following::y)]", xml) == [3]
    assert fragments("//x[not(following::y)]", xml) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_fragments_are_utf8(encoding: str) -> None:
    xml = f'<?xml version="1.0" encoding="{encoding}"?><a><x é="ü">ß</x></a>'.encode(encoding)
    assert fragments("//x", xml) == fragments("//x[not(following::y)]", xml) == ['<x é="ü">ß</x>'.encode()]


def test_each_subscription_has_its_own_constants_and_form() -> None:
    engine = Engine()
    for i in range(8):  # from the third on by template
        engine.add(f'//b[@x = "{i}"]/c[. > {i}]', id=f"n{i}", result="nodes")
        engine.add(f'//b[@x = "{i}"]/c[. > {i}]', id=f"f{i}", result="fragments")
        engine.add(f'//b[@x = "{i}"]/c[. > {i}]', id=f"m{i}")
        engine.add(f'(//b[@x = "{i}"]/c | //d[@y = -{i}])[last()]', id=f"p{i}", result="fragments")
    xml = b'<a><b x="3"><c>3</c><c>4</c></b><b x="5"><c>6</c></b><d y="-5"/></a>'
    found = {one.id: one for one in engine.select(xml)}
    assert set(found) == {"n3", "f3", "m3", "n5", "f5", "m5", "p0", "p3", "p5"} - {"p0"}
    assert (found["n3"].nodes, found["n3"].fragments) == ([6], None)
    assert (found["f3"].nodes, found["f3"].fragments) == (None, [b"<c>4</c>"])
    assert (found["m3"].nodes, found["m3"].fragments) == (None, None)
    assert found["p3"].fragments == [b"<c>4</c>"]
    assert found["p5"].fragments == [b'<d y="-5"/>']
    assert found["n5"].nodes == [10]
    engine.remove("n3")
    engine.remove("f5")
    again = {one.id: one for one in engine.select(xml)}
    assert set(again) == set(found) - {"n3", "f5"}
    assert all(again[id] == found[id] for id in again)
    engine.add("//d", id="new")  # takes a number that had results
    assert {one.id: one for one in engine.select(xml)}["new"].fragments is None


def test_match_only_subscriptions_and_match_are_as_before() -> None:
    engine = Engine()
    engine.add("//b", result="fragments")
    engine.add("//b/@x")
    assert engine.match(MESSAGE) == [1, 2]
    _, second = engine.select(MESSAGE)
    assert (second.id, second.nodes, second.fragments, second.complete) == (2, None, None, True)
    engine.remove(1)
    assert [one.fragments for one in engine.select(MESSAGE)] == [None]


def test_what_is_no_node_set_selects_nothing() -> None:
    engine = Engine()
    for query in ("count(//a)", "/a = 'x'", "string(//a)", "//a and //b", "//a = //b", "not(/a)"):
        for result in ("nodes", "fragments"):
            with pytest.raises(QueryError) as caught:
                engine.add(query, result=result)
            assert caught.value.code == "not-a-node-set"
            assert "^" * len(query) in str(caught.value)
        engine.add(query)
    with pytest.raises(OptionError, match="there is no result 'node'") as wrong:
        engine.add("/a", result="node")
    assert wrong.value.hint == "the results are match, nodes, fragments"
    assert len(engine) == 6


WIDE = b"<a>" + b"<b>12345</b>" * 500 + b"</a>"


@pytest.mark.parametrize("query", ["//b", "//b[not(following::c)]"])
def test_results_are_cut_at_the_limits(query: str) -> None:
    engine = Engine(limits=Limits(max_result_nodes=20, max_result_bytes=100))
    engine.add(query, id="n", result="nodes")
    engine.add(query, id="f", result="fragments")
    engine.add(query, id="m")
    engine.add("//b[1]", id="one", result="fragments")
    found = {one.id: one for one in engine.select(WIDE)}
    assert (found["n"].nodes, found["n"].complete) == (list(range(2, 42, 2)), False)
    assert (found["f"].fragments, found["f"].complete) == ([b"<b>12345</b>"] * 8, False)
    assert found["m"].complete
    assert (found["one"].fragments, found["one"].complete) == ([b"<b>12345</b>"], True)
    result = engine.select_batch(pa.record_batch({"id": [1], "xml": [WIDE]}))
    assert [m["complete"] for m in result.column("matches")[0].as_py()] == [False, False, True, True]
    exact = Engine(limits=Limits(max_result_nodes=500, max_result_bytes=6000))
    exact.add(query, result="nodes")
    exact.add(query, result="fragments")
    assert [one.complete for one in exact.select(WIDE)] == [True, True]


def test_the_limit_counts_what_is_given_and_not_what_stands_in_the_message() -> None:
    engine = Engine(limits=Limits(max_result_bytes=4))
    engine.add("/a/@long-name", id="attribute", result="fragments")
    engine.add("/a/b/text()", id="text", result="fragments")
    engine.add("/a/c/text()", id="longer", result="fragments")
    engine.add("/a/d", id="element", result="fragments")
    found = engine.select(b'<a long-name="1234"><b>&#x00041;BCD</b><c>&#60;A</c><d/></a>')
    assert {one.id: (one.fragments, one.complete) for one in found} == {
        "attribute": ([b"1234"], True),
        "text": ([b"ABCD"], True),
        "longer": ([], False),
        "element": ([b"<d/>"], True),
    }


def test_hostile_messages_cost_no_more_than_their_size() -> None:
    engine = Engine()
    engine.add("//*", id="n", result="nodes")
    engine.add("//*", id="f", result="fragments")
    engine.add("//x//x//x//x", id="x", result="fragments")
    deep = b"<x>" * 1000 + b"y" * 100_000 + b"</x>" * 1000
    names = b"".join(b' xmlns:p%d="u%d"' % (i, i) for i in range(300))
    scopes = b"<x" + names + b">"
    declaring = scopes * 500 + b"<x/>" * 100_000 + b"</x>" * 500
    chaff = b"<x><![CDATA[" + b"&" * 1_000_000 + b"]]></x>"
    for xml in (deep, declaring, chaff):
        began = time.perf_counter()
        found = engine.select(xml)
        assert time.perf_counter() - began < 20  # quadratic behaviour takes hours
        for one in found:
            assert len(one.nodes or ()) <= 10_000
            assert sum(map(len, one.fragments or ())) <= 16 << 20


def test_a_fragment_is_the_same_in_every_slice_of_a_batch() -> None:
    engine = Engine()
    engine.add_many(Subscription(i, q, result="fragments") for i, q in enumerate(["//b", "//b[. = '12345']", "/a"]))
    engine.add("//b[not(preceding::c)]", result="nodes")
    batch = pa.record_batch({"id": range(5), "xml": [WIDE, b"<", b"<a/>", WIDE, None]})
    whole = engine.select_batch(batch)
    slices = list(engine.select_batches(batch, max_bytes=1))
    assert len(slices) > 2
    assert pa.Table.from_batches(slices).to_pylist() == whole.to_pylist()
    assert [len(row) for row in whole.column("matches").to_pylist()] == [4, 0, 1, 4, 0]
    empty = engine.select_batch(batch.slice(0, 0))
    assert empty.num_rows == 0 and empty.schema.field("matches").type == whole.schema.field("matches").type


def test_the_broker_hands_results_on() -> None:
    broker = Broker()
    broker.subscribe("//b", id="n", subscriber="ann", result="nodes")
    broker.subscribe("//b", id="f", result="fragments")
    broker.subscribe("//b", id="m")
    n, f, m = broker.publish(b"<a><b/></a>")
    assert (n.subscriber, n.nodes, n.fragments) == ("ann", [2], None)
    assert (f.nodes, f.fragments, f.complete) == (None, [b"<b/>"], True)
    assert (m.nodes, m.fragments) == (None, None)
    assert len({n, f, m}) == 3


def test_matches_are_a_sequence_that_equals_a_list() -> None:
    broker = Broker()
    for id in ("a", "b", "c"):
        broker.subscribe(
            "//b", id=id, subscriber="ann" if id == "b" else None, result="nodes" if id == "c" else "match"
        )
    found = broker.publish(b"<a><b/></a>", id="m")
    every = [Match("m", "a"), Match("m", "b", "ann"), Match("m", "c", nodes=[2])]
    assert found == every and every == found
    assert found != every[:2] and found != [*every[:2], Match("m", "c")]
    assert found != [1, 2, 3] and found != tuple(every)
    assert found.subscriptions == ["a", "b", "c"] and found.message == "m"
    assert (found[0], found[-1], found[1:], found[::-1]) == (every[0], every[2], every[1:], every[::-1])
    assert list(found) == every and list(reversed(found)) == every[::-1] and every[1] in found
    assert found + found == every + every and found + every == every + found
    assert repr(found) == repr(every) and pickle.loads(pickle.dumps(found)) == every
    with pytest.raises(IndexError):
        found[3]
    with pytest.raises(TypeError):
        hash(found)
    assert not broker.publish(b"<a/>") and broker.publish(b"<a/>") == []


def test_a_match_keeps_the_subscriber_of_the_time_of_publishing() -> None:
    broker = Broker()
    broker.subscribe("//b", id="s", subscriber="ann")
    found = broker.publish(b"<b/>", id=1)
    broker.unsubscribe("s")
    broker.subscribe("//b", id="s", subscriber="bob")
    assert found == [Match(1, "s", "ann")] and broker.publish(b"<b/>", id=2) == [Match(2, "s", "bob")]
    with pytest.raises(QueryError):
        broker.subscribe("//b[", id="t", subscriber="ann")
    broker.subscribe("//b", id="t")
    assert broker.publish(b"<b/>", id=3)[1] == Match(3, "t")
