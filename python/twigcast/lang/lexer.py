"""XPath 1.0 tokens. The lexical rules of section 3.7 decide here whether ``*`` and names are operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from twigcast.errors import QueryError, Span

MAX_LENGTH = 65_536

_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
NCNAME = f"[{_START}][{_START}\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040]*"


class NameRegex:
    """A regular expression with names in it, compiled when it is first used: their many ranges take long to compile."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]

    def __getattr__(self, method: str) -> Any:
        found = getattr(re.compile(self._pattern, self._flags), method)
        setattr(self, method, found)
        return found


# A name and its prefix are one token: no white space around the colon. "(?!:)" leaves the "::" of an axis alone.
TOKEN = NameRegex(
    rf"""(?P<space>[ \t\r\n]+)
    |(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    |(?P<literal>"[^"]*"|'[^']*')
    |(?P<wildcard>(?:{NCNAME}:|\{{[^{{}}]*\}})\*)
    |(?P<name>(?:{NCNAME}:(?!:)|\{{[^{{}}]*\}})?{NCNAME})
    |(?P<op>//|::|\.\.|!=|<=|>=|[/()\[\]@,|+\-=<>*.$])""",
    re.VERBOSE,
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# After one of these (or at the start) an operand follows, so that a name or "*" is not an operator (section 3.7).
BEFORE_OPERAND = frozenset(
    ("@", "::", "(", "[", ",", "$", "and", "or", "mod", "div", "*", "/", "//", "|", "+", "-")
) | {"=", "!=", "<", "<=", ">", ">="}
OPERATOR_NAMES = {"and": "and", "or": "or", "mod": "mod", "div": "div", "AND": "and", "OR": "or"}

_HINTS = {
    "!": "for negation write not(...); for inequality write !=",
    "&": "write 'and' for a conjunction",
    ";": "one subscription is one expression, without ';'",
    ":": "a prefixed name has no spaces around ':', and an axis is followed by '::'",
    "{": "a name with its namespace is written {uri}name",
    "?": "XPath 1.0 has no '?'",
    "#": "XPath 1.0 has no function references",
    "%": "the remainder is written 'mod'",
}
_QUOTES = "\u2018\u2019\u201c\u201d\u00ab\u00bb`"


class Token(NamedTuple):
    """``kind`` is number, literal, name, wildcard, op (operators and punctuation) or end."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def check_text(source: str) -> None:
    """What no query may be, in any language: too long, or with characters that no message can hold."""
    if len(source) > MAX_LENGTH:
        raise QueryError(
            "too-long",
            f"the query has {len(source)} characters; the limit is {MAX_LENGTH}",
            hint="split it into several subscriptions",
        )
    if bad := _NOT_XML.search(source):
        raise QueryError(
            "bad-character",
            f"the character U+{ord(bad[0]):04X} cannot occur in XML",
            hint="remove it; no message can contain it",
            source=source,
            span=Span(*bad.span()),
        )


def tokenize(source: str) -> list[Token]:
    """The tokens of ``source``, closed by one of kind ``end``."""
    check_text(source)
    tokens: list[Token] = []
    at, operator_next = 0, False
    while at < len(source):
        found = TOKEN.match(source, at)
        if found is None:
            raise bad_character(source, at)
        at = found.end()
        kind, text = found.lastgroup or "", found[0]
        if kind == "space":
            continue
        if kind == "name" and operator_next and text in OPERATOR_NAMES:
            kind, text = "op", OPERATOR_NAMES[text]
            operator_next = False
        elif text == "*" and not operator_next:
            kind, operator_next = "wildcard", True
        else:
            operator_next = kind != "op" or text not in BEFORE_OPERAND
        tokens.append(Token(kind, text, found.start(), at))
    tokens.append(Token("end", "", len(source), len(source)))
    return tokens


def bad_character(source: str, at: int) -> QueryError:
    char = source[at]
    if char in "\"'":
        return QueryError(
            "unterminated-literal",
            "this string has no closing quote",
            hint=f"add {char} at its end" + ("; a string that holds ' goes in double quotes" if char == "'" else ""),
            source=source,
            span=Span(at, len(source)),
        )
    hint = _HINTS.get(char)
    if char in _QUOTES:
        hint = "strings are quoted with \" or '"
    return QueryError(
        "bad-character", f"{char!r} has no meaning in XPath here", hint=hint, source=source, span=Span(at, at + 1)
    )
