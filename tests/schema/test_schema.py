"""What a schema says of patterns, held against documents that are valid."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from schema_support import NAMES, random_twig, schema_and_documents, text_of
from twigcast.errors import OptionError
from twigcast.ir.pattern import Twig
from twigcast.lang.flwr import parse_transform
from twigcast.papers.plans.evaluate import select
from twigcast.papers.plans.facts import nests
from twigcast.papers.plans.nodes import Message
from twigcast.papers.plans.rewrite import without_descendants
from twigcast.schema import ElementGraph, dtd_schema, xsd_schema


def twig(path: str) -> Twig:
    found = parse_transform(f"<r>{{ for $v in {path} return <e>{{ string($v) }}</e> }}</r>").binding.twig
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_documents_satisfy_what_the_schema_says(name: str) -> None:
    """Unsatisfiable never matches; a rewritten pattern finds the same; the walk covers what is found."""
    schema, documents = schema_and_documents(name, 20)
    messages = [Message(one) for one in documents]
    assert len(messages) >= 10
    random = Random(name)
    dead = rewritten = 0
    for _ in range(400):
        pattern = random_twig(random, schema)
        impossible = schema.impossible(pattern) is not None
        other = without_descendants(schema.graph, pattern)
        dead += impossible
        rewritten += other != pattern
        for message in messages:
            found = [node.id for node in select(pattern, message.document)]
            assert not (found and impossible), pattern
            assert found == [node.id for node in select(other, message.document)], (pattern, other)
    assert dead > 20
    assert rewritten > 5


def on_loop(graph: ElementGraph) -> int:
    """Return the declarations that may contain themselves, at any depth."""
    return sum(1 << i for i, below in enumerate(graph.below) if below >> i & 1)


@pytest.mark.parametrize("name", NAMES)
def test_nesting_and_loops(name: str) -> None:
    schema, documents = schema_and_documents(name, 20)
    graph = schema.graph
    for xml in documents:
        for node in Message(xml).nodes:
            if node.kind != "element":
                continue
            mine = graph.named(node.ns, node.local)
            for inner in node.below():
                if inner.kind == "element":
                    other = graph.named(inner.ns, inner.local)
                    assert graph.all_below(mine) & other == other
                    if inner.local == node.local:
                        assert nests(graph, mine)
                        assert mine & on_loop(graph)


def test_loops_of_the_papers_vocabularies() -> None:
    def loops(name: str) -> set[str]:
        graph = dtd_schema(text_of(name)).graph
        return {str(graph.declarations[one]) for one in graph.members(on_loop(graph))}

    assert loops("bib") == set()
    assert loops("book") == {"section", "list", "item"}


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("//book", "bib/book"),
        ("//author//first", "bib/book/author/first"),
        ("//book//last", "bib/book//last"),  # of an author or an editor
        ("//publisher/text()", "bib/book/publisher/text()"),
        ("//@year", "bib/book/@year"),
    ],
)
def test_superfluous_descendants(path: str, same: str) -> None:
    assert str(without_descendants(dtd_schema(text_of("bib")).graph, twig(path))) == same


def test_the_papers_figure_and_image() -> None:
    assert str(without_descendants(dtd_schema(text_of("book")).graph, twig("//figure//image"))) == ".//figure/image"


@pytest.mark.parametrize(
    ("path", "text", "hint"),
    [
        ("/book/chapter", "chapter cannot occur in book (after /book)", "author, section, title"),
        ("//figure/para", "para cannot occur in figure (after //figure)", "caption, image, title"),
        ("//section/@idd", "@idd cannot occur in section (after //section)", "did you mean id?"),
        ("//section[figure/para]", "para cannot occur in figure (after //section/figure)", "caption, image, title"),
        ("//author//title", "title cannot occur in author at any depth (after //author)", "no elements are allowed"),
        ("/section", "section cannot be the document element", "book"),
        ("//chapter", "chapter occurs nowhere in the schema", "caption"),
    ],
)
def test_impossible_says_where_and_what_is_allowed(path: str, text: str, hint: str) -> None:
    found = dtd_schema(text_of("book")).impossible(twig(path))
    assert found is not None
    assert found.text == text
    assert hint in found.hint


@pytest.mark.parametrize(
    "path",
    [
        "//section[not(chapter)]",
        "//section[chapter or title]",
        "//comment()",
        "/comment()",
        "//title/text()",
        "//*/@id",
    ],
)
def test_possible(path: str) -> None:
    assert dtd_schema(text_of("book")).impossible(twig(path)) is None


def test_invalid_messages_have_a_place() -> None:
    schema = dtd_schema(text_of("book"))
    valid = b"<book><title>1</title><author>x</author><section><title>t</title></section></book>"
    assert schema.validate(valid) == []
    found = schema.validate(valid.replace(b"<section>", b"\n  <section>\n <zz/>"))
    assert (found[0].line, found[0].column) == (2, 3)
    assert any((one.line, one.column, one.text) == (3, 2, "No declaration for element zz") for one in found)


def test_the_root_counts_and_so_does_the_namespace() -> None:
    schema = dtd_schema(text_of("book"))
    assert "document element" in schema.validate(b"<section><title>t</title></section>")[0].text
    assert schema.validate(b"<book xmlns='urn:x'><title/><author/><section><title/></section></book>")
    named = dtd_schema(b'<!ELEMENT a (b*)> <!ATTLIST a xmlns CDATA #FIXED "urn:a"> <!ELEMENT b EMPTY>')
    assert named.validate(b"<a xmlns='urn:a'><b/></a>") == []
    assert "another namespace" in named.validate(b"<a><b/></a>")[0].text or named.validate(b"<a><b/></a>")
    assert named.impossible(twig("//b")) is not None


def test_unknown_root() -> None:
    with pytest.raises(OptionError):
        dtd_schema(text_of("book"), roots=("chapter",))


XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:t" targetNamespace="urn:t"
  elementFormDefault="qualified">
  <xs:element name="r" type="R"/>
  <xs:complexType name="R"><xs:sequence>
    <xs:element name="a"><xs:complexType><xs:sequence><xs:element name="x" type="xs:string"/></xs:sequence>
      <xs:attribute name="id"/></xs:complexType></xs:element>
    <xs:element name="b"><xs:complexType><xs:sequence>
      <xs:element name="x"><xs:complexType><xs:sequence><xs:element ref="n" minOccurs="0"/></xs:sequence>
      </xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element>
    <xs:element ref="head" minOccurs="0"/>
  </xs:sequence></xs:complexType>
  <xs:complexType name="More"><xs:complexContent><xs:extension base="R"><xs:sequence>
    <xs:element name="more" type="xs:string"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>
  <xs:element name="n"><xs:complexType><xs:sequence><xs:element ref="n" minOccurs="0"/></xs:sequence></xs:complexType>
  </xs:element>
  <xs:element name="head" type="xs:string"/>
  <xs:element name="member" type="xs:string" substitutionGroup="head"/>
  <xs:element name="open"><xs:complexType><xs:sequence><xs:any processContents="lax"/></xs:sequence></xs:complexType>
  </xs:element>
</xs:schema>"""


def test_xml_schema(tmp_path: Path) -> None:
    (tmp_path / "t.xsd").write_text(XSD)
    schema = xsd_schema(tmp_path / "t.xsd", roots=("{urn:t}r", "{urn:t}open"))

    def says(path: str) -> bool:
        prolog = 'declare default element namespace "urn:t"; '
        made = parse_transform(f"{prolog}<r>{{ for $v in {path} return <e>{{ string($v) }}</e> }}</r>").binding.twig
        assert made is not None
        return schema.impossible(made) is None

    assert says("/r/a/x")
    assert says("/r/a/@id")
    assert not says("/r/b/@id")
    assert says("/r/b/x/n//n")
    assert not says("/r/a/x/n")  # another declaration of the same name
    assert says("/r/more")  # by xsi:type
    assert says("/r/member")  # by substitution
    assert says("/open/anything/@at-all")
    assert not says("/n")
    assert schema.validate(b"<r xmlns='urn:t'><a><x/></a><b><x/></b></r>") == []
    bad = schema.validate(b"<r xmlns='urn:t'>\n <a><y/></a><b><x/></b></r>")
    assert (bad[0].line, bad[0].column) == (2, 5)


def test_iso20022(shared_data: Path) -> None:
    folder = shared_data / "iso20022" / "camt"
    schema = xsd_schema(folder / "assets" / "camt.053.001.08.xsd")
    graph = schema.graph
    assert {str(graph.declarations[one]) for one in graph.members(on_loop(graph))} == {"any element"}
    xml = (folder / "test" / "data" / "camt053.v8.xml").read_bytes()
    assert schema.validate(xml) == []
    ns = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
    for node in Message(xml).nodes:
        if node.kind == "element":
            assert graph.named(ns, node.local)
    prolog = f'declare default element namespace "{ns}"; '
    # not //Stmt: supplementary data may hold anything, a Stmt with an Amount too
    query = prolog + "<r>{ for $v in /Document/BkToCstmrStmt/Stmt/Ntry/Amount return $v }</r>"
    made = parse_transform(query).binding.twig
    assert made is not None
    found = schema.impossible(made)
    assert found is not None
    assert "Ntry" in found.text
    assert "Amt" in found.hint
