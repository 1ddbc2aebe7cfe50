"""The words of syntax errors: what was found, what was wanted, and what the author probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from twigcast.common.text import misspelt
from twigcast.errors import QueryError, Span
from twigcast.lang import ast
from twigcast.lang.functions import FUNCTIONS, LATER_XPATH
from twigcast.lang.lexer import Token

_CLOSING = {"(": ")", "[": "]"}
_WORD_OPERATORS = {
    "eq": "=",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "is": "=",
    "union": "|",
    "idiv": "floor(a div b)",
    "in": "=",
    "xor": "!= between boolean(a) and boolean(b)",
}
OPERATORS = ("and", "or", "div", "mod")
_LINKS = {"JOIN": "JOIN", "join": "JOIN", "FOLLOWED": "FOLLOWED BY", "followed": "FOLLOWED BY"}
_NODE_TESTS = ("text", "node", "comment", "processing-instruction")
_LATER_OPERATORS = frozenset(("to", "intersect", "except", "instance", "cast", "castable", "treat", "return", "then"))


def unexpected(
    source: str,
    tokens: Sequence[Token],
    at: int,
    wanted: str,
    brackets: Sequence[Token],
    keywords: Sequence[str] = OPERATORS,
) -> QueryError:
    """Return the error for the token at ``at``, which does not fit. ``brackets`` are those still open, outermost first.

    ``keywords`` are the words that may stand after an operand, in case one of them is misspelt."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else token
    if token.text == "$" or (before is not None and before.text == "$"):
        return _variable(source, tokens, at)
    if token.kind == "end":
        if brackets:
            opened = brackets[-1]
            return QueryError(
                "missing-bracket",
                f"this {opened.text!r} is never closed",
                hint=f"add {_CLOSING[opened.text]!r}",
                source=source,
                span=opened.span,
            )
        ends = f" after {before.text!r}" if before else ""
        hint = None
        if before and before.text in ("/", "//"):
            hint = f"name a step, or drop the {before.text!r}"
        return QueryError(
            "unexpected-end",
            f"the query ends{ends} where {wanted} has to follow",
            hint=hint,
            source=source,
            span=token.span,
        )
    if token.text in (")", "]") and wanted == "the end of the query":
        return QueryError(
            "missing-bracket",
            f"this {token.text!r} closes nothing",
            hint=f"remove it, or open it with {'(' if token.text == ')' else '['!r}",
            source=source,
            span=token.span,
        )
    if token.kind == "name" and after.text == "(" and wanted in ("a step", "a node test"):
        return _function_as_step(source, token)
    return QueryError(
        "unexpected-token",
        f"found {token.text!r} where {wanted} should be",
        hint=_misspelling(token, before, keywords) or _guess(token, before, wanted, brackets),
        source=source,
        span=token.span,
    )


def _misspelling(token: Token, before: Token | None, keywords: Sequence[str]) -> str | None:
    """Return a hint if a name stands where a keyword should, and is like one."""
    if token.kind != "name" or before is None:
        return None
    if before.text in ("not", "NOT"):
        return f"write not({token.text})"
    if before.kind not in ("name", "literal", "number", "wildcard") and before.text not in (")", "]", ".", ".."):
        return None
    if token.text in _LINKS:
        return f"{_LINKS[token.text]} ties two blocks of a correlation: A {_LINKS[token.text]}{{$x = $y, 5 min}} B"
    found = misspelt(token.text, keywords)
    return None if found is None or before.end == token.start else f"did you mean {found!r}?"


def _guess(token: Token, before: Token | None, wanted: str, brackets: Sequence[Token]) -> str | None:
    """What the author may have meant. Best guess first; None is better than a wrong guess."""
    if token.kind == "name":
        if token.text in _WORD_OPERATORS:
            return f"XPath 1.0 writes {_WORD_OPERATORS[token.text]} for {token.text!r}"
        if token.text in _LATER_OPERATORS:
            return f"{token.text!r} belongs to a later XPath; XPath 1.0 has no such operator"
        if token.text.lower() in ("and", "or"):
            return f"write {token.text.lower()!r}"
        if before is not None and before.kind == "number" and before.end == token.start:
            return "a name does not begin with a digit"
        if before is not None and before.kind in ("name", "literal", "number", "wildcard"):
            return "join two tests with 'and' or 'or', two steps with '/'"
    if token.text == "=" and before is not None:
        if before.text == "=":
            return "equality is a single '='"
        if before.text in ("<", ">"):
            return f"write {before.text}= without a space"
    if token.text == ">" and before is not None and before.text == "<":
        return "inequality is written !="
    if token.text == "|" and before is not None and before.text == "|":
        return "write 'or' between conditions, 'concat(a, b)' to join strings, a single '|' for a union"
    if token.text == "[" and before is not None and before.text in (".", ".."):
        return f"a predicate needs a full step: {'self' if before.text == '.' else 'parent'}::node()[...]"
    if token.text == "]" and before is not None and before.text == "[":
        return "put a condition or a position between the brackets"
    if token.text in (")", "]") and brackets and _CLOSING[brackets[-1].text] != token.text:
        opened = brackets[-1]
        return f"the {opened.text!r} at column {opened.start + 1} is still open: add {_CLOSING[opened.text]!r}"
    if token.text in ("/", "//") and before is not None and before.text in ("/", "//"):
        return "one '/' steps to a child, '//' to any depth"
    if token.text == "," and wanted in ("']'", "')'", "the end of the query"):
        return "XPath 1.0 has no lists; join conditions with 'and' or 'or', paths with '|'"
    if token.kind == "literal" and before is not None and before.text == "@":
        return "an attribute name is not quoted"
    if token.text == "(" and before is not None and before.text in ("/", "//"):
        return "a parenthesis cannot be a step in XPath 1.0; write the alternatives in full, joined by '|'"
    return None


def _variable(source: str, tokens: Sequence[Token], at: int) -> QueryError:
    dollar = at if tokens[at].text == "$" else at - 1
    name = tokens[dollar + 1] if dollar + 1 < len(tokens) else tokens[dollar]
    first = tokens[dollar - 1].text if dollar else ""
    hint = "a subscription has no variables; put the value itself in its place"
    if first in ("for", "let", "some", "every"):
        hint = f"{first!r} belongs to a later XPath; a path is already true when any of its nodes fits"
    return QueryError(
        "variable",
        f"${name.text if name.kind == 'name' else ''} is a variable, and nothing binds it",
        hint=hint,
        source=source,
        span=Span(tokens[dollar].start, name.end if name.kind == "name" else tokens[dollar].end),
    )


def _function_as_step(source: str, token: Token) -> QueryError:
    if token.text in FUNCTIONS:
        hint = f"in XPath 1.0 the function goes around the path: {token.text}(path)"
        if FUNCTIONS[token.text].least > 1 or token.text == "not":
            hint = f"in XPath 1.0 a function goes into a predicate: [{token.text}(...)]"
    elif (near := misspelt(token.text, _NODE_TESTS)) is not None:
        hint = f"did you mean {near}()?"
    else:
        hint = LATER_XPATH.get(token.text, "the node tests are text(), node(), comment(), processing-instruction()")
    return QueryError(
        "function-as-step", f"{token.text}() cannot be a step of a path", hint=hint, source=source, span=token.span
    )


def unknown_function(source: str, token: Token) -> QueryError:
    name = token.text
    if name in LATER_XPATH:
        hint = LATER_XPATH[name]
    elif ":" in name or name.startswith("{"):
        hint = "extension functions are not supported; the core functions of XPath 1.0 have no prefix"
    else:
        close = difflib.get_close_matches(name.lower(), [*FUNCTIONS, *_NODE_TESTS], 1)
        hint = f"did you mean {close[0]}()?" if close else "the functions are " + ", ".join(sorted(FUNCTIONS))
    return QueryError("unknown-function", f"there is no function {name}()", hint=hint, source=source, span=token.span)


def wrong_arity(source: str, name: str, given: int, span: Span) -> QueryError:
    least, most = FUNCTIONS[name].least, FUNCTIONS[name].most
    if most is None:
        takes = f"{least} or more arguments"
    elif least == most:
        takes = "no arguments" if most == 0 else f"{most} argument{'s' * (most > 1)}"
    else:
        takes = f"{least} or {most} arguments" if least else "at most 1 argument"
    return QueryError("wrong-arity", f"{name}() takes {takes}, not {given}", source=source, span=span)


def type_hint(expr: ast.Expr) -> str | None:
    if isinstance(expr, ast.Call):
        return f"{expr.name}() gives a {ast.type_of(expr)}; put the path inside the function"
    if isinstance(expr, ast.String):
        return "write the path without quotes"
    return None
