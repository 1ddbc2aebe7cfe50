"""The reader fed piece by piece: whatever the pieces, it tells the same and finds the same errors at one place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast import _kernel

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

DOCUMENTS: list[bytes] = [
    b"<a/>",
    b"  <!-- c -->\n<?p d?>\r\n<a>\r\nx\r\n<b c='1' d=\"2\"/>&amp;<!-- in --> y ]] > z</a>\n<!-- after --> ",
    b"<a>text<![CDATA[ <raw> & ]] ]]>more<?pi ?><![CDATA[]]></a>",
    b'<r xmlns="urn:d" xmlns:p="urn:p"><p:a p:x="1" x=\'2\' xml:lang="en"/><b xmlns=""><c/></b><p:b xmlns:p="q"/></r>',
    b"<r " + b" ".join(b"xmlns:p%d='urn:%d'" % (i, i) for i in range(20)) + b"><p3:a/><p19:b p7:c=''>t</p19:b></r>",
    b"<!DOCTYPE t SYSTEM 't.dtd'><t>&unknown; <a b='&other;'/></t>",
    b"<!DOCTYPE t [<!ELEMENT t (#PCDATA|b)*><!ELEMENT b EMPTY>]><t>a<b/>c</t>",
    b'<!DOCTYPE t [<!ENTITY e "x<b/>y"><!ENTITY f "&e;&e;">]><!-- m --><t><c>&f;</c>&f;z<d>&e;</d></t><!-- n -->',
    b'<!DOCTYPE t [<!ATTLIST t a CDATA "d" b NMTOKENS " x  y ">]><t b=" 1  2 "><t a="given"/><t/>]]&gt;</t>',
    b"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8' standalone='yes'?>\n<t>x</t>",
    b"\xef\xbb\xbf<t a='1'>" + "é€𝄞".encode() + b"</t>",
    '<?xml version="1.0" encoding="UTF-16"?><t a="é">€𝄞<été/>\r\n𝄞</t>'.encode("utf-16"),
    "<t>é€𝄞<!-- ü --></t>".encode("utf-16-be"),
    b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<t a="\xe9">\xe9\n<b>\xff</b></t>',
    b'<?xml version="1.0" encoding="windows-1252"?><t>\x80<x/>\x99</t>',
    "<été attribut='à'><名前/>ü</été>".encode(),
]

BROKEN: list[bytes] = [
    b'<?xml version="1.0>" encoding="utf-8"?><a/>',
    b'<?xml version="1.0" encoding="utf-8?><a b="c"/>',
    b"<?xml version='1.0' encoding='>' standalone='no'?><a/>",
    b"",
    b"   ",
    b"text",
    b"<a>\n <b>\n  </c></a>",
    b"<a>\n<b>\n</b>\n</ab>",
    b"<a>\n<b>x",
    b"<a></a>\n<b/>",
    b"<a></a>\n</b>",
    b"<a></a> x",
    b"<a>]]></a>",
    b"<a>&undeclared;</a>",
    b"<a>\n &am</a>",
    b"<a>&</a>",
    b"<a b='<'/>",
    b"<a b='1' b='2'/>",
    b"<a b=1/>",
    b"<a b='1'c='2'/>",
    b"<a>\n<!-- a -- b --></a>",
    b"<a><!-- open",
    b"<a><![CDATA[ open",
    b"<a><?pi open",
    b"<a><?xml version='1.0'?></a>",
    b"<a><!DOCTYPE a></a>",
    b"<a><!nonsense></a>",
    b"<a>< b/></a>",
    b"<a><p:b/></a>",
    b"<a>\n<b>\xff</b></a>",
    b"<a>\n<b>\x01</b></a>",
    b"<?xml version='2.0'?><a/>",
    b"<!DOCTYPE a [<!ENTITY e '<b>'>]><a>\n&e;</a>",
    b"<!DOCTYPE a [<!ENTITY e '&e;'>]><a>\n<b/>&e;</a>",
    b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>\n<b>&e;</c></a>",
    b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>\n<b>&e;<c d='1' d='2'/></b></a>",
    b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>\n<b>&e;",
    b"<!DOCTYPE a [<!ENTITY e><a/>",
    "<a>\n<é></ü></a>".encode("utf-16"),
    b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\n\xe9<b>\xe9</c></a>",
]


def agrees(data: bytes, window: int, limits: dict[str, int] | None = None) -> None:
    whole = _kernel.events(data, limits)
    parts = _kernel.events(data, limits, window=window)
    assert parts == whole, (data, window)


@pytest.mark.parametrize("data", DOCUMENTS)
def test_every_window_tells_the_same(data: bytes) -> None:
    for window in range(1, len(data) + 2):
        agrees(data, window)


@pytest.mark.parametrize("data", BROKEN)
def test_every_window_finds_the_same_error(data: bytes) -> None:
    assert isinstance(_kernel.events(data), tuple)
    for window in range(1, len(data) + 2):
        agrees(data, window)


def test_limits_hold_across_windows() -> None:
    deep = b"<a>" * 50 + b"</a>" * 50
    wide = b"<a " + b" ".join(b"a%d=''" % i for i in range(50)) + b"/>"
    bomb = b"<!DOCTYPE a [<!ENTITY e 'xxxxxxxxxx'>]><a>" + b"<b>&e;</b>" * 50 + b"</a>"
    for window in (1, 7, 64):
        for data, limit in ((deep, {"max_depth": 20}), (wide, {"max_attributes": 20}), (deep, {"max_depth": 60})):
            agrees(data, window, limit)
        agrees(bomb, window, {"max_expansion": 300})
        agrees(b"<a><" + b"n" * 200 + b"/></a>", window, {"max_name": 100})


def test_one_piece_of_markup_is_bounded_but_not_the_document() -> None:
    small = {"max_bytes": 1000}
    document = b"<a>" + b"<b>some text</b>" * 1000 + b"</a>"
    assert _kernel.events(document, small)[0] == "limit-size"
    assert len(_kernel.events(document, small, window=64)) == 3002
    comment = b"<a><!--" + b"x" * 5000 + b"--></a>"
    error = _kernel.events(comment, small, window=64)
    assert (error[0], error[2:]) == ("limit-size", (1, 4, 3))


def test_positions_beyond_many_windows() -> None:
    record = "<r k='é'>\r\n  <s>täxt</s>\n</r>\n"
    for encoding in ("utf-8", "utf-16", "iso-8859-1"):
        text = f"<?xml version='1.0' encoding='{encoding}'?><all>" + record * 500 + "<t>\n </u></all>"
        data = text.encode(encoding)
        assert isinstance(_kernel.events(data), tuple)
        for window in (10, 333, 4096):
            agrees(data, window)


SNIPPETS = [b"<", b">", b"&", b";", b"'", b"]]>", b"<!--", b"-->", b"<![CDATA[", b"<a>", b"</a>", b"\r", b"\n", b"\xc3"]
SNIPPETS += [b"<?p ?>", b"&amp;", b"&e;", b" x='1'", b"/", b"\xe2\x82\xac", b"xmlns='u'", b"text text", b"<p:q/>"]


@given(st.integers(0, 2**32 - 1), st.integers(1, 120))
@settings(max_examples=400, deadline=None)
def test_mutated_documents(seed: int, window: int) -> None:
    """A document with more than one thing wrong may have its errors found in another order; the verdict is the same."""
    rng = random.Random(seed)
    data = bytearray(rng.choice(DOCUMENTS))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, 0, 1, 5))] = rng.choice(SNIPPETS)
    whole, parts = _kernel.events(bytes(data)), _kernel.events(bytes(data), window=window)
    if isinstance(whole, tuple):
        assert isinstance(parts, tuple), (data, window)
        if not data.startswith((b"<!DOCTYPE", b"\xff\xfe", b"\xfe\xff", b"\x00")):
            assert parts == whole, (data, window)
    else:
        assert parts == whole, (data, window)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_real_documents() -> None:
    files = sorted((DATA / "yfilter-nitf").rglob("*.xml"))[:20] + sorted((DATA / "shakespeare").rglob("*.xml"))[:1]
    for file in files:
        data = file.read_bytes()
        for window in (100, 4099):
            agrees(data, window)
