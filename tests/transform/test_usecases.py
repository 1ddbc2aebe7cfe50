"""The W3C's XQuery use cases: those within the language answer as Saxon does, the others are refused with a hint."""

from __future__ import annotations

from pathlib import Path

from lxml import etree
from plan_cases import usecases
from saxon import saxon

from canonical_xml import canonical
from twigcast.errors import QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.papers.plans.reference import transformed

ACCEPTED = {
    "xmp-queries-results-q1",
    "xmp-queries-results-q3",
    "tree-queries-results-q2",
    "tree-queries-results-q5",
    "ns-queries-results-q4",
    "sgml-queries-results-q6",
}


def test_use_cases(shared_data: Path) -> None:
    accepted = set()
    for name, query, path in usecases(shared_data / "xquery-usecases"):
        try:
            transform = parse_transform(query)
        except QueryError as error:
            assert error.span is not None, (name, str(error))
            continue
        accepted.add(name)
        xml = etree.tostring(etree.parse(path))
        ours = transformed(transform, xml, deliver_empty=True)
        assert ours is not None
        # the query as printed in the use cases, not our canonical text
        assert canonical(ours) == saxon(query, xml), name
        assert canonical(ours) == saxon(transform, xml), name
    assert accepted == ACCEPTED


def test_the_refused_ones_say_why(shared_data: Path) -> None:
    refused = {}
    for name, query, _ in usecases(shared_data / "xquery-usecases"):
        try:
            parse_transform(query)
        except QueryError as error:
            refused[name] = error.code
    assert refused["xmp-queries-results-q2"] == "second-variable"
    assert refused["xmp-queries-results-q6"] == "unsupported"
    assert refused["xmp-queries-results-q11"] == "second-flwr"
    assert refused["tree-queries-results-q4"] == "no-context"
