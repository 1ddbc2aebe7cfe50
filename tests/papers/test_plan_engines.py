"""Every combination of the broker's options makes the messages that Twigcast makes, valid or not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from twigcast import Engine, papers

DTD = "<!ELEMENT book (section*)><!ELEMENT section (title, section*)><!ATTLIST section id CDATA #IMPLIED>" + (
    "<!ELEMENT title (#PCDATA)>"
)
QUERIES = (
    "<t>{ for $s in //section where $s//title = 'B' return <s>{ $s/@id }{ $s/title }</s> }</t>",
    "<t>{ for $s in /book/section return <s>{ $s//section//title }</s> }</t>",
    "//title",
    "<p>{ for $s in //section[@id > 1] where not($s/section) return <q>{ $s/title/text() }</q> }</p>",
)
VALID = b"<book><section id='1'><title>A</title><section id='2'><title>B</title></section></section></book>"
INVALID = b"<book><note/><section id='3'><section id='4'><title>B</title></section><title>A</title></section></book>"


def test_every_combination_gives_the_same_payloads(tmp_path: Path) -> None:
    (tmp_path / "b.dtd").write_text(DTD)
    plain = Engine()
    for query in QUERIES:
        plain.add(query)
    expected = [plain.select(xml) for xml in (VALID, INVALID)]
    assert sum(one.payload is not None for found in expected for one in found) == 6
    for sharing, optimize, share in product(("F", "FW", "FWR"), ("none", "query", "schema"), (True, False)):
        for schema in (None, tmp_path / "b.dtd"):
            engine = papers.Engine(sharing=sharing, optimize=optimize, share_plans=share, schema=schema)
            for query in QUERIES:
                engine.add(query)
            assert [engine.select(xml) for xml in (VALID, INVALID)] == expected, (sharing, optimize, share, schema)
