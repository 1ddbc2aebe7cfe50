"""Which expression goes where, and what a fragment keeps for it (eXtract, section 4 and appendices)."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from pathlib import Path as File
from typing import Any

import pytest
from chunk_reference import allowed, fragments, match
from lxml import etree

from twigcast import Engine, Subscription
from twigcast.chunk.prepare import Preparer, prepare
from twigcast.chunk.scheme import Chunk, Scheme, path_text
from twigcast.errors import OptionError, QueryError
from twigcast.papers.experiments import chunking_workload as workload
from twigcast.schema import dtd_schema


def subscribed(*queries: str, result: str = "match") -> list[Subscription]:
    return [Subscription(i, query, result=result) for i, query in enumerate(queries, 1)]


def scheme(chunks: int, *queries: str, beside: str = "filters", result: str = "match") -> Scheme:
    return prepare(subscribed(*queries, result=result), chunks=chunks, beside=beside)


def shown(chunk: Chunk) -> tuple[str, list[str], list[str]]:
    return (
        path_text(chunk.prefix),
        [str(keep) for keep in chunk.filters],
        [one.query for one in chunk.subscriptions],
    )


def test_figure_8_a_filter_node_beside_the_chunk() -> None:
    made = scheme(1, "/a/b[c]/d/e", "/a/b/d", "/a/b/d/f")
    assert shown(made.chunks[0]) == ("/a/b/d", ["/a/b/c"], ["/a/b[c]/d/e", "/a/b/d", "/a/b/d/f"])
    xml = b"<a><b><c>much <x/></c><d><e/></d></b><b><d><e/>t</d><y/></b><z/></a>"
    (fragment,) = fragments(made, xml)
    assert fragment.xml == b"<a><b><c></c><d><e></e></d></b><b><d><e></e>t</d></b></a>"
    assert [one.id for one in match(made, xml)] == [1, 2]


def test_a_value_test_keeps_all_that_is_in_the_filter_node() -> None:
    made = scheme(1, '/a/b[c = "x"]/d/e', "/a/b/d", "/a/b/d/f", "/a/b[c]/d/e")
    assert shown(made.chunks[0])[:2] == ("/a/b/d", ["/a/b/c/…"])
    xml = b"<a><b><d><e/></d><c><x>x</x></c></b></a>"
    assert [one.id for one in match(made, xml)] == [1, 2, 4]
    assert not made.chunks[0].batchable


def test_what_looks_beside_goes_higher_up_where_chunks_are_cut_into_batches() -> None:
    made = scheme(1, "/a/b[c]/d/e", "/a/b/d/e", "/a/b[@x]/d/e", beside="potpourri")
    assert shown(made.chunks[0]) == ("/a/b", [], ["/a/b[c]/d/e", "/a/b/d/e", "/a/b[@x]/d/e"])
    assert made.chunks[0].batchable and not made.potpourri.groups


def test_and_to_the_potpourri_where_no_chunk_is_higher_up() -> None:
    made = scheme(2, "/a/b[c]/d/e", *["/a/b/d"] * 4, "/a/b[@x]/d/e", *["/a/k"] * 4, beside="potpourri")
    assert [path_text(one.prefix) for one in made.chunks] == ["/a/b/d", "/a/k"]
    assert all(one.batchable for one in made.chunks)
    assert shown(made.potpourri) == ("", ["/a/b/c", "/a/b/d/e"], ["/a/b[c]/d/e"])


def test_a_condition_on_the_document_element_is_an_expression_of_its_own() -> None:
    made = scheme(1, '/list[head/date = "today"]/item[price > 5]', "/list/item", beside="potpourri")
    assert shown(made.chunks[0]) == ("/list/item", [], ["/list/item[price > 5]", "/list/item"])
    assert shown(made.potpourri) == ("", ["/list/head/date/…"], ['/list/head/date[. = "today"]'])
    # the condition comes last, when all batches are gone
    xml = b"<list><item><price>6</price></item><item/><head><date>today</date></head></list>"
    assert [one.id for one in match(made, xml, batch=1)] == [1, 2]
    assert [one.id for one in match(made, xml.replace(b"today", b"now"), batch=1)] == [2]


@pytest.mark.parametrize(
    "query, where",
    [
        ("/a/b[2]/c", ["/a/b", "/a/b/c"]),  # positions among siblings that another batch may have
        ("/a/b/c[last()]", []),  # known inside b
        ("/a/b[/a/x]/c", ["/a/x"]),  # absolute: the condition alone
        ("//c", ["//c"]),
        ("/*/b", ["/*/b"]),
        ("count(/a/b/c) > 2", ["/a/b/c"]),
        ('string(/a/b/c) = "x"', ["/a/b/c/…"]),
        ("/a", ["/a"]),
        ("/a/@x", ["/a"]),
        ("//@x", ["//*"]),
        ("not(/a/b/c)", []),
        ("/a/b/c | /a/b/d", []),
        ('/a/b[. = "x"]/c', []),
        ("/a/b[c = d]/e", []),  # for libxml2, but not beyond b
        ("/a/b/c[sum(d) > 3]/@x", []),
        ("//c[d + e > 1]", ["//c/…"]),
    ],
)
def test_what_the_potpourri_keeps(query: str, where: list[str]) -> None:
    made = scheme(1, query, "/a/b", "/a/b", beside="potpourri")
    assert [path_text(one.prefix) for one in made.chunks] == ["/a/b"]
    assert [str(keep) for keep in made.potpourri.filters] == where
    assert not made.potpourri.whole


@pytest.mark.parametrize(
    "query",
    [
        "/a/b[following::c]",
        "/a/b[c = /a/d]",
        "/a/b[c = d][2]",
        "/a/b[id(c)]",
        "//text()",
        "/comment()",
        "id('x')",
        "<out>{ for $x in //b return <n>{ $x/c }</n> }</out>",
    ],
)
def test_what_takes_the_whole_document(query: str) -> None:
    made = scheme(1, query, "/a/b")
    assert made.potpourri.whole and made.homes == {1: {0}, 2: {1}}


@pytest.mark.parametrize(
    "query, unit",
    [
        ("//a//b", []),
        ("//a/@x", []),
        ("//a[@x]/b", []),
        ("//item[price > 5]/name", ["//item/…"]),
        ("/a//b/c[d]", ["/a//b/c/…"]),
        ("/a/b/c[2]", ["/a/b/…"]),
        ("//b/text()", []),
        ("//b/node()", []),
        ("//b/node()[c]", ["//b/…"]),
        ("//b[c = d]", ["//b/…"]),
        ("//b[2]", None),
        ('/a[. = "x"]', None),
        ("//text()", []),
        ("count(//a) > 1", None),
    ],
)
def test_what_must_not_be_cut(query: str, unit: list[str] | None) -> None:
    expression = scheme(0, query).potpourri.groups[0].shape
    assert (None if expression.unit is None else [str(one) for one in expression.unit]) == unit
    if unit:
        assert scheme(0, query, result="nodes").potpourri.groups[0].shape.unit is None


def test_incremental_is_the_same_as_anew() -> None:
    queries = ["/a/b/c", "/a/b/d", "/a/b/c", "/a/x[y]/z", "//c", "/a/b[/a/x]/c", "/a/x/z | /a/b", "/a/b[following::c]"]
    preparer = Preparer()
    every = subscribed(*queries)
    for one in every:
        preparer.add(one)
    for gone in (1, 5, 8, 6):
        preparer.remove(gone)
        every = [one for one in every if one.id != gone]
        for chunks in range(4):
            ours, anew = preparer.scheme(chunks), prepare(every, chunks=chunks)
            assert [shown(one)[:2] for one in ours.fragments] == [shown(one)[:2] for one in anew.fragments]
            assert [sorted(shown(one)[2]) for one in ours.fragments] == [
                sorted(shown(one)[2]) for one in anew.fragments
            ]
            assert [one.weight for one in ours.fragments] == [one.weight for one in anew.fragments]
            assert ours.homes == anew.homes
    assert len(preparer) == 4


def test_mistakes() -> None:
    preparer = Preparer()
    preparer.add(Subscription(1, "/a"))
    with pytest.raises(OptionError, match="already"):
        preparer.add(Subscription(1, "/b"))
    with pytest.raises(QueryError):
        preparer.add(Subscription(2, "/b["))
    with pytest.raises(QueryError, match="selects no nodes"):
        preparer.add(Subscription(2, "1 = 1", result="nodes"))
    with pytest.raises(OptionError, match="no subscription 7"):
        preparer.remove(7)
    with pytest.raises(OptionError, match="number of chunks"):
        preparer.scheme(-1)
    with pytest.raises(OptionError, match="there is no"):
        Preparer(beside="nowhere")
    assert len(preparer) == 1


def test_it_pickles() -> None:
    made = prepare(subscribed("//student/name"), chunks=2, schema=dtd_schema(workload.UNIVERSITY_DTD))
    again = pickle.loads(pickle.dumps(made))
    assert again.chunks == made.chunks and again.answers == made.answers
    assert again.allows((("", "db"), ("", "student"))) and not again.allows((("", "student"),))


def test_a_document_that_is_not_valid_is_noticed() -> None:
    made = prepare(subscribed("//student/name"), chunks=2, schema=dtd_schema(workload.UNIVERSITY_DTD))
    assert allowed(made, b"<db><student><name/></student></db>")
    assert not allowed(made, b"<db><lecturer><student><name/></student></lecturer></db>")


def test_the_example_of_the_page() -> None:
    page = (File(__file__).parents[2] / "docs" / "chunking-scheme.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)
    assert [shown(one) for one in names["scheme"].fragments] == [
        ("/list/item", [], ["/list/item[price > 5]/name", "/list/item/name"]),
        ("/list/person", [], ["/list/person/name", '/list/person[@id = "p7"]/address']),
        ("", ["/list/head/date/…", "/list/item"], ['/list/head/date[. = "2024-05-01"]', "/list/item[position() = 2]"]),
    ]
    exec(second, names)
    assert [path_text(one.prefix) for one in names["scheme"].chunks] == ["/a/b/d"]


# -- the scenarios of section 5


def ejb_prefixes(chunks: int) -> list[str]:
    assembly, beans = "/ejb-jar/assembly-descriptor", "/ejb-jar/enterprise-beans"
    first = [f"{assembly}/container-transaction", f"{assembly}/method-permission", f"{assembly}/security-role"]
    return {
        2: [assembly, beans],
        3: [assembly, first[0], beans],
        4: [*first, beans],
        5: [*first, beans, f"{beans}/session"],
        6: [*first, f"{beans}/entity", f"{beans}/message-driven", f"{beans}/session"],
    }[chunks]


@pytest.mark.parametrize("count", [100, 500, 2000])
def test_a3_prefixes_and_cardinalities(count: int) -> None:
    publisher = dtd_schema(workload.EJB_DTD)
    xml = workload.ejb_descriptor()
    assert not publisher.validate(xml)
    subscriptions = subscribed(*workload.ejb_queries(count))
    preparer = Preparer(publisher, beside="filters")
    for one in subscriptions:
        preparer.add(one)
    published = {path: elements for path, (elements, _) in workload.CARDINALITIES.items()}
    for chunks in range(2, 7):
        made = preparer.scheme(chunks)
        assert [path_text(one.prefix) for one in made.chunks] == ejb_prefixes(chunks)
        assert not made.potpourri.groups
        assert sum(one.weight for one in made.chunks) == count
    for fragment, chunk in zip(fragments(made, xml), made.chunks, strict=True):
        elements = len(etree.fromstring(fragment.xml).xpath(f"{path_text(chunk.prefix)}/descendant-or-self::*"))
        assert elements == pytest.approx(published[path_text(chunk.prefix)[9:]], abs=20)


def test_a1_proportions() -> None:
    publisher = dtd_schema(workload.UNIVERSITY_DTD)
    xml = workload.university(10_000)
    assert allowed(prepare([], chunks=0, schema=publisher), xml)
    left = {100: ["student", "lecturer"], 500: ["secretary", "lecturer"], 2000: ["professor", "secretary"]}
    for count, potpourri in left.items():
        queries = workload.university_queries(count)
        assert sum("//" in one for one in queries) / count == pytest.approx(0.3, abs=0.06)
        assert sum("[" in one for one in queries) / count == pytest.approx(0.3, abs=0.06)
        preparer = Preparer(publisher)
        for one in subscribed(*queries):
            preparer.add(one)
        for chunks in (3, 4, 5):
            made = preparer.scheme(chunks)
            taken = set(workload.SIZES) - set(potpourri[: 5 - chunks])
            assert {path_text(one.prefix) for one in made.chunks} == {f"/db/{kind}" for kind in taken}
            assert bool(made.potpourri.groups) == (chunks < 5)
            kept = {keep.steps[1].local for keep in made.potpourri.filters}
            assert kept == set(potpourri[: 5 - chunks])
    sizes = {path_text(made.chunks[one.chunk - 1].prefix)[4:]: len(one.xml) for one in fragments(made, xml)}
    total = sum(sizes.values())
    for kind, published in workload.SIZES.items():
        assert sizes[kind] / total == pytest.approx(published / sum(workload.SIZES.values()), rel=0.15)


def test_real_descriptors_in_chunks(shared_data: File) -> None:
    xml = merged_descriptor(shared_data / "ejb-descriptors")
    root = etree.fromstring(xml)
    assert len(root.findall("enterprise-beans/*")) > 100
    subscriptions = subscribed(*workload.ejb_queries(300))
    whole = Engine()
    whole.add_many(subscriptions)
    wanted = whole.match(xml)
    assert len(wanted) > 60
    for chunks in (2, 6):
        for beside in ("filters", "potpourri"):
            made = prepare(subscriptions, chunks=chunks, beside=beside)
            assert [one.id for one in match(made, xml, batch=200)] == wanted


def merged_descriptor(folder: File) -> bytes:
    """All EJB descriptors as one, without their namespaces, as in the time of the paper."""
    merged = etree.Element("ejb-jar")
    beans, assembly = etree.SubElement(merged, "enterprise-beans"), etree.SubElement(merged, "assembly-descriptor")
    places = {"enterprise-beans": beans, "assembly-descriptor": assembly}
    seen: Counter[str] = Counter()
    for file in sorted(folder.rglob("ejb-jar*.xml")):
        try:
            root = etree.fromstring(file.read_bytes(), etree.XMLParser(remove_comments=True, load_dtd=False))
        except etree.XMLSyntaxError:
            continue
        for element in root.iter(etree.Element):
            element.tag = etree.QName(element).localname
        for name, place in places.items():
            for block in root.findall(name):
                seen[name] += len(block)
                place.extend(list(block))
    assert all(seen[name] for name in places)
    etree.cleanup_namespaces(merged)
    return bytes(etree.tostring(merged))
