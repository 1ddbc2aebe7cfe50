"""The texts of syntax errors: code, words, caret and hint, as the author of a query sees them."""

from __future__ import annotations

import pytest

from twigcast.errors import QueryError
from twigcast.lang.xpath import parse


def shown(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text, {"news": "urn:n"})
    return str(caught.value)


def test_an_error_reads_like_a_compiler_message() -> None:
    assert shown("//item[contain(title, 'x')]") == (
        "unknown-function: there is no function contain()\n"
        "  //item[contain(title, 'x')]\n"
        "         ^^^^^^^\n"
        "hint: did you mean contains()?"
    )


def test_the_caret_is_under_the_right_line_of_a_long_query() -> None:
    assert shown("//item[\n\ttitle = 'x'\n\tand price >> 3\n]") == (
        "unexpected-token: found '>' where an expression should be\n   and price >> 3\n              ^"
    )


@pytest.mark.parametrize(
    ("text", "code", "words", "under", "hint"),
    [
        ("", "empty-query", "is empty", "", "//order/item"),
        ("  ", "empty-query", "is empty", " ", "//order/item"),
        ("/a/b/", "unexpected-end", "ends after '/' where a step has to follow", "", "drop the '/'"),
        ("a//", "unexpected-end", "ends after '//'", "", "drop the '//'"),
        ("a = ", "unexpected-end", "ends after '=' where an expression", "", None),
        ("/a[b", "missing-bracket", "this '[' is never closed", "[", "add ']'"),
        ("count(/a", "missing-bracket", "this '(' is never closed", "(", "add ')'"),
        ("/a[b]]", "missing-bracket", "this ']' closes nothing", "]", "remove it, or open it with '['"),
        ("/a)", "missing-bracket", "this ')' closes nothing", ")", "open it with '('"),
        ("/a[not(b]", "unexpected-token", "found ']'", "]", "the '(' at column 7 is still open"),
        ("/a[]", "unexpected-token", "found ']' where an expression", "]", "a condition or a position"),
        ("a b", "unexpected-token", "found 'b'", "b", "'and' or 'or'"),
        ("a And b", "unexpected-token", "found 'And'", "And", "did you mean 'and'"),
        ("/a/b = 'it's'", "unterminated-literal", "no closing quote", "'", "double quotes"),
        ('@x = "y', "unterminated-literal", "no closing quote", '"y', 'add "'),
        ("chidl::a", "unknown-axis", "no axis 'chidl'", "chidl", "did you mean child::?"),
        ("zzz::a", "unknown-axis", "no axis 'zzz'", "zzz", "the axes are child"),
        ("zzz(a)", "unknown-function", "no function zzz()", "zzz", "the functions are boolean"),
        ("fn:count(a)", "unknown-function", "fn:count()", "fn:count", "extension functions are not supported"),
        ("matches(a, 'b')", "unknown-function", "matches()", "matches", "no regular expressions"),
        ("lower-case(a) = 'b'", "unknown-function", "lower-case()", "lower-case", "translate("),
        ("exists(a)", "unknown-function", "exists()", "exists", "write the path itself"),
        ("if (a) then b else c", "unknown-function", "if()", "if", "has no 'if'"),
        ("not()", "wrong-arity", "not() takes 1 argument, not 0", "not()", None),
        ("contains(a)", "wrong-arity", "takes 2 arguments, not 1", "contains(a)", None),
        ("true(1)", "wrong-arity", "takes no arguments, not 1", "true(1)", None),
        ("concat(a)", "wrong-arity", "2 or more arguments, not 1", "concat(a)", None),
        ("substring(a)", "wrong-arity", "2 or 3 arguments, not 1", "substring(a)", None),
        ("string(a, b)", "wrong-arity", "at most 1 argument, not 2", "string(a, b)", None),
        ("new:a", "undeclared-prefix", "'new' is not declared", "new", "did you mean 'news'?"),
        ("//x:a", "undeclared-prefix", "'x' is not declared", "x", "namespaces={'x': 'URI'}"),
        ("//a[@x:*]", "undeclared-prefix", "'x' is not declared", "x", "{uri}*"),
        ("$x = 1", "variable", "$x is a variable", "$x", "put the value itself"),
        ("for $i in a return b", "variable", "$i is a variable", "$i", "'for' belongs to a later XPath"),
        ("some $i in a satisfies b", "variable", "$i is a variable", "$i", "already true when any"),
        ("//a/string()", "function-as-step", "string() cannot be a step", "string", "around the path: string(path)"),
        ("//a/contains(., 'x')", "function-as-step", "contains()", "contains", "[contains(...)]"),
        ("//a/lower-case(.)", "function-as-step", "lower-case()", "lower-case", "translate("),
        ("a/(b|c)", "unexpected-token", "found '('", "(", "joined by '|'"),
        ("a eq 1", "unexpected-token", "found 'eq'", "eq", "writes = for 'eq'"),
        ("1 to 3", "unexpected-token", "found 'to'", "to", "later XPath"),
        ("a intersect b", "unexpected-token", "found 'intersect'", "intersect", "later XPath"),
        ("a == 1", "unexpected-token", "found '='", "=", "a single '='"),
        ("a <> 1", "unexpected-token", "found '>'", ">", "!="),
        ("a || b", "unexpected-token", "found '|'", "|", "'or'"),
        ("a && b", "bad-character", "'&'", "&", "'and'"),
        ("!a", "bad-character", "'!'", "!", "not(...)"),
        ("a = “x”", "bad-character", "'“'", "“", "quoted with"),
        ("a: b", "bad-character", "':'", ":", "no spaces"),
        ("a\0", "bad-character", "U+0000", "\0", "remove it"),
        ("(a, b)", "unexpected-token", "found ','", ",", "no lists"),
        ("1a", "unexpected-token", "found 'a'", "a", "does not begin with a digit"),
        ("//a/.[b]", "unexpected-token", "found '['", "[", "self::node()[...]"),
        ("@'x'", "unexpected-token", "found \"'x'\"", "'x'", "not quoted"),
        ("count('a')", "type-error", "a node-set, but this is a string", "'a'", "without quotes"),
        ("count(string(a))", "type-error", "but this is a string", "string(a)", "string() gives a string"),
        ("(1)[2]", "type-error", "what a predicate filters", "1", None),
        ("'a'/b", "type-error", "what a path starts from", "'a'", "without quotes"),
        ("a | 1", "type-error", "an operand of '|'", "1", None),
    ],
)
def test_error(text: str, code: str, words: str, under: str, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, {"news": "urn:n"})
    error = caught.value
    assert error.code == code
    assert words in error.text
    assert error.span is not None
    assert text[error.span.start : error.span.end] == under
    assert (hint in error.hint) if hint and error.hint else error.hint == hint
