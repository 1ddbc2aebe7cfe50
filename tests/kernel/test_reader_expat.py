"""The reader against expat on mutated documents: same verdict, same names, attributes and text."""

from __future__ import annotations

import random
import re
import xml.parsers.expat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast import _kernel

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SEPARATOR = "\x01"  # no document holds it, so no namespace name does

NAME_5TH_EDITION = re.compile(
    "[\xb7\xc0-\xd6\xd8-\xf6\xf8-\u037d\u037f-\u1fff\u200c\u200d\u203f\u2040\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff]"
)

Event = tuple[object, ...]
Verdict = list[Event] | tuple[str, str, int]  # events, or (code, words, byte offset)

SEEDS: list[bytes] = [
    b"<a/>",
    b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<!-- c --><?pi data?>'
    b"<a b=\"1\" c='2'>x<b/>y</a>\n<!-- d -->",
    b'<r xmlns="urn:d" xmlns:p="urn:p"><p:a p:x="1" x="2" xml:lang="en"/>'
    b'<b xmlns=""><c/></b><p:b xmlns:p="urn:q"/></r>',
    b'<r xmlns:a="urn:u" xmlns:b="urn:u"><e a:x="1" b:y="2"/><a:e/><b:e/></r>',
    b"<t>a &amp; b &lt; c &#233; &#x20AC; ]] > <![CDATA[<raw> & ]] text]]>\r\nnext\rline</t>",
    b'<t a="x&#10;y\n\tz\r\n&quot;" b=\'"&apos;\'/>',
    b'<!DOCTYPE t SYSTEM "t.dtd"><t>&unknown; <a b="&other;"/></t>',
    b'<!DOCTYPE t PUBLIC "-//X//Y" "t.dtd" [<!ENTITY e "in">]><t>&e;&unknown;</t>',
    b'<!DOCTYPE t [<!ELEMENT t (#PCDATA|b)*><!ELEMENT b EMPTY><!ENTITY e "x<b/>y"><!ENTITY f "&e;&e;">]><t>&f;</t>',
    b"<!DOCTYPE t [<!ENTITY lt2 '&#38;#60;'><!ENTITY q '\"&#39;'><!ENTITY cr '&#13;'>]>"
    b"<t a='&q;&lt2;&cr;'>&lt2;&cr;]]&q;</t>",
    b'<!DOCTYPE t [<!ATTLIST t a CDATA "d" b NMTOKENS " x  y " c (p|q) #IMPLIED xmlns CDATA #FIXED "urn:x">]>'
    b'<t c="  p " b="&#32;1  2&#9;3 "><t a="given"/></t>',
    b"<!DOCTYPE t [<!ENTITY % p '<!ENTITY e \"from p\">'>%p;<!NOTATION n SYSTEM 'n'><!ENTITY u SYSTEM 'u' NDATA n>"
    b"<!ENTITY x SYSTEM 'x.xml'>]><t>&e;&x;</t>",
    b"<!DOCTYPE t [<!ENTITY % x SYSTEM 'x'>%x;<!ENTITY e 'late'>]><t a='1'>&e;</t>",
    b"<?xml version='1.0' standalone='yes'?><!DOCTYPE t [<!ENTITY % x SYSTEM 'x'>%x;<!ENTITY e 'late'>]><t>&e;</t>",
    b"<!DOCTYPE t [<!ELEMENT t ((a,b?)|(c|d)*|e+)><!ELEMENT a ANY><!ATTLIST a i ID #REQUIRED n NOTATION (x|y) #IMPLIED>"
    b"<?p i?><!-- c -->]><t/>",
    b'<?xml version="1.0" encoding="ISO-8859-1"?><t a="\xe9">\xe9\xff</t>',
    b'<?xml version="1.0" encoding="windows-1252"?><t>\x80\x99</t>',
    b'<?xml version="1.0" encoding="US-ASCII"?><t>abc</t>',
    '<?xml version="1.0" encoding="UTF-16"?><t a="é">€𝄞</t>'.encode("utf-16"),
    "<t>é€𝄞<!-- ü --></t>".encode("utf-16-be"),
    b"\xef\xbb\xbf<t>" + "é€𝄞".encode() + b"</t>",
    "<été attribut='à'><名前/></été>".encode(),
]

SNIPPETS: list[bytes] = [
    *(bytes([c]) for c in b"<>&;'\"=/!?[]-%#:x \t\n\r\x00\x01\x7f\x80\xc3\xff"),
    *(b"<a>", b"</a>", b"<a/>", b"<a:b/>", b"</t>", b"<!--", b"-->", b"--", b"<?p ?>", b"<?xml version='1.0'?>", b"?>"),
    *(b"<![CDATA[", b"]]>", b"&amp;", b"&lt;", b"&#0;", b"&#x1F600;", b"&#xD800;", b"&#65;", b"&e;", b"&f;", b"&u;"),
    *(b"%p;", b"%x;", b" xmlns='urn:n'", b" xmlns=''", b" xmlns:a='urn:a'", b" xmlns:a=''", b" a:b='1'", b" b='2'"),
    *(b" xmlns:xml='http://www.w3.org/XML/1998/namespace'", b" xmlns:xmlns='u'", b" xml:id='i'", b"xmlns:", b"xml"),
    *(b"<!ENTITY e 'v'>", b"<!ENTITY % p 'v'>", b"<!ATTLIST t k CDATA 'v'>", b"<!ATTLIST t a ID #IMPLIED>", b"#FIXED "),
    *(
        b"<!ELEMENT t ANY>",
        b"<!NOTATION n PUBLIC 'p'>",
        b"<![IGNORE[",
        b"<!DOCTYPE t>",
        b"<!DOCTYPE t [",
        b"]>",
        b"\r\n",
    ),
    *("é".encode(), "€".encode(), "\ufffe".encode(), "\uffff".encode(), "𝄞".encode(), "\u0300".encode(), "·".encode()),
    *(b" standalone='yes'", b" standalone='no'", b" encoding='UTF-8'", b" encoding='ISO-8859-1'", b" version='1.1'"),
]


def expat(data: bytes) -> Verdict:
    """What expat says of a document, in the form of `_kernel.events`."""
    events: list[Event] = []
    in_doctype = False

    def name(qualified: str) -> tuple[str, str]:
        uri, _, local = qualified.rpartition(SEPARATOR)
        return uri, local

    def start(qualified: str, attributes: dict[str, str]) -> None:
        events.append(("start", *name(qualified), sorted((*name(key), value) for key, value in attributes.items())))

    def text(run: str) -> None:
        if events and events[-1][0] == "text":
            events[-1] = ("text", str(events[-1][1]) + run)
        else:
            events.append(("text", run))

    def doctype(inside: bool) -> None:
        nonlocal in_doctype
        in_doctype = inside

    def outside(event: Event) -> None:
        if not in_doctype:
            events.append(event)

    parser = xml.parsers.expat.ParserCreate(namespace_separator=SEPARATOR)
    parser.SetParamEntityParsing(xml.parsers.expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
    parser.ExternalEntityRefHandler = lambda *_: 1  # never opened, like ours
    parser.StartDoctypeDeclHandler = lambda *_: doctype(True)
    parser.EndDoctypeDeclHandler = lambda: doctype(False)
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: events.append(("end",))
    parser.CharacterDataHandler = text
    parser.CommentHandler = lambda comment: outside(("comment", comment))
    parser.ProcessingInstructionHandler = lambda target, rest: outside(("pi", target, rest))
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        return ("expat", xml.parsers.expat.ErrorString(error.code), parser.ErrorByteIndex)
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or not as one byte
        return ("expat", f"encoding: {error}", 0)
    return events


def ours(data: bytes) -> Verdict:
    read = _kernel.events(data)
    if isinstance(read, tuple):
        return (read[0], read[1], read[4])
    return [(*event[:3], sorted(event[3])) if event[0] == "start" else event for event in read]


def known_difference(data: bytes, mine: Verdict, theirs: Verdict) -> str | None:
    """Why two verdicts may differ and ours be right, if there is such a reason."""
    if isinstance(theirs, tuple) and theirs[1] == "not well-formed (invalid token)":
        encodings = ["utf-8", "utf-16-le", "utf-16-be"]
        tokens = [data[theirs[2] :].decode(encoding, "replace")[:1] for encoding in encodings]
        if any(NAME_5TH_EDITION.fullmatch(token) for token in tokens):
            return "expat has the names of the 4th edition"
    if isinstance(mine, tuple):
        code, words, at = mine
        if code == "bad-declaration" and words.startswith("version cannot be"):
            return "expat takes any version number"
        if code == "unsupported-encoding":
            return "expat takes any encoding that Python knows, and any name for ASCII bytes"
        if code == "bad-encoding" and "surrogate" in words:
            return "expat takes a surrogate that has no partner"
        before = data[:at].replace(b"\0", b"")
        literal = (
            code in ("bad-reference", "bad-char-reference", "lt-in-attribute") or "% inside a declaration" in words
        )
        if literal and b"<!DOCTYPE" in before and re.search(rb"%[^%;]+;", before):
            return "expat does not check values of declarations that it does not process"
        if code == "bad-name" and b"<!DOCTYPE" in data[:at] and data[at - 1 : at + 1].count(b":"):
            return "expat takes a name in a declaration that is no QName"
    return None


def seeds() -> list[bytes]:
    """The seeds above and small documents of the data sets, where they are."""
    suite = Path(__file__).resolve().parents[2] / ".cache" / "xmlconf"
    folders = [DATA / "yfilter-nitf" / "tests" / "xmldocs", DATA / "malicious", DATA / "newsml-g2", suite]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.xml"))[::7]]
    found = [path.read_bytes() for path in paths if path.stat().st_size < 2500]
    return SEEDS + [data for data in found if isinstance(ours(data), list) and isinstance(expat(data), list)]


ALL_SEEDS = seeds()


def check(data: bytes) -> None:
    mine, theirs = ours(data), expat(data)
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return
    if mine != theirs and known_difference(data, mine, theirs) is None:
        raise AssertionError(f"{data!r}\n  ours  {mine}\n  expat {theirs}")


def mutate(data: bytes, choose: random.Random) -> bytes:
    """A few random edits, most of them with a piece of markup."""
    for _ in range(choose.choice((1, 1, 1, 2, 2, 3, 5))):
        at = choose.randint(0, len(data))
        to = min(len(data), at + choose.choice((1, 1, 2, 3, 8, 20)))
        match choose.randrange(7):
            case 0 | 1 | 2:
                data = data[:at] + choose.choice(SNIPPETS) + data[at:]
            case 3:
                data = data[:at] + data[to:]
            case 4:
                data = data[:at] + data[at:to] + data[at:]
            case 5:
                data = data[:at] + choose.choice(SNIPPETS) + data[to:]
            case 6:
                other = choose.choice(ALL_SEEDS)
                start = choose.randint(0, len(other))
                data = data[:at] + other[start : start + choose.randint(1, 60)] + data[at:]
    return data


PIECES = [
    *(
        "text",
        "]]",
        ">",
        "]",
        " ",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "é",
        "&amp;",
        "&lt;",
        "&#60;",
        "&#38;",
        "&#13;",
        "&#10;",
        "&#9;",
    ),
    *("&#32;", "&#38;#60;", "&#38;#38;", "&#38;e0;", "&e0;", "&e1;", "&e2;", "&e3;", "&x;", "&u;", "&none;", "&quot;"),
    *("<b/>", "<b>in</b>", "<b>", "</b>", "<p:c p:k='&e1;'/>", "<![CDATA[&e0;]]>", "<!-- &e0; -->", "<?p &e0;?>", "'"),
    *("<b k='&e0;'/>", "<b k=' a  b '/>", "&#39;", "&#34;", "&#37;p0;", "&p0;"),
]
VALUES = [piece for piece in PIECES if "<" not in piece and "'" not in piece]
TYPES = ["CDATA", "NMTOKEN", "NMTOKENS", "ID", "(a|b)", "CDATA", "ENTITIES", "NOTATION (n|m)"]
DEFAULTS = ["#IMPLIED", "#REQUIRED", "'d'", "' a  &#32;b&#9; '", "'&e0;'", "#FIXED '&#60;&e1;'", "'urn:d'"]


def generate(choose: random.Random) -> bytes:
    """A document with a DTD in which entities, defaults and types meet; about half of them are well-formed."""

    def some(pieces: list[str], most: int) -> str:
        return "".join(choose.choice(pieces) for _ in range(choose.randint(0, most)))

    def declaration() -> str:
        match choose.randrange(8):
            case 0 | 1 | 2:
                return f'<!ENTITY e{choose.randrange(4)} "{some(PIECES, 3)}">'
            case 3 | 4:
                name = choose.choice(["a", "k", "xmlns", "xmlns:p", "p:k", "xml:space"])
                kind, default = choose.choice(TYPES), choose.choice(DEFAULTS)
                return f"<!ATTLIST {choose.choice('rb')} {name} {kind} {default}>"
            case 5:
                value = choose.choice(
                    ["<!ENTITY e1 'from p'>", "<!ATTLIST b k CDATA 'from p'>", "", "%p1;", "&#37;p1;"]
                )
                return f'<!ENTITY % p{choose.randrange(2)} "{value}">'
            case 6:
                return choose.choice(["%p0;", "%p1;", "%px;", "<!ENTITY % px SYSTEM 'px'>", "<!-- c -->", "<?p d?>"])
            case _:
                return choose.choice(["<!ENTITY x SYSTEM 'x'>", "<!ENTITY u SYSTEM 'u' NDATA n>", "<!ELEMENT b ANY>"])

    head = choose.choice(["", "<?xml version='1.0' standalone='yes'?>", "<?xml version='1.0'?>"])
    external = choose.choice(["", "", " SYSTEM 's'"])
    subset = "".join(declaration() for _ in range(choose.randint(0, 7)))
    attributes = choose.choice(["", " xmlns:p='urn:p'", " xmlns='urn:r' xmlns:p='urn:q'"])
    if choose.random() < 0.5:
        attributes += f" k='{some(VALUES, 3)}'"
    document = f"{head}<!DOCTYPE r{external} [{subset}]><r{attributes}>{some(PIECES, 5)}</r>"
    return document.encode(choose.choice(["utf-8", "utf-8", "utf-16"]))


def run(cases: int, first: int) -> None:
    for number in range(first, first + cases):
        choose = random.Random(number)
        check(generate(choose) if number % 2 else mutate(choose.choice(ALL_SEEDS), choose))


def test_seeds_agree() -> None:
    for seed in ALL_SEEDS:
        check(seed)


def test_mutated_and_generated_documents_agree() -> None:
    run(20_000, 0)


@pytest.mark.slow
def test_many_mutated_and_generated_documents_agree() -> None:
    run(1_000_000, 1_000_000)


EDIT = st.tuples(st.integers(0, 2500), st.sampled_from([0, 0, 0, 1, 2, 5]), st.sampled_from(SNIPPETS))


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(SEEDS), st.lists(EDIT, max_size=4))
def test_edited_documents_agree(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    for at, length, snippet in edits:
        at %= len(seed) + 1
        seed = seed[:at] + snippet + seed[at + length :]
    check(seed)


def test_the_generator_makes_documents_of_both_kinds() -> None:
    accepted = sum(isinstance(ours(generate(random.Random(number))), list) for number in range(400))
    assert 100 < accepted < 300
