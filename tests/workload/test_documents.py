from __future__ import annotations

from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast.errors import OptionError
from twigcast.workload import VOCABULARIES, DocumentGenerator, read_dtd, vocabulary

DTDS = {name: (files("twigcast.workload") / "dtds" / f"{name}.dtd").read_bytes() for name in VOCABULARIES}


def height(node: Any) -> int:
    return 1 + max((height(child) for child in node), default=0)


def assert_valid(text: bytes, documents: list[bytes]) -> None:
    dtd = etree.DTD(BytesIO(text))
    for document in documents:
        assert dtd.validate(etree.fromstring(document)), (dtd.error_log, document)


@given(
    st.sampled_from(VOCABULARIES),
    st.integers(6, 12),
    st.integers(0, 5),
    st.floats(0, 1),
    st.sampled_from([10, 20_000]),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_documents_are_valid_and_within_depth(
    name: str, depth: int, repeats: int, attributes: float, elements: int, seed: int
) -> None:
    made = DocumentGenerator(
        vocabulary(name),
        depth=depth,
        max_repeats=repeats,
        attributes=attributes,
        max_elements=min(elements, 2_000),
        seed=seed,
    )
    documents = list(made.documents(3))
    assert_valid(DTDS[name], documents)
    assert all(height(etree.fromstring(d)) <= depth for d in documents)


def test_nitf_documents_are_valid(shared_data: Path) -> None:
    path = shared_data / "yfilter-nitf" / "sample" / "nitf-2-5.dtd"
    documents = list(DocumentGenerator(read_dtd(path), depth=9, max_elements=500).documents(100))
    assert_valid(path.read_bytes(), documents)


def test_a_document_depends_on_seed_and_number_only() -> None:
    dtd = vocabulary("book")
    five = list(DocumentGenerator(dtd, seed=7).documents(5))
    assert five == list(DocumentGenerator(dtd, seed=7).documents(9))[:5]
    assert five[2:] == list(DocumentGenerator(dtd, seed=7).documents(3, start=2))
    assert five != list(DocumentGenerator(dtd, seed=8).documents(5))


def test_the_bytes_of_a_seed_do_not_change() -> None:
    # Benchmarks of different days are compared: a seed must mean the same documents for good.
    document = DocumentGenerator(vocabulary("bib"), repeats={"book": (1, 1)}, seed=1).document(0)
    assert document == (
        b'<bib><book year="8"><title>11</title><author><last>3</last><first>7</first></author><author><last>11'
        b"</last><first>9</first></author><publisher>5</publisher><price>16</price></book></bib>\n"
    )


def test_the_papers_bib_setting() -> None:
    made = DocumentGenerator(
        vocabulary("bib"), depth=4, repeats={"book": (20, 20), "author": 5, "editor": 5}, max_value=10
    )
    for document in made.documents(20):
        root = etree.fromstring(document)
        assert len(root) == 20
        assert all(1 <= len(book.findall("author") + book.findall("editor")) <= 5 for book in root)
        assert all(1 <= int(text) <= 10 for text in root.xpath("//text()"))


def test_required_recursion_is_cut_at_the_depth() -> None:
    made = DocumentGenerator(read_dtd(b"<!ELEMENT a (a, a)>"), depth=5)
    assert height(etree.fromstring(made.document(0))) == 5


def test_depth_below_what_is_required_still_ends() -> None:
    made = DocumentGenerator(vocabulary("catalog"), depth=2)
    assert height(etree.fromstring(made.document(0))) == 2


def test_the_shallow_alternative_is_taken_near_the_cut() -> None:
    text = b"<!ELEMENT a (b | c)><!ELEMENT b (b | c)><!ELEMENT c EMPTY>"
    documents = list(DocumentGenerator(read_dtd(text), depth=3).documents(50))
    assert_valid(text, documents)


def test_explosive_settings_are_bounded() -> None:
    text = b"<!ELEMENT a (a | b)*><!ELEMENT b (#PCDATA)>"
    document = DocumentGenerator(read_dtd(text), depth=1_000, max_repeats=40, max_elements=5_000).document(3)
    assert document.count(b"<a") + document.count(b"<b") < 5_000 * 42


def test_deep_documents_need_no_stack() -> None:
    made = DocumentGenerator(read_dtd(b"<!ELEMENT a (a?)><!ATTLIST a x CDATA #REQUIRED>"), depth=5_000)
    deep = DocumentGenerator(read_dtd(b"<!ELEMENT a (a)>"), depth=5_000).document(0)
    assert made.document(0) and deep.count(b"</a>") == 5_000


def test_references_point_at_ids() -> None:
    text = b"""<!ELEMENT r (a, b, a)><!ELEMENT a EMPTY><!ATTLIST a to IDREF #REQUIRED all IDREFS #IMPLIED>
               <!ELEMENT b EMPTY><!ATTLIST b id ID #REQUIRED>"""
    assert_valid(text, list(DocumentGenerator(read_dtd(text)).documents(20)))


def test_fixed_enumerated_and_namespace_attributes() -> None:
    text = b"""<!ELEMENT a (b*)><!ATTLIST a xmlns CDATA #FIXED "urn:x"><!ELEMENT b EMPTY>
               <!ATTLIST b q CDATA #FIXED "a&#34;&#38;b" k (u | v) #REQUIRED e ENTITY #IMPLIED>"""
    for document in DocumentGenerator(read_dtd(text), attributes=1.0).documents(20):
        root = etree.fromstring(document)
        assert root.tag == "{urn:x}a"
        assert all(b.get("q") == 'a"&b' and b.get("k") in "uv" and b.get("e") is None for b in root)


def test_prefixes_are_declared() -> None:
    made = DocumentGenerator(read_dtd(b"<!ELEMENT x:a (x:b+)><!ELEMENT x:b EMPTY>"))
    assert etree.fromstring(made.document(0)).tag == "{urn:x}a"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"depth": 0}, "depth is 0; it must be from 1 to 100000"),
        ({"attributes": 1.5}, "between 0 and 1"),
        ({"repeats": {"boook": 3}}, "'boook', which the DTD does not declare"),
        ({"root": "z"}, "no element 'z'"),
    ],
)
def test_settings_out_of_range(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        DocumentGenerator(vocabulary("bib"), **setting)
