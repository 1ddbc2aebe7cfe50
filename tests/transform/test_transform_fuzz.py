"""Whatever the text, it is a transform or it is refused, on the whole way from parser to payload; nothing panics."""

from __future__ import annotations

import os
from random import Random

import pytest
from lxml import etree
from transform_queries import random_transform

from canonical_xml import canonical
from flwr_paper import QUERIES
from schema_support import text_of
from support import random_document
from twigcast import _kernel
from twigcast.engine import Engine
from twigcast.errors import TwigcastError
from twigcast.lang.flwr import is_transform, parse_transform
from twigcast.limits import Limits
from twigcast.papers import PlanExplanation
from twigcast.papers.plans.reference import transformed
from twigcast.schema import dtd_schema

BOOK = dtd_schema(text_of("book"))
PIECES = (
    *("for $x in ", "let $x := ", " where ", " order by ", " return ", "$v", "$v/", "//", "/", "@", "*", "..", "."),
    *("[", "]", "(", ")", "{", "}", "{{", "}}", "<", ">", "</", "/>", "<a>", "</a>", "<!--", "-->", "<?", "?>", "(:"),
    *(
        "<![CDATA[",
        "]]>",
        "&amp;",
        "&#1;",
        "&x;",
        "&#x10FFFF;",
        "&",
        '"',
        "'",
        '""',
        "1",
        "-1",
        "1e9",
        ".5",
        "0",
        "9" * 30,
    ),
    *(
        " and ",
        " or ",
        " = ",
        " != ",
        " < ",
        "|",
        "+",
        "count(",
        "min(",
        "sum(",
        "concat(",
        "string(",
        "not(",
        "last()",
    ),
    *("position()", "text()", "node()", "following::b", "ancestor::*", "xmlns='u'", "xmlns:p='u'", "p:q", "Q{u}a"),
    *(
        "declare namespace p = 'u';",
        "\0",
        "\r",
        "\t",
        "\ue000",
        "\ud7ff",
        "é",
        "\U0001f600",
        "\u2028",
        ",",
        ";",
        ":=",
        "::",
    ),
)


def mutated(random: Random, text: str) -> str:
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.choice((0, 0, 1, 2, 5, 20)))
        how = random.random()
        if how < 0.5:
            text = text[:at] + random.choice(PIECES) + text[end:]
        elif how < 0.75:
            text = text[:at] + text[end + 1 :]
        else:
            piece = text[at:end] or random.choice(PIECES)
            text = text[:at] + piece * random.choice((2, 2, 3, 40)) + text[end:]
    return text


def comparable(xml: bytes) -> bytes:
    """Canonical, unless libxml2 has other rules than we for the names of namespaces."""
    assert _kernel.validate(xml) is None
    try:
        return canonical(xml)
    except (etree.XMLSyntaxError, etree.C14NError):
        return b""


@pytest.mark.parametrize("seed", range(2))
def test_mutated_queries(seed: int) -> None:
    turns = 20_000 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 300
    random = Random(f"mutated transforms {seed}")
    message = b"<a b='1'><b>x<c/></b><a><b>2</b></a><section id='1'><title>XML</title></section></a>"
    taken = 0
    for _ in range(turns):
        query = mutated(random, random.choice([*QUERIES, random_transform(random)]))
        engine = Engine(limits=Limits(max_query_steps=40_000))
        try:
            engine.add(query)
        except TwigcastError as error:
            assert str(error) and (error.span is None or 0 <= error.span.start <= error.span.end <= len(query) + 1)
            continue
        for xml in (message, random_document(random)):
            found = engine.select(xml)
            assert len(found) <= 1
            if is_transform(query):
                wanted = transformed(parse_transform(query), xml)
                given = found[0].payload if found else None
                assert (wanted and comparable(wanted)) == (given and comparable(given)), query
        if is_transform(query):
            taken += 1
            told = PlanExplanation(query, schema=random.choice((None, BOOK)))
            str(told), told.as_dict(), told.dot(), told.svg()
    assert taken > turns / 20
