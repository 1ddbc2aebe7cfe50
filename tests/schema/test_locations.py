"""An XML Schema is made of the files in its folder, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.errors import OptionError
from twigcast.schema import read_schema, xsd_schema

XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'
A = """<xs:element name="a"><xs:complexType><xs:sequence><xs:element ref="b"/></xs:sequence>
</xs:complexType></xs:element>"""
B = XSD.format('<xs:element name="b" type="xs:int"/>')


def schema_of(folder: Path, naming: str) -> Path:
    (folder / "in" / "below").mkdir(parents=True)
    (folder / "in" / "a.xsd").write_text(XSD.format(naming + A))
    (folder / "in" / "below" / "b.xsd").write_text(B)
    (folder / "in" / "back.xsd").write_text(XSD.format('<xs:include schemaLocation="below/back.xsd"/>'))
    (folder / "in" / "below" / "back.xsd").write_text(XSD.format('<xs:include schemaLocation="../below/b.xsd"/>'))
    (folder / "in" / "indirect.xsd").write_text(XSD.format('<xs:include schemaLocation="../b.xsd"/>'))
    (folder / "in" / "link.xsd").symlink_to(folder / "b.xsd")
    (folder / "b.xsd").write_text(B)
    return folder / "in" / "a.xsd"


@pytest.mark.parametrize("location", ["below/b.xsd", "./below/../below/b.xsd", "back.xsd"])
def test_files_in_the_folder_are_included(tmp_path: Path, location: str) -> None:
    schema = read_schema(schema_of(tmp_path, f'<xs:include schemaLocation="{location}"/>'))
    assert not schema.validate(b"<a><b>1</b></a>") and schema.validate(b"<a><b>x</b></a>")


@pytest.mark.parametrize("element", ["include", "redefine", 'import namespace="urn:b"'])
@pytest.mark.parametrize(
    "location",
    [
        "../b.xsd",
        "%2e%2e/b.xsd",
        "{folder}/b.xsd",
        "file://{folder}/b.xsd",
        "file:../b.xsd",
        "http://127.0.0.1:9/b.xsd",
        "//127.0.0.1/b.xsd",
        "indirect.xsd",
        "link.xsd",
    ],
)
def test_other_files_are_refused(tmp_path: Path, element: str, location: str) -> None:
    location = location.format(folder=tmp_path)
    path = schema_of(tmp_path, f'<xs:{element} schemaLocation="{location}"/>')
    with pytest.raises(OptionError) as caught:
        read_schema(path).prepare()
    assert caught.value.code == "xsd-elsewhere"
    named = "../b.xsd" if location == "indirect.xsd" else location
    assert repr(named) in caught.value.text and str(tmp_path / "in") in caught.value.text


def test_a_text_alone_includes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = schema_of(tmp_path, f'<xs:import namespace="urn:b" schemaLocation="{tmp_path}/b.xsd"/>')
    with pytest.raises(OptionError) as caught:
        xsd_schema(path.read_bytes())
    assert caught.value.code == "xsd-elsewhere" and "b.xsd" in caught.value.text
    xsd_schema(XSD.format('<xs:import namespace="urn:other"/>' + '<xs:element name="b"/>').encode()).prepare()
