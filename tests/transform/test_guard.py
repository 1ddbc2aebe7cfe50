"""Invalid messages under a schema: rejected, or answered as if there were no schema; never answered wrongly."""

from __future__ import annotations

from random import Random

import pytest
from lxml import etree

from schema_support import NAMES, schema_and_documents
from twigcast.errors import MessageError, OptionError
from twigcast.lang.flwr import parse_transform
from twigcast.schema import dtd_schema, xsd_schema
from twigcast.transform.guard import Guarded
from twigcast.transform.nodes import Message
from twigcast.transform.plan import Planner, Streams, execute, explain
from twigcast.transform.reference import transformed


def mutated(random: Random, xml: bytes, names: list[str]) -> bytes:
    """Elements renamed, moved or dropped: well-formed, and as a rule not valid."""
    root = etree.fromstring(xml)
    for _ in range(random.randint(1, 3)):
        elements = list(root.iter(etree.Element))
        one, other = random.choice(elements), random.choice(elements)
        kind = random.random()
        if kind < 0.4:
            one.tag = random.choice(names)
        elif kind < 0.8 and one is not root and other not in one.iter():
            other.append(one)
        elif one is not root:
            one.getparent().remove(one)
    return etree.tostring(root)


@pytest.mark.parametrize("name", NAMES)
def test_mutated_documents(name: str) -> None:
    schema, documents = schema_and_documents(name, 8)
    random = Random(f"guard {name}")
    names = sorted({one.local or "" for one in schema.graph.declarations})

    def path(most: int) -> str:
        return "".join(random.choice(("/", "//", "//")) + random.choice(names) for _ in range(random.randint(1, most)))

    rejected = wrong = 0
    for _ in range(60):
        query = f"<r>{{ for $v in {path(3)} where $v{path(2)} return <e>{{ $v{path(2)} }}</e> }}</r>"
        transform = parse_transform(query)
        fall_back = Guarded(transform, schema, invalid="fall-back")
        reject = Guarded(transform, schema, invalid="reject")
        trust = Guarded(transform, schema, invalid="trust")
        for document in documents:
            xml = mutated(random, document, names)
            wanted = transformed(transform, xml)
            assert fall_back.transformed(xml) == wanted, (query, xml)
            wrong += trust.transformed(xml) != wanted
            try:
                assert reject.transformed(xml) == wanted, (query, xml)
            except MessageError as error:
                assert error.code == "invalid"
                rejected += 1
    assert rejected > 100
    assert wrong > 0  # the guard is needed


def test_where_it_is_invalid() -> None:
    schema, _ = schema_and_documents("book", 1)
    guarded = Guarded(parse_transform("<r>{ for $v in //title return $v }</r>"), schema)
    xml = b"<book><title/>\n <author/><section><title/>\n  <zz/></section></book>"
    with pytest.raises(MessageError) as caught:
        guarded.transformed(xml)
    error = caught.value
    assert xml[error.offset :].startswith(b"<section>")
    assert (error.line, error.column) == (2, 11)


def test_settings() -> None:
    schema, _ = schema_and_documents("book", 1)
    with pytest.raises(OptionError):
        Guarded(parse_transform("<r>{ for $v in //title return $v }</r>"), schema, invalid="ignore")


def test_a_star_hides_nesting_from_the_papers_claim_5() -> None:
    """c nests in c, and no a in c: the loops of claim 5 do not meet, and yet //a/*/c/t is not ordered by c."""
    schema = dtd_schema(b"<!ELEMENT r (a)*><!ELEMENT a (a|c)*><!ELEMENT c (c|t)*><!ELEMENT t EMPTY>")
    transform = parse_transform("<x>{ for $v in //a/*/c return <e>{ $v/t }</e> }</x>")
    xml = b"<r><a><a><c><c><t/></c><t/></c></a></a></r>"
    assert schema.validate(xml) == []
    plan = Planner("FWR", "query+schema", schema).plan(transform)
    assert "hash" in explain(plan)
    lists = [
        [node.id for found in one.lists.values() for node in found] for one in execute(plan, Streams(Message(xml)))
    ]
    assert [len(one) for one in lists] == [1, 1]


XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="r"><xs:complexType><xs:sequence maxOccurs="unbounded">
    <xs:element name="a" minOccurs="0"><xs:complexType><xs:sequence>
      <xs:element name="a" minOccurs="0"><xs:complexType><xs:sequence>
        <xs:element name="b" type="xs:string" minOccurs="0" maxOccurs="unbounded"/></xs:sequence></xs:complexType>
      </xs:element><xs:element name="b" type="xs:string" minOccurs="0"/></xs:sequence></xs:complexType></xs:element>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>"""


def test_nesting_without_a_loop_in_an_xml_schema(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Two declarations of a: no loop in the graph, but an a lies in an a."""
    (tmp_path / "t.xsd").write_text(XSD)
    schema = xsd_schema(tmp_path / "t.xsd")
    assert schema.graph.on_loop == 0
    xml = b"<r><a><a><b>1</b><b>2</b></a><b>3</b></a></r>"
    assert schema.validate(xml) == []
    for query in ("//a return <e>{ $v/b }</e>", "//a//b return <e>{ $v/text() }</e>", "//a return <e>{ $v//b }</e>"):
        transform = parse_transform(f"<x>{{ for $v in {query} }}</x>")
        guarded = Guarded(transform, schema)
        assert guarded.transformed(xml) == transformed(transform, xml)
    plan = Planner("FWR", "query+schema", schema).plan(parse_transform("<x>{ for $v in //a//b return $v }</x>"))
    assert "DupElim" in explain(plan)
