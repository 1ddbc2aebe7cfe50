"""Invalid messages under a schema: rejected, or answered as if there were no schema; never answered wrongly."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from lxml import etree
from plan_cases import COMBINATIONS

from canonical_xml import canonical
from schema_support import NAMES, schema_and_documents
from twigcast.engine import Subscription
from twigcast.errors import MessageError
from twigcast.lang.flwr import parse_transform, to_xquery
from twigcast.limits import ON_INVALID
from twigcast.papers import Engine
from twigcast.papers.plans import Planner, Streams, execute, explain
from twigcast.papers.plans.nodes import Message
from twigcast.papers.plans.reference import transformed
from twigcast.schema import Schema, dtd_schema, xsd_schema


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


def combinations(schema: Schema, on_invalid: str) -> list[Engine]:
    return [Engine(schema=schema, on_invalid=on_invalid, **options) for options in COMBINATIONS]


@pytest.mark.parametrize("name", NAMES)
def test_mutated_documents(name: str) -> None:
    schema, documents = schema_and_documents(name, 3)
    random = Random(f"invalid {name}")
    names = sorted({one.local or "" for one in schema.graph.declarations})

    def path(most: int) -> str:
        return "".join(random.choice(("/", "//", "//")) + random.choice(names) for _ in range(random.randint(1, most)))

    queries = [f"<r>{{ for $v in {path(3)} where $v{path(2)} return <e>{{ $v{path(2)} }}</e> }}</r>" for _ in range(60)]
    transforms = [parse_transform(query) for query in queries]
    ways = {on_invalid: combinations(schema, on_invalid) for on_invalid in ON_INVALID}
    for engines in ways.values():
        for engine in engines:
            engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
            engine.add("/*", id="all")
    rejected = wrong = 0
    messages = [mutated(random, document, names) for document in documents for _ in range(2)] + documents
    for xml in messages:
        wanted = {i: made for i, one in enumerate(transforms) if (made := transformed(one, xml)) is not None}
        for on_invalid, engines in ways.items():
            for engine in engines:
                try:
                    found = {one.id: one.payload for one in engine.select(xml) if one.id != "all"}
                except MessageError as error:
                    assert (error.code, on_invalid) == ("invalid", "reject")
                    assert schema.validate(xml)
                    rejected += 1
                    continue
                assert on_invalid != "reject" or not schema.validate(xml)
                same = set(found) == set(wanted) and all(
                    canonical(payload or b"<cut/>") == canonical(wanted[int(i)]) for i, payload in found.items()
                )
                wrong += not same
                assert same or on_invalid == "trust", (engine.plans, xml)
    assert rejected > 30
    assert wrong > 0 or name == "book"  # what is not looked at is answered wrongly: the check is needed
    batch = pa.record_batch({"id": range(len(messages)), "xml": pa.array(messages, pa.binary())})
    for engine in (ways["reject"][0], ways["fallback"][0], ways["fallback"][2], ways["fallback"][4]):
        for rows, plain in ((engine.select_batch(batch), False), (engine.match_batch(batch), True)):
            errors = rows.column("error").to_pylist()
            for xml, row, error in zip(messages, rows.column("matches").to_pylist(), errors, strict=True):
                try:
                    expected = engine.match(xml)
                except MessageError as one:
                    assert error["code"], error["line"] == (one.code, one.line)
                    assert row == []
                else:
                    numbers = row if plain else [match["subscription"] for match in row]
                    assert error is None
                    assert engine._ids.at(numbers) == expected


def test_where_it_is_invalid() -> None:
    schema, _ = schema_and_documents("book", 1)
    engine = Engine(schema=schema, on_invalid="reject")
    engine.add("<r>{ for $v in //title return $v }</r>")
    xml = b"<book><title/>\n <author/><section><title/>\n  <zz/></section></book>"
    with pytest.raises(MessageError) as caught:
        engine.select(xml)
    error = caught.value
    assert xml[error.offset :].startswith(b"<section>")
    assert (error.code, error.line, error.column) == ("invalid", 2, 11)


def test_hostile_messages_do_not_get_to_the_validator() -> None:
    schema, _ = schema_and_documents("book", 1)
    lol = (
        b"<!DOCTYPE book [<!ENTITY a '"
        + b"x" * 1000
        + b"'>"
        + b"".join(b"<!ENTITY %c '%s'>" % (ord("b") + i, b"&%c;" % (ord("a") + i) * 10) for i in range(8))
        + b"]><book>&i;</book>"
    )
    for on_invalid in ("reject", "fallback"):
        engine = Engine(schema=schema, on_invalid=on_invalid)
        engine.add("<r>{ for $v in //title return $v }</r>")
        for bad in (lol, b"<book", b"", b"<book>&nothing;</book>"):
            with pytest.raises(MessageError) as caught:
                engine.select(bad)
            assert caught.value.code != "invalid"
            batch = pa.record_batch({"id": [1], "xml": pa.array([bad], pa.binary())})
            for rows in (engine.select_batch(batch), engine.match_batch(batch)):
                assert rows.column("error")[0]["code"].as_py() == caught.value.code


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
    assert not any(below >> i & 1 for i, below in enumerate(schema.graph.below))
    xml = b"<r><a><a><b>1</b><b>2</b></a><b>3</b></a></r>"
    assert schema.validate(xml) == []
    for query in ("//a return <e>{ $v/b }</e>", "//a//b return <e>{ $v/text() }</e>", "//a return <e>{ $v//b }</e>"):
        transform = parse_transform(f"<x>{{ for $v in {query} }}</x>")
        for engine in combinations(schema, "reject"):
            engine.add(to_xquery(transform), id="x")
            assert [one.payload for one in engine.select(xml)] == [transformed(transform, xml)]
    plan = Planner("FWR", "query+schema", schema).plan(parse_transform("<x>{ for $v in //a//b return $v }</x>"))
    assert "DupElim" in explain(plan)
