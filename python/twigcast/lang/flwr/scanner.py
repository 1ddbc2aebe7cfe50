"""The characters of XQuery: white space and comments, strings, and where an embedded XPath expression ends.

An expression ends before a clause keyword that stands where an operator would, a ``,`` or closing bracket that it did
not open, or a ``<`` where an operand would stand: that is an element constructor.
"""

from __future__ import annotations

import re

from twigcast.errors import QueryError, Span
from twigcast.lang.lexer import BEFORE_OPERAND, NCNAME, OPERATOR_NAMES, TOKEN, NameRegex, Token, bad_character

KEYWORDS = frozenset(
    ("for", "let", "where", "order", "stable", "return", "ascending", "descending", "empty", "collation", "group")
)
SPACE = " \t\r\n"
ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
WORD = NameRegex(NCNAME)
QNAME = NameRegex(f"(?:{NCNAME}:)?{NCNAME}")
_REFERENCE = re.compile(r"&(?:#(?P<dec>[0-9]{1,8})|#x(?P<hex>[0-9A-Fa-f]{1,8})|(?P<name>[A-Za-z]+));")
_LITERAL = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")
_VALID = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def skip_space(source: str, at: int) -> int:
    """Past white space and (possibly nested) comments."""
    while at < len(source):
        if source[at] in SPACE:
            at += 1
        elif source.startswith("(:", at):
            at = _comment_end(source, at)
        else:
            break
    return at


def _comment_end(source: str, start: int) -> int:
    depth, at = 0, start
    while True:
        opened, closed = source.find("(:", at), source.find(":)", at)
        if closed < 0:
            raise QueryError(
                "unterminated-comment",
                "this comment is never closed",
                hint="end it with :)",
                source=source,
                span=Span(start, start + 2),
            )
        if 0 <= opened < closed:
            depth, at = depth + 1, opened + 2
        else:
            depth, at = depth - 1, closed + 2
            if depth == 0:
                return at


def reference(source: str, at: int) -> tuple[str, int]:
    """The character of a reference such as ``&amp;`` or ``&#65;``, and where it ends."""
    found = _REFERENCE.match(source, at)
    char = None
    if found is not None:
        if found["name"]:
            char = ENTITIES.get(found["name"])
        else:
            code = int(found["dec"]) if found["dec"] else int(found["hex"], 16)
            char = chr(code) if code < 0x110000 and _VALID.match(chr(code)) else None
    if found is None or char is None:
        raise QueryError(
            "bad-reference",
            "this '&' begins no reference that XQuery knows",
            hint="write &amp; for the character itself; there are also &lt; &gt; &quot; &apos; and &#...;",
            source=source,
            span=Span(at, found.end() if found else at + 1),
        )
    return char, found.end()


def literal(source: str, at: int) -> tuple[str, int] | None:
    """A string literal: quotes are doubled, references expand. None if there is none here."""
    found = _LITERAL.match(source, at)
    if found is None:
        return None
    quote, inner = found[0][0], found[0][1:-1].replace(found[0][0] * 2, found[0][0])
    if "&" not in inner:
        return inner, found.end()
    parts: list[str] = []
    place, end = at + 1, found.end() - 1
    while place < end:
        if source[place] == "&":
            char, place = reference(source, place)
            parts.append(char)
        else:
            parts.append(source[place])
            place += 2 if source.startswith(quote * 2, place) else 1
    return "".join(parts), found.end()


def expression(source: str, at: int) -> list[Token]:
    """The tokens of the expression at ``at``; the ``end`` token lies where the expression stops."""
    tokens: list[Token] = []
    depth, operator_next = 0, False
    while True:
        at = skip_space(source, at)
        if at >= len(source) or source[at] in "};":
            break
        if source[at] in "\"'":
            string = literal(source, at)
            if string is None:
                raise bad_character(source, at)
            # In quotes again, for the XPath parser takes the first and last character off.
            tokens.append(Token("literal", f'"{string[0]}"', at, string[1]))
            at, operator_next = string[1], True
            continue
        # XQuery 3 writes Q{uri}name where we take {uri}name too.
        start = at
        if source.startswith("Q{", at) and (named := TOKEN.match(source, at + 1)) and named[0][0] == "{":
            at += 1
        found = TOKEN.match(source, at)
        if found is None:
            if source[at] == "{":
                break
            raise bad_character(source, at)
        kind, text = found.lastgroup or "", found[0]
        if kind == "op":
            if text == "<" and not operator_next:
                if depth:
                    raise QueryError(
                        "element-in-expression",
                        "an element cannot stand inside an expression",
                        hint="put the element in the return clause, and the expression in braces inside it",
                        source=source,
                        span=Span(at, at + 1),
                    )
                break
            if text in (")", "]", ",") and depth == 0:
                break
            depth += (text in "([") - (text in ")]")
        if kind == "name" and operator_next and depth == 0 and text in KEYWORDS:
            break
        at = found.end()
        if kind == "name" and operator_next and text in OPERATOR_NAMES:
            kind, text, operator_next = "op", OPERATOR_NAMES[text], False
        elif text == "*" and not operator_next:
            kind, operator_next = "wildcard", True
        else:
            operator_next = kind != "op" or text not in BEFORE_OPERAND
        tokens.append(Token(kind, text, start, at))
    stop = tokens[-1].end if tokens else at
    tokens.append(Token("end", "", stop, stop))
    return tokens
