"""``match`` with a schema of the messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

DTD = "<!ELEMENT book (section*)><!ELEMENT section (title, section*)><!ATTLIST section id CDATA #IMPLIED>" + (
    "<!ELEMENT title (#PCDATA)>"
)
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="book"><xs:complexType><xs:sequence>
<xs:element name="section" minOccurs="0" maxOccurs="unbounded"><xs:complexType><xs:sequence>
<xs:element name="title" type="xs:string"/></xs:sequence></xs:complexType></xs:element>
</xs:sequence></xs:complexType></xs:element></xs:schema>"""
SUBSCRIPTIONS = "\n".join(
    (
        "<t>{ for $s in //section where $s//title = 'B' return <s>{ $s/@id }{ $s/title }</s> }</t>",
        "<t>{ for $s in /book/section return <s>{ $s//section//title }</s> }</t>",
        "//title",
        "<p>{ for $s in //section[@id > 1] where not($s/section) return <q>{ $s/title/text() }</q> }</p>",
    )
)
VALID = "<book><section id='1'><title>A</title><section id='2'><title>B</title></section></section></book>"
INVALID = "<book><note/><section id='3'><section id='4'><title>B</title></section><title>A</title></section></book>"


@pytest.fixture
def files(folder: Any) -> None:
    folder({"s.txt": SUBSCRIPTIONS, "b.dtd": DTD, "b.xsd": XSD, "valid.xml": VALID, "invalid.xml": INVALID})


@pytest.mark.usefixtures("files")
def test_invalid_messages_can_be_rejected(run: Any) -> None:
    for schema, wrong in (("b.dtd", ["invalid.xml"]), ("b.xsd", ["valid.xml", "invalid.xml"])):
        options = ["--schema", schema, "--on-invalid", "reject"]
        done = run("match", "-s", "s.txt", *options, "valid.xml", "invalid.xml")
        assert done.returncode == 2
        assert [line.split(":")[0] for line in done.stderr.splitlines()] == wrong
        assert done.stderr.splitlines()[0].split(": ")[1] == "invalid"
        told = {json.loads(line)["message"] for line in done.stdout.splitlines()}
        assert told == {"valid.xml", "invalid.xml"}.difference(wrong)
    done = run("match", "-s", "s.txt", "--schema", "b.dtd", "--on-invalid", "trust", "valid.xml", "invalid.xml")
    assert done.returncode == 0


@pytest.mark.usefixtures("files")
def test_wrong_options_name_the_right_ones(run: Any) -> None:
    for option, value, hint in (
        ("--on-invalid", "drop", "fallback, reject, trust"),
        ("--schema", "nothing.dtd", "nothing.dtd: No such file"),
        ("--schema", "s.txt", "s.txt"),
        ("--schema", "valid.xml", "valid.xml"),
    ):
        done = run("match", "-s", "s.txt", option, value, "valid.xml")
        assert done.returncode == 2, option
        assert hint in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("files")
def test_a_broken_dtd_is_told(run: Any, folder: Any) -> None:
    folder({"bad.dtd": "<!ELEMENT book (", "empty.dtd": ""})
    for name in ("bad.dtd", "empty.dtd"):
        for how in ("reject", "fallback"):
            done = run("match", "-s", "s.txt", "--schema", name, "--on-invalid", how, "valid.xml")
            assert done.returncode == 2, (name, how)
            assert "Traceback" not in done.stderr
            assert done.stderr
