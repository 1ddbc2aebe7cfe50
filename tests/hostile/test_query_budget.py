"""Queries beyond tree patterns have a budget of steps and bytes: attacks fail soon, ordinary rules are answered."""

from __future__ import annotations

from time import thread_time

import pytest

from twigcast.engine import Engine
from twigcast.engine.failures import Failure

ATTACKS = {
    "concat": (
        "//*[string-length(concat(" + ",".join(["/"] * 4000) + ")) = 1]",
        b"<a>" + b"<b/>" * 107 + b"x" * 20 + b"</a>",
    ),
    "substring": (
        "//b[substring(/, 2, 3) = 'zzz']",
        b"<a>" + b"<b/>" * 8000 + b"x" * 3_968_000 + b"</a>",
    ),
    "translate": (
        "//a[translate(., '" + "".join(map(chr, range(0x4E00, 0x4E00 + 10_000))) + "', '') = 'y']",
        b"<a>" + b"<b/>" * 50 + b"x" * 300_000 + b"</a>",
    ),
    "translate of each": (
        "//*[translate(/, '" + "".join(map(chr, range(0x4E00, 0x4E00 + 10_000))) + "', .) = 'y']",
        b"<a>" + b"<b>y</b>" * 5000 + b"x" * 300_000 + b"</a>",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_query_takes_long(name: str) -> None:
    """With libxml2 these took from 13 to 32 seconds."""
    query, message = ATTACKS[name]
    engine = Engine()
    engine.add(query, id="attack")
    engine.add("//a", id="plain")
    began = thread_time()
    failures: list[Failure] = []
    assert engine.match(message, failures=failures) == ["plain"]
    assert {one.error.code for one in failures} <= {"query-too-costly"}
    assert thread_time() - began < 2  # for a busy machine


LINE = b"<cac:InvoiceLine>" + b"<cbc:Note>text</cbc:Note>" * 40 + b"</cac:InvoiceLine>"


def invoice(lines: int) -> bytes:
    head = b"<cac:PaymentMeans><cbc:PaymentID>1</cbc:PaymentID></cac:PaymentMeans>"
    numbered = b"".join(LINE.replace(b"<cbc", b"<cbc:ID>%d</cbc:ID><cbc" % n, 1) for n in range(lines))
    return b"<Invoice xmlns:cbc='urn:cbc' xmlns:cac='urn:cac'>" + head + numbered + b"</Invoice>"


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ("count(//cbc:PaymentID[not(preceding::cbc:PaymentID/. = .)]) <= 1", 200),
        ("not(//cbc:PaymentID[preceding::cbc:PaymentID/. != .])", 200),
        ("not(//cac:InvoiceLine[cbc:ID = following::cac:InvoiceLine/cbc:ID])", 2000),
    ],
)
def test_an_ordinary_rule_is_evaluated(rule: str, lines: int) -> None:
    engine = Engine(namespaces={"cbc": "urn:cbc", "cac": "urn:cac"})
    engine.add(rule, id="rule")
    failures: list[Failure] = []
    assert engine.match(invoice(lines), failures=failures) == ["rule"] and failures == []
