"""What becomes of expressions along a schema (eXtract, section 3), and that it means the same."""

from __future__ import annotations

from random import Random

import pytest
from chunk_random import NAMES, NAMESPACES, Queries, document, schema, subscriptions
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast.chunk.prepare import prepare
from twigcast.chunk.scheme import Scheme
from twigcast.chunk.text import NoText, Writer
from twigcast.chunk.unfold import nesting, unfolded
from twigcast.engine import Subscription
from twigcast.ir.pattern import Pattern, Twig
from twigcast.lang.compile import compile_query
from twigcast.limits import Limits
from twigcast.schema import dtd_schema
from twigcast.schema.libxml2 import read
from twigcast.schema.satisfiable import Impossible

FIGURE_4 = b"""
<!ELEMENT a (b+)> <!ELEMENT b (l*, m*, k*)> <!ELEMENT l (c*)> <!ELEMENT m (c*, a*)> <!ELEMENT k (d*)>
<!ELEMENT d EMPTY> <!ELEMENT c EMPTY>
"""


def expressions(query: str, dtd: bytes | None = FIGURE_4) -> list[str]:
    return [one.query for one in _scheme(query, dtd).potpourri.subscriptions]


def _scheme(query: str, dtd: bytes | None = FIGURE_4) -> Scheme:
    publisher = None if dtd is None else dtd_schema(dtd, roots=("a",))
    return prepare([Subscription("s", query)], chunks=0, schema=publisher)


@pytest.mark.parametrize(
    "query, made",
    [
        ("/a/b/*/c", ["/a/b/l/c", "/a/b/m/c"]),
        ("/a/b/*/d", ["/a/b/k/d"]),
        # the paper's own: /a/b/l//c, /a/b/m//c; where l has nothing but c, its // says no more than /
        ("//c", ["/a/b/l/c", "/a/b/m//c"]),
        ("//d", ["/a/b/k/d", "/a/b/m//d"]),
        ("//a", ["/a", "/a/b/m//a"]),
        ("//m/a", ["/a/b/m/a", "/a/b/m//m/a"]),
        ("/a/b/../b/l", ["/a/b", "/a/b/l"]),
        ("/a/b/l/../m", ["/a/b[l]/m"]),
        ("//c/..", ["/a/b/l[c]", "/a/b/m[c]", "/a/b/m//*[c]"]),
        ("/a/*[2]/l", ["/a/*[position() = 2]/l"]),
        ("/a/b/*[1]", ["/a/b/*[position() = 1]"]),
        ("/a[b/k]/b/l", ["/a/b/k", "/a/b/l"]),
        ("/a[@x and b/l/c]/b/k", ["/a/b/l/c", "/a[@x]/b/k"]),
        ("/a/b[/a/b/k]/l", ["/a/b/k", "/a/b/l"]),
        ("/a/b/l | /a/b/m/c", ["/a/b/l", "/a/b/m/c"]),
        ("/a/b/l and not(/a/b/k/d)", ["/a/b/l", "/a/b/k/d"]),
    ],
)
def test_written_out(query: str, made: list[str]) -> None:
    assert sorted(expressions(query)) == sorted(made)


@pytest.mark.parametrize(
    "query, text",
    [
        ("/a/d", "d cannot occur in a (after /a)"),
        ("//nothing", "nothing occurs nowhere in the schema"),
        ("/a/b[x]/l", "x cannot occur in b (after /a/b)"),
        ("/a/b/k/c | /a/l", "c cannot occur in k (after /a/b/k)"),
    ],
)
def test_what_no_valid_document_has_is_dropped(query: str, text: str) -> None:
    scheme = _scheme(query)
    assert not scheme.fragments
    assert [(one.id, one.text) for one in scheme.notices] == [("s", text)]


def test_only_the_nesting_of_elements_is_relied_on() -> None:
    # an attribute that the schema does not know would not be noticed in a document
    assert expressions("/a/b/@unknown") == ["/a/b/@unknown"]


@pytest.mark.parametrize("query", ["//c", "/a/*/l", "/a/b//c[2]", "/a/b[l]/k"])
def test_without_a_schema_a_path_stays(query: str) -> None:
    assert expressions(query, None) == [query.replace("[2]", "[position() = 2]")]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_unfolded_finds_the_same_nodes_of_valid_documents(seed: int) -> None:
    random = Random(seed)
    publisher, names, documents = schema(random)
    graph = nesting(publisher.graph)
    queries = Queries(random, names[1:], "r", steady=True)
    for _ in range(6):
        compiled = compile_query(queries.top(), NAMESPACES)
        if not isinstance(compiled, Pattern):
            continue
        for one in compiled.selects or ():
            ways = unfolded(graph, one.twig)
            for xml in documents[:2]:
                tree = read(xml, Limits())
                found = [] if isinstance(ways, Impossible) else [_keys(tree, way) for way in ways]
                assert set().union(*found) == _keys(tree, one.twig), (str(one.twig), xml)


def _keys(tree: etree._ElementTree, twig: Twig) -> set[object]:
    writer = Writer()
    found = etree.XPath(writer.path(twig), namespaces=writer.prefixes or None)(tree)
    return {
        one if isinstance(one, etree._Element) else (one.getparent(), one.attrname, one.is_tail)  # type: ignore[union-attr]
        for one in found  # type: ignore[union-attr]
    }


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_pattern_as_text_selects_the_same(seed: int) -> None:
    random = Random(seed)
    for s in subscriptions(Queries(random, NAMES, "a", steady=True), 6, results=False):
        compiled = compile_query(s.query, NAMESPACES)
        if not isinstance(compiled, Pattern):
            continue
        writer = Writer()
        try:
            text = writer.condition(compiled.condition)
        except NoText:
            continue
        xml = document(random)
        ours = etree.XPath(f"boolean({text})", namespaces=writer.prefixes or None)(read(xml, Limits()))
        theirs = etree.XPath(f"boolean({s.query})", namespaces=NAMESPACES)(read(xml, Limits()))
        assert ours == theirs, (s.query, text)
