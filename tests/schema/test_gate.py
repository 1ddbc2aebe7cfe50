"""The gate: what it refuses, where it says the error is, and that it costs no more than the message."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from twigcast.limits import Limits
from twigcast.schema import Schema, dtd_schema, xsd_schema
from twigcast.schema.gate import Gate
from twigcast.schema.validate import LARGE

DTD = b"<!ELEMENT a (b*)><!ELEMENT b (#PCDATA)><!ATTLIST b id ID #IMPLIED ref IDREF #IMPLIED>"
XSD = b"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"><xs:complexType><xs:sequence>
  <xs:element name="b" minOccurs="0" maxOccurs="unbounded"><xs:complexType><xs:simpleContent>
    <xs:extension base="xs:string"><xs:attribute name="id"/></xs:extension></xs:simpleContent></xs:complexType>
  </xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>"""
SCHEMAS = {"dtd": dtd_schema(DTD), "xsd": xsd_schema(XSD)}
EACH = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)


def error(schema: Schema, xml: bytes, limits: Limits | None = None) -> tuple[str, int, int, int] | None:
    found = Gate([schema]).error(xml, limits or Limits())
    return found and (found.code, found.line, found.column, found.offset)


@EACH
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_the_place_is_that_in_the_message(schema: Schema, encoding: str) -> None:
    """Behind a DTD and entities, and in any encoding."""
    declared = '<?xml version="1.0" encoding="ISO-8859-1"?>' if encoding == "latin-1" else ""
    text = f'{declared}\n<!DOCTYPE a [<!ENTITY e "<b>é\n</b>">\n]>\n<a>&e;\n  <b zz="é"/></a>'.lstrip()
    xml = text.encode(encoding)
    line = text.count("\n") + 1
    offset = len(text[: text.index("<b zz")].encode(encoding))
    assert error(schema, xml) == ("invalid", line, 3, offset)


@EACH
@pytest.mark.parametrize("before", [0, LARGE])
def test_very_many_errors_cost_no_more_than_the_first(schema: Schema, before: int) -> None:
    xml = b"<!-- <b> --><a>\n" + b"<b>1</b>" * before + b"\n <c/>" + b"<c>2</c>" * 200_000 + b"</a>"
    began = time.process_time()
    assert error(schema, xml) == ("invalid", 3, 2, xml.index(b"<c/>"))
    assert time.process_time() - began < 20


@EACH
def test_a_large_message_that_is_valid(schema: Schema) -> None:
    xml = b"<a>" + b"<b id='x'>1</b>" + b"<b>1</b>" * LARGE + b"</a>"
    assert error(schema, xml) is None
    assert error(schema, xml.replace(b"a>", b"b>")) is not None


def test_references_to_ids_that_are_not_there() -> None:
    for count in (1, LARGE):
        xml = b"<a><b id='x'/>" + b"<b ref='x'/>" * count + b"%b</a>"
        assert error(SCHEMAS["dtd"], xml % b"") is None
        found = error(SCHEMAS["dtd"], xml % b"<b ref='y'/>")
        assert found is not None and found[0] == "invalid"


ATTRIBUTES = b" ".join(b"y%d=''" % n for n in range(20))


@EACH
@pytest.mark.parametrize("xml", [b"<a>" + b"<b %b/>" % ATTRIBUTES * 500 + b"</a>", b"<a>" + b"<c/>" * 2000 + b"</a>"])
def test_of_very_many_errors_only_the_first_is_written_down(schema: Schema, xml: bytes) -> None:
    """Each error costs time for every sibling of its element: 3 MB of wrong attributes took two minutes."""
    [found] = schema.validate(xml)
    assert found.offset in (0, 3)


@pytest.mark.parametrize(
    ("elements", "offset"),
    [
        (b"<b id='y'/><b refs='y y x x'/>" + b"<b refs='%b'/>" % (b"x " * 5000), 16),
        (b"<b ref='x'/>" * 2000, 5),
        (b"<b/>" * 2000 + b"<b ref='x'/>" * 2000, 8005),
    ],
)
def test_of_very_many_dangling_references_only_the_first_is_written_down(elements: bytes, offset: int) -> None:
    schema = dtd_schema(
        b"<!ELEMENT p:a (b*)><!ATTLIST p:a xmlns:p CDATA 'urn:p'><!ELEMENT b EMPTY>"
        b"<!ATTLIST b id ID #IMPLIED ref IDREF #IMPLIED refs IDREFS #IMPLIED>"
    )
    [found] = schema.validate(b"<p:a xmlns:p='urn:p'>" + elements + b"</p:a>")
    assert (found.offset, 'references an unknown ID "x"' in found.text) == (offset + 16, True)


@EACH
def test_what_libxml2_cannot_read_is_invalid(schema: Schema) -> None:
    deep = b"<a>" + b"<b>" * 4000 + b"</b>" * 4000 + b"</a>"
    found = error(schema, deep, Limits(max_depth=10_000))
    assert found is not None and found[0] == "invalid"
    found = error(schema, deep)
    assert found is not None and found[0] == "limit-depth"


def test_the_text_quotes_little_of_the_message() -> None:
    for schema in SCHEMAS.values():
        found = Gate([schema]).error(b"<a><%b/></a>" % (b"x" * 8000), Limits())
        assert found is not None
        assert len(found.text) < 300


def test_one_of_several_schemas_is_enough() -> None:
    other = dtd_schema(b"<!ELEMENT z EMPTY>")
    gate = Gate([other, SCHEMAS["dtd"]])
    assert gate.error(b"<a><b/></a>", Limits()) is None
    assert gate.error(b"<z/>", Limits()) is None
    assert gate.error(b"<c/>", Limits()) is not None


def test_a_schema_opens_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.dtd").write_text("<!ELEMENT secret EMPTY>")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "more.dtd").write_text("<!ELEMENT b EMPTY>")
    outside = (tmp_path / "secret.dtd").as_uri()
    for address in (outside, "../secret.dtd", "http://127.0.0.1:9/secret.dtd", str(tmp_path / "secret.dtd")):
        text = f'<!ENTITY % s SYSTEM "{address}"> %s; <!ENTITY % m SYSTEM "more.dtd"> %m; <!ELEMENT a (b?)>'
        (tmp_path / "in" / "a.dtd").write_text(text)
        graph = dtd_schema(tmp_path / "in" / "a.dtd").graph
        assert {str(one) for one in graph.declarations} == {"a", "b"}
        assert {str(one) for one in dtd_schema(text.encode()).graph.declarations} == {"a"}
