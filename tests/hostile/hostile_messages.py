"""The table of hostile messages. A new attack is a new row; every way in (`ways_in.py`) then meets it.

`LURE` is a folder with files that no message may make anybody open: their content must appear nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECRET = "tops3cret-4711"
GOOD = {"good-1": b"<a><b>1</b></a>", "good-2": b"<a><b>1</b><b>2</b></a>"}
"""Neighbours: they get their matches, whatever comes with them."""


@dataclass(frozen=True)
class Hostile:
    """A message. ``codes`` are the errors that it may be refused with; none if it is to be handled like any other."""

    name: str
    make: Callable[[Path], bytes]
    codes: tuple[str, ...] = ()


def lay_lure(folder: Path) -> Path:
    """Make the files that must not be opened."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret.txt").write_text(SECRET)
    (folder / "secret.dtd").write_text(f'<!ENTITY leak "{SECRET}">\n<!ATTLIST a leaked CDATA "{SECRET}">\n')
    (folder / "secret.xml").write_text(f"<b>{SECRET}</b>")
    (folder / "secret.xsd").write_text(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="{SECRET}"/></xs:schema>'
    )
    return folder


def table(folder: Path) -> dict[str, bytes]:
    """The hostile messages by name, with the lure in ``folder``."""
    lay_lure(folder)
    return {row.name: row.make(folder) for row in MESSAGES}


def _utf7(text: str) -> bytes:
    """Only the markup that is looked for is hidden; the rest is the same in UTF-7."""
    return text.replace("<!", "+ADwAIQ-").encode("ascii")


def _entity(folder: Path, encoding: str = "") -> str:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' if encoding else ""
    return f'{declared}<!DOCTYPE a [<!ENTITY e SYSTEM "{_url(folder, "secret.txt")}">]><a><b>&e;</b></a>'


def _url(folder: Path, name: str) -> str:
    return (folder / name).as_uri()


def laughs(levels: int, times: int = 10) -> bytes:
    """A bomb of nested entities."""
    text = "<!DOCTYPE a [<!ENTITY e0 'hahahahaha'>"
    text += "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * times}'>" for n in range(1, levels + 1))
    return f"{text}]><a><b>&e{levels};</b></a>".encode()


def nested(depth: int) -> bytes:
    return b"<a>" + b"<b>" * (depth - 1) + b"</b>" * (depth - 1) + b"</a>"


EXPANSION = ("limit-expansion", "limit-entity-depth")
ENCODING = ("unsupported-encoding", "encoding-mismatch", "bad-encoding", "not-utf8")

MESSAGES = (
    # -- nothing outside of a message is opened
    Hostile("utf-7-entity", lambda f: _utf7(_entity(f, "UTF-7")), ENCODING),
    Hostile(
        "utf-7-all",
        lambda f: b'<?xml version="1.0" encoding="UTF-7"?>' + _entity(f).replace("<", "+ADw-").encode(),
        ENCODING,
    ),
    Hostile("entity", lambda f: _entity(f).encode()),
    Hostile("entity-latin-1", lambda f: _entity(f, "ISO-8859-1").replace("<b>", "<b>\xe9").encode("latin-1")),
    Hostile("entity-utf-16", lambda f: _entity(f).encode("utf-16")),
    Hostile("entity-utf-16-declared", lambda f: _entity(f, "UTF-16").encode("utf-16")),
    Hostile("entity-utf-16-without-mark", lambda f: _entity(f, "UTF-16LE").encode("utf-16-le")),
    Hostile("entity-utf-16-undeclared", lambda f: _entity(f).encode("utf-16-be")),
    Hostile("entity-utf-32", lambda f: _entity(f, "UTF-32").encode("utf-32"), ENCODING),
    Hostile("entity-utf-32-without-mark", lambda f: _entity(f, "UTF-32BE").encode("utf-32-be"), ENCODING),
    Hostile("entity-ebcdic", lambda f: _entity(f, "IBM037").encode("cp037"), ENCODING),
    Hostile("entity-shift-jis", lambda f: _entity(f, "Shift_JIS").encode("shift_jis"), ENCODING),
    Hostile("entity-iso-2022", lambda f: _entity(f, "ISO-2022-JP").encode("iso2022_jp"), ENCODING),
    Hostile(
        "entity-public",
        lambda f: f'<!DOCTYPE a [<!ENTITY e PUBLIC "x" "{_url(f, "secret.txt")}">]><a>&e;<b/></a>'.encode(),
    ),
    Hostile(
        "entity-in-an-attribute",
        lambda f: f'<!DOCTYPE a [<!ENTITY e SYSTEM "{_url(f, "secret.txt")}">]><a x="&e;"><b/></a>'.encode(),
        ("external-entity-in-attribute",),
    ),
    Hostile("entity-relative", lambda f: b'<!DOCTYPE a [<!ENTITY e SYSTEM "secret.txt">]><a><b>&e;</b></a>'),
    Hostile(
        "entity-network",
        lambda f: b'<!DOCTYPE a [<!ENTITY e SYSTEM "http://127.0.0.1:9/secret">]><a><b>&e;</b></a>',
    ),
    Hostile(
        "external-subset",
        lambda f: f'<!DOCTYPE a SYSTEM "{_url(f, "secret.dtd")}"><a><b>&leak;</b></a>'.encode(),
    ),
    Hostile(
        "external-subset-and-more",
        lambda f: f'<!DOCTYPE a SYSTEM "{_url(f, "secret.dtd")}" [<!ENTITY x "y">]><a><b>&leak;&x;</b></a>'.encode(),
    ),
    Hostile(
        "external-subset-utf-16",
        lambda f: f'<!DOCTYPE a SYSTEM "{_url(f, "secret.dtd")}"><a><b>&leak;</b></a>'.encode("utf-16"),
    ),
    Hostile(
        "parameter-entity",
        lambda f: f'<!DOCTYPE a [<!ENTITY % p SYSTEM "{_url(f, "secret.dtd")}"> %p;]><a><b>&leak;</b></a>'.encode(),
    ),
    Hostile(
        "parameter-entity-in-steps",
        lambda f: (
            f"<!DOCTYPE a [<!ENTITY % d \"&#60;!ENTITY leak SYSTEM '{_url(f, 'secret.txt')}'>\"> %d;]>"
            "<a><b>&leak;</b></a>"
        ).encode(),
    ),
    Hostile(
        "parameter-entity-in-a-value",
        lambda f: (
            f'<!DOCTYPE a [<!ENTITY % f SYSTEM "{_url(f, "secret.txt")}">'
            "<!ENTITY % d \"&#60;!ENTITY leak '&#37;f;'>\"> %d;]><a><b>&leak;</b></a>"
        ).encode(),
    ),
    Hostile(
        "inclusion",
        lambda f: (
            f'<a xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{_url(f, "secret.txt")}" parse="text"/></a>'
        ).encode(),
    ),
    Hostile(
        "schema-location",
        lambda f: (
            '<a xmlns:i="http://www.w3.org/2001/XMLSchema-instance" '
            f'i:noNamespaceSchemaLocation="{_url(f, "secret.xsd")}"><{SECRET[:3]}/></a>'
        ).encode(),
    ),
    Hostile(
        "stylesheet", lambda f: f'<?xml-stylesheet href="{_url(f, "secret.xml")}" type="text/xsl"?><a><b/></a>'.encode()
    ),
    # -- bombs
    Hostile("laughs", lambda f: laughs(9), EXPANSION),
    Hostile("laughs-utf-16", lambda f: laughs(9).decode().encode("utf-16"), EXPANSION),
    Hostile("laughs-of-484-bytes", lambda f: laughs(7).ljust(484), EXPANSION),
    Hostile(
        "quadratic", lambda f: b"<!DOCTYPE a [<!ENTITY e '%b'>]><a>%b</a>" % (b"x" * 50_000, b"&e;" * 50_000), EXPANSION
    ),
    Hostile(
        "quadratic-markup",
        lambda f: b"<!DOCTYPE a [<!ENTITY e '%b'>]><a>%b</a>" % (b"<b/>" * 10_000, b"&e;" * 10_000),
        EXPANSION,
    ),
    Hostile(
        "bomb-in-an-attribute",
        lambda f: b"<!DOCTYPE a [<!ENTITY e '%b'>]><a x='%b'/>" % (b"x" * 50_000, b"&e;" * 50_000),
        EXPANSION,
    ),
    Hostile(
        "bomb-of-default-attributes",
        lambda f: b"<!DOCTYPE a [<!ATTLIST b x CDATA '%b'>]><a>%b</a>" % (b"x" * 50_000, b"<b/>" * 50_000),
        EXPANSION,
    ),
    Hostile("cycle", lambda f: b"<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a>&e;</a>", ("recursive-entity",)),
    Hostile(
        "bomb-of-parameter-entities",
        lambda f: (
            b"<!DOCTYPE a [<!ENTITY % p0 '<!ENTITY x \"hahahahaha\">'>"
            + b"".join(b"<!ENTITY %% p%d '%b'>" % (n, b"&#37;p%d;" % (n - 1) * 10) for n in range(1, 10))
            + b"%p9;]><a><b>&x;</b></a>"
        ),
        EXPANSION,
    ),
    # -- too much of something
    Hostile("depth-3000", lambda f: nested(3000), ("limit-depth",)),
    Hostile("depth-1000", lambda f: nested(1000)),
    Hostile("attributes", lambda f: b"<a %b/>" % b" ".join(b"a%d=''" % n for n in range(5000)), ("limit-attributes",)),
    Hostile(
        "namespaces", lambda f: b"<a %b/>" % b" ".join(b"xmlns:a%d='u'" % n for n in range(5000)), ("limit-attributes",)
    ),
    Hostile("name", lambda f: b"<" + b"a" * 10_000 + b"/>", ("limit-name",)),
    Hostile("element-names", lambda f: b"<a>%b</a>" % b"".join(b"<n%d/>" % n for n in range(20_000))),
    Hostile("long-text", lambda f: b"<a><b>%b</b></a>" % (b"x" * (1 << 20))),
    Hostile("long-wrong-name", lambda f: b"<a><%b>%b</%b></a>" % (b"w" * 8000, b"x" * 8000, b"w" * 8000)),
    Hostile("many-wrong-elements", lambda f: b"<a>%b</a>" % (b"<c>xx</c>" * 100_000)),
    # -- bytes that are no text
    Hostile("nul", lambda f: b"<a>\0<b/></a>", ("bad-char",)),
    Hostile("nul-first", lambda f: b"\0<a/>", ("bad-encoding",)),
    Hostile("nul-in-a-name", lambda f: b"<a\0b/>", ("bad-char", "bad-tag", "bad-name")),
    Hostile("not-utf-8", lambda f: b"<a>\xff\xfe\xc0\xaf</a>", ("not-utf8",)),
    Hostile("surrogate", lambda f: b"<a>\xed\xa0\x80</a>", ("not-utf8",)),
    Hostile("half-a-surrogate", lambda f: "<a>x</a>".encode("utf-16-le").replace(b"x\0", b"\x00\xd8"), ENCODING),
    Hostile("wrong-declaration", lambda f: b"<?xml version='1.0' encoding='UTF-16'?><a/>", ENCODING),
    Hostile("empty", lambda f: b"", ("no-root",)),
    Hostile("blank", lambda f: b" \n ", ("no-root",)),
    Hostile("cut-off", lambda f: b"<a><b>", ("unclosed-element",)),
    Hostile("two-roots", lambda f: b"<a/><a/>", ("multiple-roots",)),
    Hostile("no-markup", lambda f: b"a" * 100_000, ("text-outside-root", "no-root")),
)
BY_NAME = {row.name: row for row in MESSAGES}
