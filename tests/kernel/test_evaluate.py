"""The kernel's evaluator of XPath: what libxml2 gets wrong, names that no query mentions, and the budget."""

from __future__ import annotations

from time import thread_time

import pytest
from evaluate_support import DEFAULT, LIMITS, answer, answers, kernel_with, parsed

from twigcast import _kernel

CDATA = b"<r><a><![CDATA[]]>1</a><b>x<![CDATA[]]>y</b><c><![CDATA[]]></c></r>"
ENTITY = b'<!DOCTYPE r [<!ENTITY e "<b>1</b>">]><r xmlns="urn:p"><a>&e;</a></r>'


@pytest.mark.parametrize(
    ("xml", "query"),
    [
        # An empty CDATA section is no node; libxml2 takes it for one.
        (CDATA, "count(//a/node()) = 1"),
        (CDATA, "count(//b/text()) = 1 and //b = 'xy'"),
        (CDATA, "not(//c/text()) and not(//c/node())"),
        (CDATA, "count(//node()) = 6"),
        # The markup of an entity is in the default namespace around the reference; libxml2 forgets it.
        (ENTITY, "count(//*[namespace-uri() = 'urn:p']) = 3 and count(//*[local-name() = 'b']) = 1"),
        (ENTITY, "namespace-uri((//*[. = '1'])[last()]) = 'urn:p' and not(//b)"),
    ],
)
def test_where_libxml2_is_wrong_saxon_agrees(xml: bytes, query: str) -> None:
    assert answer(xml, query) is True
    processor = pytest.importorskip("saxonche").PySaxonProcessor(license=False)
    xpath = processor.new_xpath_processor()
    xpath.set_context(xdm_item=processor.parse_xml(xml_text=xml.decode()))
    assert xpath.effective_boolean_value(query)


def test_what_follows_an_attribute_begins_with_the_children_of_its_element() -> None:
    """libxml2 leaves these out; XPath 1.0 (2.2) excludes descendants only, which an attribute does not have."""
    xml = b"<r><a x='1' xmlns:p='urn:p'><b/></a><c/></r>"
    assert answer(xml, "//@x/following::*") == [4, 5]
    assert answer(xml, "//a/namespace::p/following::*") == [4, 5]
    assert answer(xml, "//@x/preceding::*") == []
    assert answer(xml, "//c/preceding::*/@x") == [3]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("//*[name() = 'q:b']", True),
        ("//*[local-name() = 'b' and namespace-uri() = 'urn:&']", True),
        ("//@*[name() = 'q:y'][local-name() = 'y'][namespace-uri() = 'urn:&']", True),
        ("//@*[name() = 'z'][namespace-uri() = '']", True),
        ("//*[namespace-uri() = 'urn:d'][local-name() = 'c']", True),
        ("//*[name() = 'd'][namespace-uri() = '']", True),
        ("//@*[namespace-uri() = 'http://www.w3.org/XML/1998/namespace'][name() = 'xml:space']", True),
        ("//processing-instruction()[name() = 'go-on'] = 'now '", True),
        ("//comment()[name() = ''] = ' c '", True),
        ("name(/) = '' and local-name(/) = '' and namespace-uri(/) = ''", True),
        ("name(//nothing) = ''", True),
        ("name(//text()) = ''", True),
        ("//*[name() = 'b']", False),
    ],
)
def test_names_that_no_query_mentions_come_from_the_message(query: str, expected: bool) -> None:
    xml = b"""<a xmlns:q = "urn:&amp;" ><q:b q:y='1' z = "2" xml:space="default"/><?go-on  now ?><!-- c -->
      <c xmlns="urn:d"><d xmlns=""/></c></a>"""
    assert answer(xml, f"boolean({query})") is expected


def test_namespace_nodes_have_an_identity() -> None:
    xml = b'<a xmlns:p="urn:1" xmlns="urn:2"><b xmlns:p="urn:3" xmlns=""/><c/></a>'
    for query in [
        "count(/*/namespace::*) = 3",
        "count(/*/*[1]/namespace::*) = 2",  # xml and p; the default namespace is taken back
        "count(//namespace::*) = 8",
        "/*/namespace::p = 'urn:1' and /*/*[1]/namespace::p = 'urn:3' and /*/*[2]/namespace::p = 'urn:1'",
        "count(/*/namespace::p | /*/*/namespace::p) = 3",
        "count(//namespace::p/..) = 3 and name(//namespace::*[. = 'urn:3']) = 'p'",
        "/*/namespace::*[name() = ''] = 'urn:2' and namespace-uri(/*/namespace::p) = ''",
        "count(/*/namespace::p/ancestor-or-self::node()) = 3 and not(/*/namespace::p/node())",
        "not(//namespace::p[self::p]) and //namespace::p[self::node()] and not(//namespace::text())",
        "/*/namespace::xml = 'http://www.w3.org/XML/1998/namespace'",
        "count(/*/namespace::p/following::*) = 2 and not(/*/namespace::p/following-sibling::node())",
    ]:
        assert answer(xml, query) is True, query
    assert answer(xml, "//namespace::p | /*") == [1]  # a namespace node has no number
    # its language is that of its element; libxml2 finds none
    assert answer(b"<a xml:lang='en'/>", "boolean(/a/namespace::*[lang('en')])") is True


def test_ids_are_those_of_the_dtd_and_xml_id() -> None:
    xml = b"""<!DOCTYPE r [<!ATTLIST a k ID #IMPLIED><!ATTLIST b k CDATA #IMPLIED>]>
      <r><a k=" x "/><b k="y"/><c xml:id="z">y x</c><a k="x" l="2"/></r>"""
    for query, expected in [
        ("name(id('x')) = 'a' and not(id('x')/@l)", True),
        ("boolean(id('y'))", False),
        ("count(id(' z  x ')) = 2", True),
        ("name(id(//c)) = 'a'", True),
        ("count(id(//@*)) = 2", True),
        ("boolean(id(''))", False),
    ]:
        assert answer(xml, query) is expected, query


def test_numbers_are_those_of_xpath() -> None:
    xml = b"<r><a>1e2</a><a>+1</a><b>12345678901234567890</b><c>0.1</c><c>0.2</c><d>-0</d></r>"
    for query, expected in [
        ("string(number(//a[1])) = 'NaN' and string(number(//a[2])) = 'NaN'", True),
        ("string(number(//b)) = '12345678901234567000'", True),
        ("string(sum(//c)) = '0.30000000000000004'", True),
        ("1 div //d = -1 div 0 and string(-0) = '0'", True),
        ("string(1 div 3) = '0.3333333333333333'", True),
        ("string(0.000001) = '0.000001'", True),
        ("boolean(//a > 0) or boolean(//a <= 0)", False),
        ("5 mod -2 = 1 and -5 mod 2 = -1 and 1.5 mod 0.5 = 0", True),
    ]:
        assert answer(xml, query) is expected, query


LINE = (
    b"<cac:InvoiceLine><cbc:ID>%d</cbc:ID>" + b"<cbc:Note>some text</cbc:Note>" * 12 + b"<cac:Item><cbc:Name>thing"
    b"</cbc:Name><cbc:ID>x</cbc:ID></cac:Item></cac:InvoiceLine>"
)
NAMESPACES = {"cbc": "urn:cbc", "cac": "urn:cac"}


def invoice(lines: int) -> bytes:
    head = (
        b"<Invoice xmlns:cbc='urn:cbc' xmlns:cac='urn:cac'><cac:PaymentMeans><cbc:PaymentID>1</cbc:PaymentID>"
        b"</cac:PaymentMeans>"
    )
    return head + b"".join(LINE % number for number in range(lines)) + b"</Invoice>"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("count(//cbc:PaymentID[not(preceding::cbc:PaymentID/. = .)]) <= 1", True),
        ("not(//cbc:PaymentID[preceding::cbc:PaymentID/. != .])", True),
        ("boolean(//cac:InvoiceLine[cbc:ID = following::cac:InvoiceLine/cbc:ID])", False),
        ("boolean(//cac:InvoiceLine[cbc:ID = preceding-sibling::cac:InvoiceLine/cbc:ID])", False),
        ("count(//cac:InvoiceLine[position() > 1][cbc:ID <= preceding-sibling::cac:InvoiceLine[1]/cbc:ID]) = 0", True),
    ],
)
def test_ordinary_rules_on_two_thousand_lines_are_answered(rule: str, expected: bool) -> None:
    assert answer(invoice(2000), rule, NAMESPACES, DEFAULT) is expected


ATTACKS = {
    "concat": ("//*[string-length(concat(" + ",".join(["."] * 4000) + ")) = 1]", b"<a>" + b"<b/>x" * 107 + b"</a>"),
    "substring": ("//b[substring(.., 2, 3) = 'zzz']", b"<a>" + b"<b/>x" * 8000 + b"x" * 3_960_000 + b"</a>"),
    "substring of the document": (
        "//b[substring(/, 2, 3) = 'zzz']",
        b"<a>" + b"<b/>" * 8000 + b"x" * 4_000_000 + b"</a>",
    ),
    "translate": (
        "//a[translate(., '" + "".join(map(chr, range(0x4E00, 0x4E00 + 10_000))) + "', '') = 'y']",
        b"<a>" + b"<a/>" * 5000 + b"x" * 300_000 + b"</a>",
    ),
    "ancestors": ("//*[ancestor::*[count(ancestor::*) > 99999]]", b"<a>" * 1000 + b"</a>" * 1000),
    "following": ("//*[following::*[preceding::*[following::* = 'y']]]", b"<a>" + b"<b>1</b>" * 3000 + b"</a>"),
    "values": ("//*[. = following::*]", b"<a>1" * 1000 + b"</a>" * 1000),
    "string-values": ("//*[contains(., 'zzz')]", b"<a>" * 900 + b"x" * 2_000_000 + b"<c/>x" + b"</a>" * 900),
    "numbers": ("//*[sum(//b) = count(preceding::b) - sum(following::b)]", b"<a>" + b"<b>1</b>" * 20_000 + b"</a>"),
    "or": ("//b[" + " or ".join(f"@x = {n}" for n in range(5000)) + "]", b"<a>" + b"<b x='z'/>" * 20_000 + b"</a>"),
    "names": ("//*[namespace-uri() = 'x']", b"<a xmlns:q='urn:q'>" * 1000 + b"<q:b/>" * 100_000 + b"</a>" * 1000),
    "namespaces": (
        "//*[namespace::* = 'x']",
        b"<a " + b" ".join(b"xmlns:p%d='urn:%d'" % (n, n) for n in range(500)) + b">" + b"<b/>" * 50_000 + b"</a>",
    ),
    "ids": ("//b[id(..)]", b"<a>" + b"<b/>" * 8000 + b"x " * 1_000_000 + b"</a>"),
    "siblings": ("//b[preceding-sibling::b[last()] = 'x']", b"<a>" + b"<b/>" * 50_000 + b"</a>"),
    "positions": ("//b[count(//b[last()]) = position() * 2]", b"<a>" + b"<b/>" * 50_000 + b"</a>"),
    "unions": ("//b[count(//b | following::b | preceding::b) = 1]", b"<a>" + b"<b/>" * 20_000 + b"</a>"),
    "languages": ("//b[lang('x')]", b"<a>" * 1000 + b"<b/>" * 100_000 + b"</a>" * 1000),
    "normalize-space": ("//b[normalize-space(..) = 'x']", b"<a>" + b"<b/>" * 8000 + b" x" * 1_000_000 + b"</a>"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_query_takes_long(name: str) -> None:
    """Whether it is answered or fails, it does so soon, and the other one is answered."""
    query, message = ATTACKS[name]
    both, other = parsed(query), parsed("boolean(//a)")
    kernel, alone = kernel_with([other, both]), kernel_with([other])
    began = thread_time()
    alone.match_one(message, LIMITS.as_dict())
    took = thread_time() - began
    found, _, error = kernel.match_one(message, LIMITS.as_dict())
    assert error is None and 0 in found
    # A wide margin, for a machine that is busy: without a budget these take from seconds to hours.
    assert thread_time() - began - 2 * took < 2


def test_a_subscription_fails_alone_and_says_what_it_exceeded() -> None:
    xml = b"<a>" + b"<b>1</b>" * 100 + b"</a>"
    exprs = [parsed("boolean(//b[following::b = 2])"), parsed("boolean(//b)"), parsed("concat(/, /) = 'x'")]
    assert answers(xml, exprs, (1000, 10**6)) == ["steps", True, False]
    assert answers(xml, exprs, (10**6, 150)) == ["bytes", True, "bytes"]


def test_removed_queries_are_gone_and_their_numbers_come_again() -> None:
    kernel = kernel_with([parsed(f"boolean(//{name})") for name in "ab"])
    assert kernel.match_one(b"<a/>") == ([0], [], None) and kernel.has_query(0)
    kernel.remove(0)
    assert kernel.match_one(b"<a/>") == ([], [], None) and not kernel.has_query(0)
    assert kernel.match_one(b"<b/>") == ([1], [], None)
    assert kernel.reserve(1) == [0]


def test_an_unreadable_message_is_an_error() -> None:
    found, failed, error = kernel_with([parsed("boolean(//a)")]).match_one(b"<a>")
    assert (found, failed) == ([], []) and error is not None


@pytest.mark.parametrize("words", [[], [99], [1, 0], [2, 2**32 - 1], [11, 9, 1, 0, 0, 2**20, 0], [7, 2, 0]])
def test_malformed_programs_are_refused(words: list[int]) -> None:
    with pytest.raises(ValueError):
        kernel = _kernel.Engine()
        kernel.add_query(kernel.reserve(1)[0], words, [])
