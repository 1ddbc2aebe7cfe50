"""The reader against the W3C XML conformance suite."""

from __future__ import annotations

import xml.parsers.expat

import pytest

import xml_suite
from twigcast import _kernel

CASES = xml_suite.cases()

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/data/xmlconf is absent")


def test_every_case_comes_out_as_the_suite_says_or_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = xml_suite.exceptions()
    unlisted = [(case.id, case.verdict()) for case in CASES if not case.as_expected() and case.id not in listed]
    with capsys.disabled():
        print("\n" + xml_suite.table(CASES))
    assert not unlisted


def test_every_exception_is_needed_and_its_reason_holds() -> None:
    by_id = {case.id: case for case in CASES}
    listed = xml_suite.exceptions()
    needless = [name for name in listed if name not in by_id or by_id[name].as_expected()]
    assert not needless, "these pass now: take them off the list"
    wrong = [name for name, reason in listed.items() if not xml_suite.REASONS[reason](by_id[name])]
    assert not wrong, "the reason given does not fit these"


def test_accepted_documents_say_what_the_suite_says() -> None:
    compared = 0
    for case in CASES:
        # A case with external entities has their content in its output, one of XML 1.1 has its line ends.
        if case.output is None or case.entities != "none" or case.is_11 or case.verdict() is not None:
            continue
        compared += 1
        assert xml_suite.ours(case.path.read_bytes()) == xml_suite.canonical(case.output.read_bytes()), case.id
    assert compared > 150


def test_what_is_left_to_external_entities_is_accepted_by_expat_too() -> None:
    """Expat does not open them either, so the violation cannot be in what is read."""
    listed = xml_suite.exceptions()
    for case in CASES:
        if listed.get(case.id) == "external-entity":
            parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
            parser.SetParamEntityParsing(xml.parsers.expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
            parser.ExternalEntityRefHandler = lambda *_: 1
            parser.Parse(case.path.read_bytes(), True)


def test_simd_and_portable_agree_on_every_case() -> None:
    for case in CASES:
        data = case.path.read_bytes()
        assert _kernel.events(data) == _kernel.events(data, portable=True), case.id
