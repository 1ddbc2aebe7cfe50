"""The tokens of XSCL's blocks and join predicates: XPath's, and marks that bind variables (``->x``, ``AS $x``).

A variable's name may end in primes, as the paper writes ``x5'``. A name in the place of an operator is a keyword.
"""

from __future__ import annotations

import re

from twigcast.common.text import misspelt
from twigcast.errors import QueryError, Span
from twigcast.lang.flwr.scanner import skip_space
from twigcast.lang.lexer import BEFORE_OPERAND, NCNAME, OPERATOR_NAMES, TOKEN, NameRegex, Token, bad_character

VARIABLE = NameRegex(rf"(?:(?!->){NCNAME})'*")
_ARROW = re.compile(r"->|→|⟶")


_FIRST = NameRegex(rf"\s*({NCNAME})\s+(?:({NCNAME})|\*\s+{NCNAME}|[<$])")
_BRACES = NameRegex(rf"({NCNAME})\s*\{{[^{{}}]*,[^{{}}]*\}}")


def misspelt_clause(source: str) -> bool:
    """Tell whether a text starts with a misspelt SELECT or FROM. No XPath expression starts with two names."""
    found = _FIRST.match(source)
    if found is None or found[2] in OPERATOR_NAMES:
        return False
    return found[1].upper() not in ("SELECT", "FROM") and misspelt(found[1], ("SELECT", "FROM")) is not None


def misspelt_link(source: str) -> bool:
    """Tell whether a text has a misspelt JOIN{...} or FOLLOWED BY{...}. In XPath no name stands before such braces."""
    return any(
        found[1] not in OPERATOR_NAMES and misspelt(found[1], ("JOIN", "BY")) is not None
        for found in _BRACES.finditer(source)
    )


def variable_at(source: str, at: int) -> tuple[str, int]:
    """The name of a variable, with or without ``$``, and where it ends."""
    at = skip_space(source, at)
    if source.startswith("$", at):
        at += 1
    found = VARIABLE.match(source, at)
    if found is None:
        raise QueryError(
            "bad-variable",
            "the name of a variable has to follow",
            hint="such as //author->a or //author AS $a",
            source=source,
            span=Span(at, at + 1),
        )
    name = found[0]
    # "-" may end a name of XML, but "->" is the arrow.
    if name.endswith("-") and source.startswith(">", found.end()):
        name = name.rstrip("-")
    return name, at + len(name)


def scan(source: str, at: int) -> list[Token]:
    """The tokens from ``at`` to the end of a block or predicate; the ``end`` token lies there."""
    tokens: list[Token] = []
    depth, operator_next = 0, False
    while at < len(source):
        char = source[at]
        if char in "-→⟶" and (arrow := _ARROW.match(source, at)):
            name, end = variable_at(source, arrow.end())
            tokens.append(Token("mark", name, at, end))
            at, operator_next = end, True
            continue
        if char == "(" and source.startswith("(:", at):
            at = skip_space(source, at)
            continue
        found = TOKEN.match(source, at)
        if found is None:
            if char in "{}" and depth == 0:
                break
            raise bad_character(source, at)
        kind, text, end = found.lastgroup or "", found[0], found.end()
        if kind == "space":
            at = end
            continue
        if kind == "name":
            if text.endswith("-") and source.startswith(">", end):
                text = text.rstrip("-")
                end = at + len(text)
            while source.startswith("'", end):
                text, end = text + "'", end + 1
            if operator_next and text in ("AS", "as", "As"):
                name, end = variable_at(source, end)
                tokens.append(Token("mark", name, at, end))
                at = end
                continue
            if operator_next and text in OPERATOR_NAMES:
                kind, text = "op", OPERATOR_NAMES[text]
            elif operator_next:
                break
        elif kind == "op" and depth == 0 and text in (")", "]", ","):
            break
        if kind == "op":
            depth += (text in "([") - (text in ")]")
        if text == "*" and not operator_next:
            kind, operator_next = "wildcard", True
        else:
            operator_next = kind != "op" or text not in BEFORE_OPERAND
        tokens.append(Token(kind, text, at, end))
        at = end
    stop = tokens[-1].end if tokens else at
    tokens.append(Token("end", "", stop, stop))
    return tokens
