"""A query that no valid message can match is told so, with the step to blame and what may stand there."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from schema_support import NAMES, schema_and_documents, text_of
from twigcast import Broker, Engine
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.schema import dtd_schema, read_schema, xsd_schema
from twigcast.schema.check import check, never_matches
from twigcast.store import PublisherRecord, Store

BOOK = dtd_schema(text_of("book"))
XSD = b"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:o" elementFormDefault="qualified">
  <xs:element name="order"><xs:complexType><xs:sequence>
    <xs:element name="item" maxOccurs="9" type="xs:string"/>
  </xs:sequence><xs:attribute name="id"/></xs:complexType></xs:element>
</xs:schema>"""

NEVER = (
    # query, what is marked, what is said, what is allowed
    ("/book/section/figur", "figur", "figur cannot occur in section", "did you mean figure?"),
    ("/section", "section", "section cannot be the document element", "book"),
    ("//sectio[title]", "sectio", "sectio occurs nowhere", "section"),
    ("//section[@idd = 3]/p", "idd", "@idd cannot occur in section", "did you mean id?"),
    ('//figure[image/@source = "x" and titel = "y"]', "titel", "titel cannot occur in figure", "caption, image, title"),
    ('/book/section/titel = "x" and //p', "titel", "titel cannot occur in section", "title"),
    ("//image[caption]/preceding::p", "caption", "caption cannot occur in image", "no elements are allowed"),
    ("<r>{ for $s in //section/figur return $s }</r>", "figur", "figur cannot occur in section", "figure"),
    (
        '<titel>{ for $s in //section where $s/figure/titel = "titel" return <titel>{ $s/title }</titel> }</titel>',
        "titel",
        "titel cannot occur in figure",
        "title",
    ),
    ("<r>{ for $s in //section[p] where $s/imag or $s/imgs = 1 return $s }</r>", "imag", "imag cannot occur", "figure"),
)


@pytest.mark.parametrize(("query", "marked", "said", "allowed"), NEVER)
def test_what_can_never_match(query: str, marked: str, said: str, allowed: str) -> None:
    error = never_matches(BOOK, query)
    assert error is not None and error.code == "never-matches"
    assert said in error.text and error.hint is not None and allowed in error.hint
    assert error.span is not None and query[error.span.start : error.span.end] == marked
    if query.startswith("<titel"):
        assert error.span.start == query.index("titel = ")
    with pytest.raises(QueryError, match="never-matches"):
        check(BOOK, query)


@pytest.mark.parametrize(
    "query",
    [
        "/book//section/figure/title",
        "//section[not(titel)]",
        "//titel or //title",
        "//section[titel or title]",
        "count(//titel) = 0",
        "//section[string(titel) = '']",
        "<r>{ for $s in //section where not($s/titel) return <a>{ $s/titel }</a> }</r>",
        "<r>{ for $s in //section/@id where $s = 3 return <a>{ string($s) }</a> }</r>",
        "//processing-instruction()",
    ],
)
def test_what_may_match(query: str) -> None:
    assert never_matches(BOOK, query) is None


def test_a_condition_that_is_never_true() -> None:
    error = never_matches(BOOK, "//section[false()]")
    assert error is not None and "false for every message" in error.text


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_matches_no_valid_message(name: str) -> None:
    schema, documents = schema_and_documents(name, 25)
    random = Random(name)
    names = [*sorted({one.local or "" for one in schema.graph.declarations}), "nowhere"]

    def path(most: int) -> str:
        steps = [random.choice(("/", "//")) + random.choice([*names, "*"]) for _ in range(random.randint(1, most))]
        return "".join(steps)

    refused = 0
    for _ in range(150):
        inner = random.choice([".", ""]) + path(2)
        inner = inner if inner.startswith(".") else inner.lstrip("/")
        other = path(1).lstrip("/")
        queries = [
            path(3),
            f"{path(2)}[{inner}]",
            f"{path(2)}[{inner} {random.choice(['and', 'or'])} not({other})]",
            f"<r>{{ for $v in {path(2)} where $v/{other} and not($v/x) or $v/{inner.lstrip('./')} return $v }}</r>",
        ]
        engine = Engine()
        for query in queries:
            if never_matches(schema, query) is not None:
                engine.add(query, id=query)
                refused += 1
        for xml in documents if len(engine) else ():
            assert engine.match(xml) == []
    assert refused > 50


def test_the_broker_refuses_and_validates(tmp_path: Path) -> None:
    (tmp_path / "book.dtd").write_bytes(text_of("book"))
    broker = Broker(schema=tmp_path / "book.dtd", on_invalid="reject")
    with pytest.raises(QueryError, match="never-matches"):
        broker.subscribe("//section/titel")
    with pytest.raises(QueryError, match="unexpected-token"):
        broker.subscribe("//section/[")
    assert len(broker.engine) == 0
    broker.subscribe("<r>{ for $s in //section return $s/title }</r>", id="t")
    good = b"<book><title>t</title><author>a</author><section><title>s</title></section></book>"
    assert [m.payload for m in broker.publish(good)] == [b"<r><title>s</title></r>"]
    with pytest.raises(MessageError, match="invalid"):
        broker.publish(b"<book><section/></book>")
    with pytest.raises(MessageError, match="1:"):
        broker.publish(b"<book>")
    loose = Broker(schema=BOOK)
    loose.subscribe("//section", id=1)
    assert len(loose.publish(b"<book><section/></book>")) == 1
    with pytest.raises(OptionError, match="fallback, reject, trust"):
        Broker(schema=BOOK, on_invalid="maybe")


def test_an_xml_schema_as_a_file_or_text(tmp_path: Path) -> None:
    (tmp_path / "order.xsd").write_bytes(XSD)
    (tmp_path / "order").write_bytes(XSD)
    (tmp_path / "book").write_bytes(text_of("book"))
    for schema in (read_schema(tmp_path / "order.xsd"), read_schema(str(tmp_path / "order")), xsd_schema(XSD)):
        error = never_matches(schema, "/o:order/o:itm", namespaces={"o": "urn:o"})
        assert error is not None and "{urn:o}item" in str(error.hint)
        assert never_matches(schema, "/order/item", default_namespace="urn:o") is None
        assert schema.validate(b"<order xmlns='urn:o'><item/></order>") == []
        assert schema.validate(b"<order xmlns='urn:o'/>") != []
    assert never_matches(read_schema(tmp_path / "book"), "//titel") is not None
    with pytest.raises(OptionError, match="schema-unreadable"):
        read_schema(tmp_path / "nothing.dtd")
    with pytest.raises(OptionError, match="xsd-malformed") as raised:
        xsd_schema(b"<x/>")
    assert "\n" not in raised.value.text
    with pytest.raises(OptionError, match="xsd-malformed"):
        xsd_schema(b"not XML")


def test_a_store_knows_the_schemas_of_its_streams(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        store.put_publisher(PublisherRecord("press", "books", text_of("book").decode(), "dtd"))
        with pytest.raises(QueryError, match="never-matches"):
            store.subscribe("//section/titel", stream="books")
        store.subscribe("//section/title", id="good", stream="books")
        store.subscribe("//section/titel", id="all")  # of any stream: who knows
        store.subscribe("//section/titel", id="other", stream="others")
        # a second publisher of the stream has other elements
        store.put_publisher(
            PublisherRecord("shop", "books", "<!ELEMENT section (titel)> <!ELEMENT titel EMPTY>", "dtd")
        )
        store.subscribe("//section/titel", id="shop", stream="books")
        assert [one.id for one in store.subscriptions()] == ["all", "good", "other", "shop"]
